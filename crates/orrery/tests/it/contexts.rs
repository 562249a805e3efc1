//! What a Task brings reaches the agent that does the work: in its own Pod, or on an Agent's server, and only while the
//! Task lives.

use serde_json::{Value, json};
use testkit::git::{CREDENTIALS, Server};
use testkit::model::{Conversation, Model, Script, Turn};

use crate::agents::{World, agent, task};

/// Does what the request's line `run: …` says with a shell, then stops; with a line `then wait` it never does.
struct Obedient;

impl Script for Obedient {
    fn turn(&self, conversation: Conversation) -> futures::future::BoxFuture<'static, Turn> {
        let asked = conversation.asked();
        let command = asked.lines().find_map(|line| line.strip_prefix("run: ")).map(str::to_owned);
        Box::pin(async move {
            match command {
                Some(command) if conversation.offers("bash") && conversation.results().is_empty() => {
                    Turn::call("bash", json!({ "command": command, "description": "as asked" }))
                }
                _ if asked.contains("then wait") && conversation.offers("bash") => std::future::pending().await,
                _ => Turn::say("Done."),
            }
        })
    }
}

/// What the shell said for the Task whose request contains `mark`.
fn heard(model: &Model, mark: &str) -> String {
    let conversations = model.requests().into_iter().map(Conversation::new);
    let mut ours = conversations.filter(|conversation| conversation.asked().contains(mark));
    ours.find_map(|conversation| conversation.results().first().cloned()).unwrap_or_default()
}

/// One of each type, at relative and absolute paths, with modes; and of those that can fail, one that does and may.
fn every_type(server: &Server) -> Value {
    json!([
        { "type": "Text", "name": "rules", "text": "Be <brief> & kind." },
        { "type": "Text", "mountPath": "notes/secret.txt", "fileMode": 0o400, "text": "a secret" },
        { "type": "Text", "mountPath": "run.sh", "fileMode": 0o755, "text": "echo script ran" },
        { "type": "Text", "mountPath": "/srv/absolute.txt", "text": "outside" },
        { "type": "ConfigMap", "mountPath": "guide.md", "configMap": { "name": "guides", "key": "a.md" } },
        { "type": "ConfigMap", "mountPath": "guides", "fileMode": 0o440, "configMap": { "name": "guides" } },
        { "type": "ConfigMap", "mountPath": "/srv/guides", "configMap": { "name": "guides" } },
        { "type": "Git", "mountPath": "repo", "git": { "repository": server.url("repo"), "ref": "main" } },
        { "type": "Git", "mountPath": "/srv/private",
          "git": { "repository": server.url("private/repo"), "path": "docs", "secretRef": { "name": "reader" } } },
        { "type": "URL", "mountPath": "page.html", "fileMode": 0o600, "url": { "source": server.url("page.html") } },
        { "type": "Runtime" },
        { "type": "ConfigMap", "optional": true, "mountPath": "none", "configMap": { "name": "nobody" } },
        { "type": "Git", "optional": true, "mountPath": "gone", "git": { "repository": server.url("nowhere") } },
        { "type": "URL", "optional": true, "mountPath": "gone.html", "url": { "source": server.url("nowhere.html") } },
    ])
}

/// Prints every file with its mode and its first line.
const LOOK: &str = "for f in notes/secret.txt run.sh /srv/absolute.txt guide.md guides/a.md guides/b.md /srv/guides/b.md \
                    repo/README.md /srv/private/inner.md page.html; do echo \"$f $(stat -L -c %a $f) $(head -1 $f)\"; done; \
                    sh run.sh; git -C repo log --oneline | wc -l; ls none gone.html 2>&1 | grep -c 'No such'; ls -A gone";

const SEEN: &str = "notes/secret.txt 400 a secret
run.sh 755 echo script ran
/srv/absolute.txt 644 outside
guide.md 644 A
guides/a.md 440 A
guides/b.md 440 B
/srv/guides/b.md 644 B
repo/README.md 666 read me
/srv/private/inner.md 666 inner
page.html 600 <p>
script ran
1
2
";

async fn sources() -> (Server, Vec<Value>) {
    let server = Server::start().await;
    server.repository("repo", &[("README.md", "read me")]);
    server.repository("private/repo", &[("docs/inner.md", "inner"), ("other", "not this")]);
    server.file("page.html", "<p>");
    let objects = vec![
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "guides" }, "data": { "a.md": "A", "b.md": "B" } }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "reader" },
            "stringData": { "username": CREDENTIALS.0, "password": CREDENTIALS.1 } }),
    ];
    (server, objects)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_of_context_reaches_a_template_task() {
    let (server, objects) = sources().await;
    let world = World::start();
    world.apply(&objects);
    let template = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": { "name": "shell" },
        "spec": { "serviceAccountName": "default", "workspaceDir": "/workspace",
            "command": ["sh", "-c", format!("{{ {LOOK}; }} 2>/dev/null; cat .kubeopencode/context.md task.md")] } });
    let mut brings = task("brings", ("templateRef", "shell"), "the request");
    brings["spec"]["contexts"] = every_type(&server);
    world.apply(&[template, brings]);
    world.wait("task/brings", "condition=Complete");
    let log = world.kubectl(&["logs", "brings-pod", "-c", "agent"]);
    assert!(log.starts_with(SEEN), "{log}");
    let text = "<context name=\"rules\" namespace=\"default\" type=\"Text\">\nBe &lt;brief&gt; &amp; kind.\n</context>";
    assert!(log.contains(text) && log.contains("TASK_NAME") && log.ends_with("the request"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_of_context_reaches_an_agents_server_and_leaves_with_its_task() {
    let (sources, objects) = sources().await;
    let model = Model::start(Obedient).await;
    let world = World::start();
    world.apply(&objects);
    world.apply(&[agent("coder", &model.config())]);
    world.wait("agent/coder", "condition=ServerReady");

    let own = "cd /workspace/.kubeopencode/tasks/brings-*";
    let mut brings =
        task("brings", ("agentRef", "coder"), &format!("mark-one\nrun: {own} && {{ {LOOK}; }} 2>/dev/null"));
    brings["spec"]["contexts"] = every_type(&sources);
    world.apply(&[brings]);
    world.wait("task/brings", "condition=Complete");
    let said = heard(&model, "mark-one");
    assert!(said.starts_with(SEEN), "{said}");
    let requests = model.requests();
    let asked = Conversation::new(requests[0].clone()).asked();
    for part in [
        "Be &lt;brief&gt; &amp; kind.",
        "TASK_NAME is brings",
        "KubeOpenCode Runtime Context",
        "/workspace/.kubeopencode/tasks/brings-",
        "- /srv/absolute.txt",
    ] {
        assert!(asked.contains(part), "the request names {part}: {asked}");
    }
    // Nothing is left when the Task is over.
    let left = || world.on_server("coder", "ls -A /workspace/.kubeopencode/tasks /srv");
    let begin = std::time::Instant::now();
    while left() != "/srv:\n\n/workspace/.kubeopencode/tasks:\n" {
        assert!(begin.elapsed().as_secs() < 60, "{}", left());
    }
    // And the next one starts with a clean request.
    world.apply(&[task("next", ("agentRef", "coder"), "mark-two\nrun: ls -A /workspace/.kubeopencode/tasks")]);
    world.wait("task/next", "condition=Complete");
    assert!(!heard(&model, "mark-two").contains("brings"));
    let second =
        model.requests().into_iter().map(Conversation::new).map(|c| c.asked()).find(|a| a.contains("mark-two"));
    assert!(second.is_some_and(|asked| !asked.contains("brief")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_a_live_task_holds_is_kept_for_it() {
    let model = Model::start(Obedient).await;
    let world = World::start();
    world.apply(&[agent("coder", &model.config())]);
    world.wait("agent/coder", "condition=ServerReady");
    let with = |name: &str, text: &str, request: &str| {
        let mut task = task(name, ("agentRef", "coder"), request);
        task["spec"]["contexts"] = json!([{ "type": "Text", "mountPath": "/workspace/plan.md", "text": text }]);
        task
    };
    world.apply(&[with("holder", "plan A", "mark-hold\nrun: cat /workspace/plan.md\nthen wait")]);
    let held = || world.on_server("coder", "cat /workspace/plan.md 2>/dev/null || echo none");
    let begin = std::time::Instant::now();
    while heard(&model, "mark-hold").is_empty() {
        assert!(begin.elapsed().as_secs() < 120, "the agent never looked: {:?}", model.requests());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(held(), "plan A");

    world.apply(&[with("other", "plan B", "mark-other\nrun: cat /workspace/plan.md")]);
    world.wait("task/other", "condition=Failed");
    let other = world.task("other");
    let conditions = other["status"]["conditions"].as_array().unwrap();
    let failed = conditions.iter().find(|condition| condition["type"] == "Failed").unwrap();
    assert_eq!(failed["reason"], "ContextConflict", "{other:#}");
    assert!(failed["message"].as_str().unwrap().contains("/workspace/plan.md is held by Task holder-"), "{failed}");

    // The same content is shared, and stays as long as one of the two needs it.
    world.apply(&[with("same", "plan A", "mark-same\nrun: cat /workspace/plan.md")]);
    world.wait("task/same", "condition=Complete");
    assert_eq!((heard(&model, "mark-same").as_str(), held().as_str()), ("plan A", "plan A"));

    // However the Task ends: this one is deleted, Pod and all.
    world.kubectl(&["delete", "task", "holder", "--timeout=60s"]);
    world.kubectl(&["wait", "--for=delete", "pod/holder-pod", "--timeout=60s"]);
    let begin = std::time::Instant::now();
    while held() != "none\n" {
        assert!(begin.elapsed().as_secs() < 60, "the file outlived its Task\n{}", world.told());
    }
}
