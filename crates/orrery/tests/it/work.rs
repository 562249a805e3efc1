//! The commands that give agents work and say what became of it, on a real plane. The agent here is a shell.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::agents::{World, task};

fn shell(name: &str, script: &str) -> Value {
    json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": { "name": name },
        "spec": { "serviceAccountName": "default", "workspaceDir": "/workspace", "command": ["sh", "-c", script] } })
}

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn run_prints_the_log_and_ends_with_the_result() {
    let world = World::start();
    world.apply(&[shell("good", "cat task.md notes.txt"), shell("bad", "printf '\\033[31mtrying\\033[0m\\n'; exit 3")]);
    let notes = world.data().join("notes.txt");
    std::fs::write(&notes, "from a file").unwrap();
    let notes = notes.to_str().unwrap();
    let good = words(&world.orrery(&["run", "say it\n", "--template", "good", "--context", notes]));
    assert_eq!((good.0, good.1.as_str()), (Some(0), "say it\nfrom a file\n"), "{}", good.2);
    let bad = words(&world.orrery(&["run", "say it", "--template", "bad", "--name", "broken"]));
    assert_eq!((bad.0, bad.1.as_str()), (Some(1), "trying\n"), "an agent's colours are for terminals");
    assert!(bad.2.contains("exit code 3"), "{}", bad.2);
    let why = words(&world.orrery(&["why", "task", "broken"])).1;
    assert!(why.contains("Task broken: Failed") && why.contains("What to do: orrery logs broken"), "{why}");
    let nobody = words(&world.orrery(&["run", "say it"]));
    assert!(nobody.0 == Some(1) && nobody.2.contains("there is no Agent in namespace default"), "{}", nobody.2);
}

#[test]
fn run_ends_with_the_result_though_the_plane_was_away() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut world = World::start_with(&["--api-port", port.to_string().leak()]);
    world.apply(&[shell("slow", "echo started; until [ -e /tmp/go ]; do sleep 0.1; done; exit 3")]);
    let program = Path::new(env!("CARGO_BIN_EXE_orrery"));
    let mut command = world.command(program, &["run", "wait", "--template", "slow", "--name", "long"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    world.restart();
    world.kubectl(&["exec", "long-pod", "-c", "agent", "--", "touch", "/tmp/go"]);
    let ended = words(&running.wait_with_output().unwrap());
    assert!(ended.0 == Some(1) && ended.2.contains("exit code 3"), "{}", ended.2);
}

#[test]
fn the_log_of_a_stopped_task_outlives_its_pod() {
    let world = World::start();
    world.apply(&[shell("slow", "echo started; trap 'echo told to stop; exit 0' TERM; while :; do sleep 0.1; done")]);
    world.apply(&[task("long", ("templateRef", "slow"), "wait")]);
    world.wait("pod/long-pod", "create");
    world.wait("pod/long-pod", "jsonpath={.status.containerStatuses[0].started}=true");
    let stopped = words(&world.orrery(&["stop", "long"]));
    assert_eq!((stopped.0, stopped.1.as_str()), (Some(0), "task/long is stopping\n"), "{}", stopped.2);
    world.wait("task/long", "jsonpath={.status.phase}=Completed");
    world.wait("pod/long-pod", "delete");
    let log = words(&world.orrery(&["logs", "long"]));
    assert_eq!((log.0, log.1.as_str()), (Some(0), "started\ntold to stop\n"), "{}", log.2);
}

#[test]
fn an_image_that_cannot_be_had_is_said_at_once_and_fails_after_a_while() {
    let world = World::start_with(&["--image-patience", "4s"]);
    let mut template = shell("far", "true");
    template["spec"]["executorImage"] = json!("registry.example.test/nothing:1");
    world.apply(&[template, task("far", ("templateRef", "far"), "go")]);
    world.wait("task/far", "condition=Ready=false");
    let why = words(&world.orrery(&["why", "task", "far"])).1;
    assert!(why.contains("registry.example.test/nothing:1") && why.contains("--image-map"), "{why}");
    world.wait("task/far", "condition=Failed");
    let task = world.task("far");
    let conditions = task["status"]["conditions"].as_array().unwrap();
    let failed = conditions.iter().find(|condition| condition["type"] == "Failed").unwrap();
    assert!(failed["reason"].as_str().unwrap().contains("Image"), "{failed}");
    world.wait("pod/far-pod", "delete");
}

/// The executor's image has a shell and nothing else; the agent comes from its own.
#[test]
fn a_task_runs_in_an_image_that_was_imported() {
    let world = World::start();
    let temporary = tempfile::tempdir().unwrap();
    let archive = crate::images::write_archive(temporary.path());
    let imported = words(&world.orrery(&["image", "import", archive.to_str().unwrap()]));
    assert!(imported.2.contains("imported example.com/tool:1"), "{}", imported.2);
    let script = "busybox cat /note task.md; [ -e /usr/bin/git ] || echo alone; [ -x /tools/opencode ] && echo armed";
    let mut template = shell("tool", script);
    template["spec"]["executorImage"] = json!("example.com/tool:1");
    world.apply(&[template]);
    let ran = words(&world.orrery(&["run", "say it\n", "--template", "tool"]));
    assert_eq!((ran.0, ran.1.as_str()), (Some(0), "from the image\nsay it\nalone\narmed\n"), "{}", ran.2);
}

#[test]
fn a_schedule_is_triggered_suspended_and_resumed() {
    let world = World::start();
    world.apply(&[
        shell("good", "echo done"),
        json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask", "metadata": { "name": "nightly" },
            "spec": { "schedule": "0 3 1 1 *", "taskTemplate": { "spec": { "templateRef": { "name": "good" }, "description": "x" } } } }),
    ]);
    world.wait("crontask/nightly", "condition=Ready");
    assert_eq!(words(&world.orrery(&["trigger", "nightly"])).1, "crontask/nightly was triggered\n");
    world.wait("crontask/nightly", "jsonpath={.status.totalExecutions}=1");
    world.wait("crontask/nightly", "jsonpath={.status.lastSuccessfulTime}");
    assert_eq!(words(&world.orrery(&["suspend", "crontask", "nightly"])).1, "crontask/nightly suspended\n");
    world.wait("crontask/nightly", "condition=Ready=false");
    let why = words(&world.orrery(&["why", "crontask", "nightly"])).1;
    assert!(why.contains("What to do: orrery resume crontask nightly"), "{why}");
    assert_eq!(words(&world.orrery(&["resume", "crontask", "nightly"])).1, "crontask/nightly resumed\n");
    world.wait("crontask/nightly", "condition=Ready");
}

#[test]
fn an_agent_is_suspended_and_resumed_and_its_tasks_say_what_they_wait_for() {
    let world = World::start();
    world.apply(&[crate::agents::agent("sleeper", &json!({}))]);
    assert_eq!(words(&world.orrery(&["suspend", "agent", "sleeper"])).1, "agent/sleeper suspended\n");
    world.wait("agent/sleeper", "condition=Suspended");
    world.wait("deploy/sleeper-server", "jsonpath={.spec.replicas}=0");
    world.apply(&[task("waits", ("agentRef", "sleeper"), "x")]);
    world.wait("task/waits", "jsonpath={.status.phase}=Queued");
    let why = words(&world.orrery(&["why", "task", "waits"])).1;
    assert!(why.contains("AgentSuspended") && why.contains("What to do: orrery resume agent sleeper"), "{why}");
    assert_eq!(words(&world.orrery(&["resume", "agent", "sleeper"])).1, "agent/sleeper resumed\n");
    world.wait("deploy/sleeper-server", "jsonpath={.spec.replicas}=1");
    assert_eq!(words(&world.orrery(&["stop", "waits"])).1, "task/waits is stopping\n");
    world.wait("task/waits", "condition=Stopped");
    let missing = words(&world.orrery(&["stop", "nobody"]));
    assert!(missing.0 == Some(1) && missing.2.contains("\"nobody\" not found"), "{}", missing.2);
}
