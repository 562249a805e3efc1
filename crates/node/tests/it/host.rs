//! Without isolation, because somebody asked for it.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use node::process::Process;
use serde_json::{Value, json};

use crate::plane::{World, container_state, phase};
use crate::support::shim;

fn isolated(pod: &Pod) -> Value {
    let status = serde_json::to_value(&pod.status).unwrap();
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == "Isolated").cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_the_host_is_not_isolated_and_says_so() {
    let world = World::with_driver(|pods| Process::without_isolation(pods, shim())).await;
    let place = tempfile::tempdir().unwrap();
    let (shown, taken) = (place.path().join("deep/volume"), place.path().join("taken"));
    std::fs::write(&taken, "mine").unwrap();
    let pod = |script: &str, path: &std::path::Path| {
        json!({
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "command": ["sh", "-c", script], "workingDir": place.path(),
                             "volumeMounts": [{ "name": "data", "mountPath": path }] }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
        })
    };
    let script = format!("echo here > {0}/note; cat {0}/note; cat taken; exit 6", shown.display());
    world.create("open", pod(&script, &shown)).await;
    let ended = world.over("open").await;
    assert_eq!(world.logs("open", "main").await, "here\nmine");
    assert_eq!(container_state(&ended, 0)["state"]["terminated"]["exitCode"], 6);
    assert!(std::fs::symlink_metadata(&shown).is_err(), "the link is taken away again");

    // What is there is never covered, and nobody becomes somebody else.
    world.create("covering", pod("true", &taken)).await;
    let ended = world.over("covering").await;
    let words = container_state(&ended, 0)["state"]["terminated"]["message"].to_string();
    assert!(words.contains("there is something else"), "{words}");
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "mine");
    let mut other = pod("true", &shown);
    other["securityContext"] = json!({ "runAsUser": 12345 });
    world.create("other", other).await;
    world.until("other", |pod| serde_json::to_string(&pod.status).unwrap().contains("remove runAsUser")).await;

    // Deleted, it leaves no process, even without a namespace that would end with it.
    let mark = format!("HOST_MARK={}", std::process::id());
    let mut stubborn = pod("trap '' TERM; (setsid sleep 1000 &); sleep 1000", &shown);
    let (name, value) = mark.split_once('=').unwrap();
    stubborn["terminationGracePeriodSeconds"] = 1.into();
    stubborn["containers"][0]["env"] = json!([{ "name": name, "value": value }]);
    world.create("stubborn", stubborn).await;
    let running = world.until("stubborn", |pod| phase(pod) == "Running").await;
    let condition = isolated(&running);
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NotIsolated")));
    crate::support::until(|| crate::leak::processes_with(&mark).len() >= 3).await;
    world.delete("stubborn").await;
    assert!(crate::leak::processes_with(&mark).is_empty());
    let directory = world.data.path().join("pods").join(running.uid().unwrap());
    crate::support::until(|| !directory.exists()).await;
}
