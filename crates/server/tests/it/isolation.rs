//! Who may see one namespace sees nothing of another: in lists, counts, streams, logs, search and events.

use axum::body::Body;
use orrery_server::{Options, Server};
use serde_json::json;

use crate::routes::status_in;
use crate::world::{Person, World, keep};

pub async fn one_namespace(world: &World) {
    let folder = tempfile::tempdir().unwrap();
    let logs = Some(controllers::logs::Archive { directory: folder.path().to_owned() });
    let router = Server::new(Options { logs, ..world.options() }).router();
    let ada = Person { router: router.clone(), token: Some(world.token("default", "isolation", None).await) };
    let rules = json!([
        {"apiGroups": ["kubeopencode.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list", "watch"]},
    ]);
    let bob = Person { router: router.clone(), token: Some(world.token("blue", "bob", Some(rules)).await) };
    let task = |name: &str| json!({"name": name, "description": "a secret plan", "templateRef": {"name": "shell"}});
    for (namespace, name) in [("red", "theirs"), ("blue", "ours")] {
        let created = ada.post(&format!("/api/v1/namespaces/{namespace}/tasks"), &task(name)).await;
        let uid = created.json()["uid"].as_str().unwrap().to_owned();
        keep(folder.path(), namespace, name, &uid, &format!("2026-01-01T00:00:01Z {name} said this\n"));
        let done = json!({"phase": "Completed", "podName": "gone", "conditions": []});
        status_in(world, namespace, "Task", "tasks", name, done).await;
    }

    // Lists, counts, search, namespaces, events.
    for path in [
        "/api/v1/tasks?limit=500",
        "/api/v1/search?q=secret%20plan&limit=100",
        "/api/v1/namespaces",
        "/api/v1/events",
        "/api/v1/upcoming",
    ] {
        let answer = bob.get(path).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        assert!(!answer.text.contains("theirs") && !answer.text.contains("red"), "{path}: {}", answer.text);
    }
    assert_eq!(bob.get("/api/v1/search?q=secret%20plan").await.json()["total"], 1);
    let all = bob.get("/api/v1/tasks").await.json();
    assert_eq!(all["total"].as_u64(), Some(all["tasks"].as_array().unwrap().len() as u64));
    assert_eq!(bob.get("/api/v1/namespaces").await.json(), json!({"namespaces": ["blue"]}));

    // Single objects, changes and streams elsewhere.
    for path in [
        "/api/v1/namespaces/red/tasks",
        "/api/v1/namespaces/red/tasks/theirs",
        "/api/v1/namespaces/red/tasks/theirs/events",
        "/api/v1/namespaces/red/tasks/theirs/logs",
        "/api/v1/namespaces/red/events",
        "/api/v1/config",
        "/metrics",
    ] {
        let message = bob.get(path).await.refused(403);
        assert!(!message.contains("secret plan"), "{path}");
    }
    for (method, path) in
        [("POST", "/api/v1/namespaces/red/tasks/theirs/stop"), ("DELETE", "/api/v1/namespaces/red/tasks/theirs")]
    {
        bob.send(method, path, &[], Body::empty()).await.refused(403);
    }
    bob.post("/api/v1/namespaces/red/tasks", &task("mine")).await.refused(403);

    // The stream: a Task comes in each namespace, theirs first. Ours is seen, so theirs would have been.
    let reading = bob.events("/api/v1/stream?kinds=tasks", None, |events| {
        events.iter().any(|event| event.data.to_string().contains("ours-too"))
    });
    let writing = async {
        for (namespace, name) in [("red", "theirs-too"), ("blue", "ours-too")] {
            ada.post(&format!("/api/v1/namespaces/{namespace}/tasks"), &task(name)).await;
        }
    };
    let (events, ()) = tokio::join!(reading, writing);
    assert!(events.iter().all(|event| !event.data.to_string().contains("theirs")), "{events:?}");
    let forbidden = bob.events("/api/v1/stream?kinds=tasks&namespace=red", None, |events| !events.is_empty()).await;
    assert_eq!(forbidden[0].event, "trouble");
    assert!(!forbidden[0].data.to_string().contains("theirs"));

    // Logs, also those that were kept.
    let ours = bob.events("/api/v1/namespaces/blue/tasks/ours/logs", None, |_| false).await;
    assert!(ours.iter().any(|event| event.data["content"] == "ours said this\n"));

    // Who may see Tasks but not logs is not given the kept ones either.
    let rules = json!([{"apiGroups": ["kubeopencode.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
    let eve = Person { router, token: Some(world.token("blue", "eve", Some(rules)).await) };
    let refused = eve.events("/api/v1/namespaces/blue/tasks/ours/logs", None, |_| false).await;
    assert!(refused.iter().all(|event| event.data["type"] != "log"), "{refused:?}");
    assert!(refused.iter().any(|event| event.data["type"] == "error"), "{refused:?}");
}
