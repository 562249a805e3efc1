//! Restarts, probes, hooks, exec, limits, security contexts.

use apiserver::pods::{ExecRequest, Exit, Output, PodAccess as _};
use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use serde_json::{Value, json};

use crate::plane::{World, container_state, phase};

fn main_only(script: &str) -> Value {
    json!({ "containers": [{ "name": "main", "command": ["sh", "-c", script] }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_is_seen_and_its_last_words_kept() {
    let world = World::new().await;
    world.create("crash", main_only("echo attempt; echo because >/dev/termination-log; exit 4")).await;
    let pod = world
        .until("crash", |pod| {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            statuses.is_some() && container_state(pod, 0)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    let state = container_state(&pod, 0);
    assert_eq!(state["restartCount"], 1, "the first restart is at once: {state}");
    assert_eq!(state["lastState"]["terminated"]["exitCode"], 4);
    assert_eq!(state["lastState"]["terminated"]["message"], "because\n");
    assert_eq!(phase(&pod), "Running");
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(world.api::<Pod>().logs("crash", &previous).await.unwrap(), "attempt\n");
    world.delete("crash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_decide_and_a_hanging_one_times_out() {
    let world = World::new().await;
    let mut spec = main_only("touch /tmp/started; while :; do sleep 0.1; done");
    spec["containers"][0]["startupProbe"] =
        json!({ "exec": { "command": ["test", "-e", "/tmp/started"] }, "periodSeconds": 1, "failureThreshold": 30 });
    spec["containers"][0]["readinessProbe"] =
        json!({ "exec": { "command": ["test", "-e", "/tmp/ready"] }, "periodSeconds": 1 });
    spec["containers"][0]["livenessProbe"] = json!({ "exec": { "command": ["sh", "-c", "test ! -e /tmp/sick || sleep 1000"] }, "periodSeconds": 1,
                "timeoutSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 1 });
    let pod = world.create("probed", spec).await;
    world.until("probed", |pod| phase(pod) == "Running" && container_state(pod, 0)["started"] == true).await;
    let sandbox = world.driver.find(&pod.uid().unwrap()).await.unwrap();
    let touch = |path: &'static str| {
        let sandbox = sandbox.clone();
        async move {
            let spec = node::driver::ExecSpec {
                container: "main".into(),
                command: vec!["touch".into(), path.into()],
                terminal: false,
            };
            let null = || std::fs::File::options().read(true).write(true).open("/dev/null").unwrap().into();
            assert_eq!(sandbox.execute(&spec, [null(), null(), null()]).await.unwrap(), 0);
        }
    };
    touch("/tmp/ready").await;
    world.until("probed", |pod| container_state(pod, 0)["ready"] == true).await;
    touch("/tmp/sick").await;
    let pod = world.until("probed", |pod| container_state(pod, 0)["restartCount"] == 1).await;
    assert_eq!(phase(&pod), "Running");
    world.delete("probed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_around_the_work() {
    let world = World::new().await;
    let mut spec = main_only("trap 'cat /tmp/after /tmp/before; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    spec["restartPolicy"] = "Never".into();
    spec["activeDeadlineSeconds"] = 2.into();
    spec["containers"][0]["lifecycle"] = json!({
        "postStart": { "exec": { "command": ["sh", "-c", "echo post > /tmp/after"] } },
        "preStop": { "exec": { "command": ["sh", "-c", "echo pre > /tmp/before"] } },
    });
    world.create("hooked", spec).await;
    let pod = world.over("hooked").await;
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(pod.status.as_ref().unwrap().reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(world.logs("hooked", "main").await, "up\npost\npre\n", "logs stay after the Pod was stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_has_streams_exit_codes_and_a_terminal() {
    let world = World::new().await;
    let pod = world.create("shell", main_only("while :; do sleep 1; done")).await;
    world.until("shell", |pod| phase(pod) == "Running").await;
    let pod: Value = serde_json::to_value(pod).unwrap();
    let access = node::Access::new(world.data.path(), world.driver.clone());
    let request = |script: &str, tty: bool| ExecRequest {
        container: "main".into(),
        command: vec!["sh".into(), "-c".into(), script.into()],
        stdin: true,
        stdout: true,
        stderr: !tty,
        tty,
    };
    let mut session = access.exec(&pod, request("cat; echo oops >&2; exit 9", false)).await.unwrap();
    session.stdin.send(Bytes::from_static(b"typed")).await.unwrap();
    drop(session.stdin);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some(output) = session.output.recv().await {
        match output {
            Output::Stdout(bytes) => out.extend_from_slice(&bytes),
            Output::Stderr(bytes) => err.extend_from_slice(&bytes),
        }
    }
    assert_eq!((out.as_slice(), err.as_slice()), (&b"typed"[..], &b"oops\n"[..]));
    assert_eq!(session.exit.await, Exit::Code(9));

    let mut session = access.exec(&pod, request("test -t 0 && echo a terminal", true)).await.unwrap();
    let mut out = Vec::new();
    while let Some(Output::Stdout(bytes)) = session.output.recv().await {
        out.extend_from_slice(&bytes);
    }
    assert_eq!(out, b"a terminal\r\n");
    let missing = ExecRequest { command: vec!["no-such".into()], ..request("", false) };
    assert!(
        matches!(access.exec(&pod, missing).await.unwrap().exit.await, Exit::Failed(words) if words.contains("no-such"))
    );
    world.delete("shell").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_security_context_is_in_force() {
    let world = World::new().await;
    let script = "id -u; id -g; id -G; grep -i -e CapEff -e NoNewPrivs -e Seccomp: /proc/self/status; \
                  touch /etc/x 2>/dev/null && echo breach; touch /data/mine && stat -c %g /data/mine";
    let mut spec = main_only(script);
    spec["restartPolicy"] = "Never".into();
    spec["securityContext"] = json!({ "runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "runAsNonRoot": true });
    spec["containers"][0]["securityContext"] = json!({
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
    });
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    spec["volumes"] = json!([{ "name": "data", "emptyDir": {} }]);
    world.create("confined", spec).await;
    let pod = world.over("confined").await;
    let log = world.logs("confined", "main").await;
    assert_eq!(phase(&pod), "Succeeded", "{log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["1000", "2000"], "{log}");
    // One user alone has no other groups: docs/node.md says so.
    if nix::unistd::geteuid().is_root() {
        assert!(lines[2].contains("3000") && lines.last() == Some(&"3000"), "{log}");
    }
    assert!(log.contains("CapEff:\t0000000000000000") && log.contains("NoNewPrivs:\t1"), "{log}");
    assert!(log.contains("Seccomp:\t2") && !log.contains("breach"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_limits_hold_or_the_pod_says_that_they_do_not() {
    let world = World::new().await;
    let mut spec = main_only("tail -c 300M /dev/zero | tail; echo survived");
    spec["restartPolicy"] = "Never".into();
    spec["containers"][0]["resources"] = json!({ "limits": { "memory": "64Mi", "cpu": "1" } });
    world.create("hungry", spec).await;
    let pod = world.over("hungry").await;
    let status = serde_json::to_value(&pod.status).unwrap();
    let conditions = status["conditions"].as_array().unwrap();
    let said =
        conditions.iter().any(|condition| condition["type"] == "LimitsEnforced" && condition["status"] == "False");
    let killed = container_state(&pod, 0)["state"]["terminated"]["reason"] == "OOMKilled";
    assert!(said || killed, "{status:#}");
}
