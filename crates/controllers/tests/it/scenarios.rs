//! Scenarios, each run without faults and then with a fault at every write.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use testkit::faults::{Fault, KINDS};

use crate::world::{World, all_over, plane, summary};

const HOUR: Duration = Duration::from_hours(1);

fn template(extra: &str) -> String {
    format!(
        "apiVersion: kubeopencode.io/v1alpha1\nkind: AgentTemplate\nmetadata: {{ name: dev }}\nspec: {{ workspaceDir: /workspace, serviceAccountName: sa, command: [work], {extra} }}"
    )
}

fn task(name: &str) -> String {
    format!(
        "apiVersion: kubeopencode.io/v1alpha1\nkind: Task\nmetadata: {{ name: {name} }}\nspec: {{ templateRef: {{ name: dev }}, description: x }}"
    )
}

type Scenario = fn(&mut World) -> BoxFuture<'_, Vec<String>>;

/// Runs a scenario without faults, then once for each write and each kind of fault; every end must be the same.
async fn prove(scenario: Scenario) {
    let plane = plane().await;
    let mut world = World::on(Arc::clone(&plane), "without-faults", None).await;
    let expected = scenario(&mut world).await;
    let writes = world.faults.writes();
    assert!(writes > 0, "a scenario without writes proves nothing");
    for at in 1..=writes {
        for kind in KINDS {
            let fault = Fault { at, kind };
            let namespace = format!("run-{at}-{kind:?}").to_lowercase();
            let mut world = World::on(Arc::clone(&plane), &namespace, Some(fault)).await;
            let end = scenario(&mut world).await;
            assert_eq!(end, expected, "with {fault:?}");
        }
    }
}

#[tokio::test]
async fn tasks_run_once_and_are_let_go() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("")).await;
            world.create(&task("a")).await;
            world.create(&task("b")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_failing_pod_fails_its_task() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("executorImage: broken")).await;
            world.create(&task("a")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_missing_template_is_waited_for() {
    prove(|world| {
        Box::pin(async move {
            world.create(&task("a")).await;
            world.pass(Duration::from_secs(3)).await;
            world.create(&template("")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_missing_template_fails_the_task_in_the_end() {
    prove(|world| {
        Box::pin(async move {
            world.create(&task("a")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}
