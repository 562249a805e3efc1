//! The Kubernetes target on a whole plane.

use std::sync::Arc;

use orrery_deploy::{
    Action, Category, Change, Event, EventKind, Key, Plan, Report, State, Status, apply, destroy, import, status,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::Plane;
use testkit::shop::{OMNIA, Shop, pack};
use tokio_util::sync::CancellationToken;

use crate::deployer::{Deployer, config, lines, patience};

async fn deployed(shop: &Shop, pack: &Value, state: State) -> State {
    let deployer = Deployer::new(shop.plane.client(), pack, &config("default"), patience());
    let applied = deployer.apply(state).await.unwrap();
    assert_eq!(applied.failures, []);
    let again = deployer.plan(&applied.state).await.unwrap();
    assert!(again.is_empty(), "a plan after an apply is empty: {:#?}", again.changes);
    applied.state
}

async fn planned(shop: &Shop, pack: &Value, state: &State) -> Plan {
    Deployer::new(shop.plane.client(), pack, &config("default"), patience()).plan(state).await.unwrap()
}

fn change<'a>(plan: &'a Plan, type_: &str) -> &'a Change {
    plan.changes.iter().find(|change| change.key.type_ == type_).unwrap()
}

fn runtime(name: &str) -> String {
    format!("{OMNIA}/namespaces/default/agentruntimes/{name}")
}

#[tokio::test]
async fn the_first_example_comes_out_line_for_line() {
    let shop = Shop::open().await;
    let state = deployed(&shop, &pack("1.0.0", &[], false, &[]), State::default()).await;
    let plan = planned(&shop, &pack("1.1.0", &[], false, &["drop", "alter", "drop"]), &state).await;
    assert_eq!(
        lines(&plan),
        [
            "~ configmap my-pack-packdata Update",
            "~ prompt_pack my-pack Update",
            "+ agent_policy my-pack-policy Create",
            "~ agent_runtime my-pack Update",
        ]
    );
    let state = deployed(&shop, &pack("1.1.0", &[], false, &["drop", "alter", "drop"]), state).await;
    let policy = shop.object(&format!("{OMNIA}/namespaces/default/agentpolicies/my-pack-policy")).await;
    assert_eq!(policy["spec"]["toolBlocklist"], json!(["alter", "drop"]));
    let plan = planned(&shop, &pack("1.2.0", &[], false, &[]), &state).await;
    assert_eq!(lines(&plan).last().unwrap(), "- agent_policy my-pack-policy Delete");
}

#[tokio::test]
async fn the_second_example_comes_out_line_for_line() {
    let shop = Shop::open().await;
    let state = deployed(&shop, &pack("1.0.0", &["agent-a", "agent-b"], false, &[]), State::default()).await;
    let next = pack("1.1.0", &["agent-a"], false, &[]);
    let plan = planned(&shop, &next, &state).await;
    assert_eq!(lines(&plan)[2..], ["~ agent_runtime agent-a Update", "- agent_runtime agent-b Delete"]);
    deployed(&shop, &next, state).await;
    assert_eq!(shop.plane.get(&runtime("agent-b")).await.code, 404, "planned deletes are executed");
}

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Report for Heard {
    fn event(&self, event: Event) {
        self.0.lock().push(event);
    }
}

#[tokio::test]
async fn progress_is_a_fifth_for_each_phase_and_the_last_is_divided_by_agents() {
    let shop = Shop::open().await;
    let deployer = Deployer::new(
        shop.plane.client(),
        &pack("1.0.0", &["a", "b", "c", "d"], true, &["x"]),
        &config("default"),
        patience(),
    );
    let plan = deployer.plan(&State::default()).await.unwrap();
    let heard = Heard::default();
    apply(&deployer.target, &plan, State::default(), &mut (), &heard, &CancellationToken::new()).await.unwrap();
    let events = heard.0.lock();
    let told: Vec<&str> = events
        .iter()
        .filter(|e| e.kind == EventKind::Progress && e.percent.is_some())
        .map(|e| e.message.as_str())
        .collect();
    assert_eq!(
        told,
        [
            "Creating configmap: my-pack-packdata (0%)",
            "Creating prompt_pack: my-pack (20%)",
            "Creating tool_registry: my-pack-tools (40%)",
            "Creating agent_policy: my-pack-policy (60%)",
            "Creating agent_runtime: a (80%)",
            "Creating agent_runtime: b (85%)",
            "Creating agent_runtime: c (90%)",
            "Creating agent_runtime: d (95%)",
        ]
    );
    assert_eq!(events.last().unwrap().percent, Some(100));
}

#[tokio::test]
async fn an_update_keeps_what_others_wrote_and_shows_its_fields() {
    let shop = Shop::open().await;
    let state = deployed(&shop, &pack("1.0.0", &[], false, &[]), State::default()).await;
    let theirs = json!({ "metadata": { "finalizers": ["example.com/hold"], "labels": { "theirs": "yes" }, "annotations": { "note": "n" } } });
    assert_eq!(shop.plane.patch(&runtime("my-pack"), "merge-patch+json", &theirs).await.code, 200);
    let next = pack("1.1.0", &[], false, &[]);
    let plan = planned(&shop, &next, &state).await;
    let fields: Vec<String> = change(&plan, "prompt_pack").fields.iter().map(|field| field.line(80)).collect();
    assert_eq!(
        fields,
        [
            "metadata.labels[\"promptkit.altairalabs.ai/pack-version\"]: \"1.0.0\" → \"1.1.0\"",
            "spec.version: \"1.0.0\" → \"1.1.0\""
        ]
    );
    assert!(change(&plan, "configmap").fields.iter().any(|field| field.path == "data[\"pack.json\"].version"));
    let state = deployed(&shop, &next, state).await;
    let live = shop.object(&runtime("my-pack")).await;
    assert_eq!(live["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(
        (&live["metadata"]["labels"]["theirs"], &live["metadata"]["annotations"]["note"]),
        (&json!("yes"), &json!("n"))
    );
    assert_eq!(live["status"]["phase"], "Running");
    let known = state.find(&Key::new("agent_runtime", "my-pack")).unwrap();
    assert_eq!((known.uid.as_deref(), &known.status), (live["metadata"]["uid"].as_str(), &Status::Updated));
}

#[tokio::test]
async fn a_label_that_is_not_configured_any_more_is_removed() {
    let shop = Shop::open().await;
    let text =
        json!({ "workspace": "default", "providers": { "default": "mock" }, "labels": { "team": "a", "cost": "b" } });
    let with = orrery_deploy::kubernetes::Config::parse(&text.to_string()).unwrap();
    let pack = pack("1.0.0", &[], false, &[]);
    let state =
        Deployer::new(shop.plane.client(), &pack, &with, patience()).apply(State::default()).await.unwrap().state;
    assert_eq!(shop.object(&runtime("my-pack")).await["metadata"]["labels"]["team"], "a");
    deployed(&shop, &pack, state).await;
    assert!(shop.object(&runtime("my-pack")).await["metadata"]["labels"].get("team").is_none());
}

#[tokio::test]
async fn drift_says_which_field_manager_did_what() {
    let shop = Shop::open().await;
    let pack = pack("1.0.0", &[], true, &[]);
    let state = deployed(&shop, &pack, State::default()).await;
    let path = format!("{}?fieldManager=kubectl-scale", runtime("my-pack"));
    let scaled = json!({ "spec": { "runtime": { "replicas": 5 } } });
    assert_eq!(shop.plane.patch(&path, "merge-patch+json", &scaled).await.code, 200);
    let plan = planned(&shop, &pack, &state).await;
    let drift = change(&plan, "agent_runtime");
    assert_eq!((drift.action, drift.detail.as_str()), (Action::Drift, "1 field changed by kubectl-scale"));
    assert_eq!(change(&plan, "prompt_pack").action, Action::NoChange);
    // The same without a state: the managers alone tell.
    let plan = planned(&shop, &pack, &State::default()).await;
    assert_eq!(change(&plan, "agent_runtime").action, Action::Drift);
    deployed(&shop, &pack, state).await;
    assert!(
        shop.object(&runtime("my-pack")).await["spec"]["runtime"].get("replicas").is_none_or(|replicas| *replicas == 1)
    );
}

#[tokio::test]
async fn a_lost_state_is_made_up_for_by_labels() {
    let shop = Shop::open().await;
    let two = pack("1.0.0", &["a", "b"], true, &["x"]);
    deployed(&shop, &two, State::default()).await;
    let adopted = planned(&shop, &two, &State::default()).await;
    assert!(adopted.is_empty(), "{:#?}", adopted.changes);
    let one = pack("1.0.0", &["a"], true, &["x"]);
    let plan = planned(&shop, &one, &State::default()).await;
    assert_eq!(lines(&plan).last().unwrap(), "- agent_runtime b Delete");
    let state = deployed(&shop, &one, State::default()).await;
    assert_eq!(shop.owned("default").await.len(), state.resources.len());
}

#[tokio::test]
async fn objects_of_others_are_neither_taken_nor_deleted() {
    let shop = Shop::open().await;
    let theirs = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "my-pack-packdata", "labels": { "app.kubernetes.io/managed-by": "Helm" } } });
    assert_eq!(shop.plane.post("/api/v1/namespaces/default/configmaps", &theirs).await.code, 201);
    let pack = pack("1.0.0", &[], false, &[]);
    let deployer = Deployer::new(shop.plane.client(), &pack, &config("default"), patience());
    let refused = deployer.plan(&State::default()).await.expect_err("not ours");
    assert!(refused.to_string().contains("configmap/my-pack-packdata exists and is managed by \"Helm\""), "{refused}");
    let done = destroy(&deployer.target, State::default(), &mut (), &orrery_deploy::Quiet).await.unwrap();
    assert!(done.failures.is_empty());
    shop.object("/api/v1/namespaces/default/configmaps/my-pack-packdata").await;

    let (state, imported) =
        import(&deployer.target, State::default(), &Key::new("configmap", "my-pack-packdata")).await.unwrap();
    assert_eq!(imported.status, "healthy");
    deployed(&shop, &pack, state).await;
    let taken = shop.object("/api/v1/namespaces/default/configmaps/my-pack-packdata").await;
    assert_eq!(taken["metadata"]["labels"]["app.kubernetes.io/managed-by"], "promptarena");
}

#[tokio::test]
async fn what_is_missing_is_told_before_anything_is_written() {
    let shop = Shop::open().await;
    let text = json!({ "workspace": "default", "providers": { "default": "mock", "a": "gone", "b": "away" } });
    let config = orrery_deploy::kubernetes::Config::parse(&text.to_string()).unwrap();
    let deployer = Deployer::new(shop.plane.client(), &pack("1.0.0", &[], false, &[]), &config, patience());
    let refused = deployer.plan(&State::default()).await.expect_err("no such providers");
    let told: Vec<(Category, bool)> =
        refused.0.iter().map(|f| (f.category, f.message.contains("there is no Provider"))).collect();
    assert_eq!(told, [(Category::NotFound, true), (Category::NotFound, true)], "{refused}");

    let nowhere = crate::deployer::config("nowhere");
    let deployer = Deployer::new(shop.plane.client(), &pack("1.0.0", &[], false, &[]), &nowhere, patience());
    assert!(deployer.plan(&State::default()).await.is_err());
    assert!(shop.owned("default").await.is_empty());
}

#[tokio::test]
async fn who_may_not_is_told_so() {
    let shop = Shop::open().await;
    let client = shop.plane.client_as(apiserver::user::User::anonymous());
    let deployer = Deployer::new(client, &pack("1.0.0", &[], false, &[]), &config("default"), patience());
    let refused = deployer.plan(&State::default()).await.expect_err("forbidden");
    assert!(refused.0.iter().all(|failure| failure.category == Category::Permission), "{refused}");
    assert!(refused.to_string().contains("HTTP 403"), "{refused}");
}

#[tokio::test]
async fn the_health_of_everything_is_told() {
    let shop = Shop::open().await;
    let pack = pack("1.0.0", &[], true, &[]);
    let state = deployed(&shop, &pack, State::default()).await;
    let deployer = Deployer::new(shop.plane.client(), &pack, &config("default"), patience());
    let report = status(&deployer.target, state.clone()).await.unwrap();
    let of = |type_: &str| report.resources.iter().find(|resource| resource.key.type_ == type_).unwrap();
    assert_eq!((of("configmap").status, of("agent_runtime").status), ("healthy", "healthy"));
    assert_eq!(
        (of("prompt_pack").status, of("prompt_pack").detail.as_str()),
        ("unhealthy", "no controller has looked at it yet")
    );
    shop.plane.delete(&runtime("my-pack")).await;
    let report = status(&deployer.target, state).await.unwrap();
    let of = |type_: &str| report.resources.iter().find(|resource| resource.key.type_ == type_).unwrap();
    assert_eq!(of("agent_runtime").status, "missing");
    assert!(report.state.find(&Key::new("agent_runtime", "my-pack")).is_none(), "what is gone leaves the state");
}

#[tokio::test]
async fn a_type_of_a_newer_version_is_destroyed_by_what_the_state_says() {
    let shop = Shop::open().await;
    let mut state = deployed(&shop, &pack("1.0.0", &[], false, &[]), State::default()).await;
    let extra = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "extra" } });
    let made = shop.plane.post("/api/v1/namespaces/default/secrets", &extra).await.json();
    let text = json!({ "type": "vault", "name": "extra", "uid": made["metadata"]["uid"], "status": "created",
        "metadata": { "api": "v1", "resource": "secrets" } });
    state.resources.insert(0, serde_json::from_value(text).unwrap());
    let deployer = Deployer::new(shop.plane.client(), &pack("1.0.0", &[], false, &[]), &config("default"), patience());
    let done = destroy(&deployer.target, state, &mut (), &orrery_deploy::Quiet).await.unwrap();
    assert_eq!(done.failures, []);
    assert_eq!(shop.plane.get("/api/v1/namespaces/default/secrets/extra").await.code, 404);
    assert!(shop.owned("default").await.is_empty());
}

#[tokio::test]
async fn one_write_for_each_changed_resource_and_none_for_the_rest() {
    let shop = Shop::open().await;
    let state = deployed(&shop, &pack("1.0.0", &["a", "b"], true, &["x"]), State::default()).await;
    let before = revision(&shop.plane);
    // Only what the configuration says about runtimes is new.
    let text = json!({ "workspace": "default", "providers": { "default": "mock" }, "runtime": { "replicas": 2 } });
    let config = orrery_deploy::kubernetes::Config::parse(&text.to_string()).unwrap();
    let deployer = Deployer::new(shop.plane.client(), &pack("1.0.0", &["a", "b"], true, &["x"]), &config, patience());
    let plan = deployer.plan(&state).await.unwrap();
    assert_eq!((plan.count(Action::Update), plan.count(Action::NoChange)), (2, 4));
    assert_eq!(deployer.apply(state).await.unwrap().failures, []);
    // Two writes of ours, and two of the operator's stand-in.
    assert_eq!(revision(&shop.plane) - before, 4);
}

fn revision(plane: &Arc<Plane>) -> u64 {
    plane.store().revision().0
}
