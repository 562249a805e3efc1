//! The numbers that Prometheus scrapes are those of the plane.

use std::time::Duration;

use orrery_server::Server;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::routes::status_in;
use crate::world::Person;

#[tokio::test]
async fn the_numbers_are_those_of_the_plane() {
    let world = crate::embedded().await;
    let token = world.token("default", "metrics", None).await;
    let server = Server::new(world.options());
    let ada = Person { router: server.router(), token: Some(token) };
    let stop = CancellationToken::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = tokio::spawn(server.run(listener, stop.clone()));
    let has = async |lines: &[&str]| {
        let seen = async {
            loop {
                let text = ada.get("/metrics").await.text;
                let missing: Vec<&str> =
                    lines.iter().copied().filter(|line| !text.lines().any(|one| one == *line)).collect();
                if missing.is_empty() {
                    return;
                }

                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let counted = tokio::time::timeout(Duration::from_mins(1), seen).await;
        assert!(counted.is_ok(), "{lines:?} in {}", ada.get("/metrics").await.text);
    };

    let at = |kind: &str| format!("/api/v1/namespaces/red/{kind}");
    let agent = json!({"name": "reviewer", "workspaceDir": "/workspace", "serviceAccountName": "default", "maxConcurrentTasks": 3});
    assert_eq!(ada.post(&at("agents"), &agent).await.code, 201);
    for name in ["one", "two", "three"] {
        let task = json!({"name": name, "description": "a", "agentRef": {"name": "reviewer"}});
        assert_eq!(ada.post(&at("tasks"), &task).await.code, 201);
    }
    has(&[
        r#"orrery_tasks{namespace="red",phase="Pending"} 3"#,
        r#"orrery_agent_max_tasks{namespace="red",agent="reviewer"} 3"#,
        r#"orrery_agent_ready{namespace="red",agent="reviewer"} 0"#,
    ])
    .await;

    let status =
        async |name: &str, status: serde_json::Value| status_in(&world, "red", "Task", "tasks", name, status).await;
    let start = "2026-01-01T00:00:00Z";
    status("one", json!({"phase": "Running", "startTime": start, "conditions": []})).await;
    status("two", json!({"phase": "Queued", "conditions": []})).await;
    has(&[
        r#"orrery_tasks{namespace="red",phase="Running"} 1"#,
        r#"orrery_tasks{namespace="red",phase="Queued"} 1"#,
        r#"orrery_tasks{namespace="red",phase="Pending"} 1"#,
        r#"orrery_agent_running_tasks{namespace="red",agent="reviewer"} 1"#,
        r#"orrery_agent_queued_tasks{namespace="red",agent="reviewer"} 1"#,
        r#"orrery_task_wait_seconds_count{namespace="red"} 1"#,
    ])
    .await;

    let session = json!({"summary": {"cost": "0.25", "tokenUsage": {"input": 70, "output": 8}}});
    let end = "2026-01-01T00:00:42Z";
    status(
        "one",
        json!({"phase": "Completed", "startTime": start, "completionTime": end, "session": session, "conditions": []}),
    )
    .await;
    has(&[
        r#"orrery_tasks{namespace="red",phase="Completed"} 1"#,
        r#"orrery_agent_running_tasks{namespace="red",agent="reviewer"} 0"#,
        r#"orrery_task_duration_seconds_sum{namespace="red",phase="Completed"} 42.0"#,
        r#"orrery_task_duration_seconds_count{namespace="red",phase="Completed"} 1"#,
        r#"orrery_task_cost_dollars_total{namespace="red"} 0.25"#,
        r#"orrery_task_tokens_total{namespace="red",direction="input"} 70"#,
        r#"orrery_task_tokens_total{namespace="red",direction="output"} 8"#,
    ])
    .await;
    stop.cancel();
    serving.await.unwrap().unwrap();
}
