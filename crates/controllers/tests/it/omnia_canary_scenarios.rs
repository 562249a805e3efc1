//! Canaries, each in calm weather, with a fault at every write, and in storms.

use api::omnia::names::COMPONENT_LABEL;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};

use crate::omnia_scenarios::{HOUR, is, object, runtime, stand, write_content};
use crate::scenarios::{Scenario, prove, thoroughness};
use crate::world::{World, controllers};

#[rstest]
#[case::a_canary_is_promoted_by_hand(by_hand)]
#[case::a_canary_steps_by_itself_and_is_promoted(by_itself)]
#[case::a_canary_that_does_not_hold_is_given_up(failing)]
#[case::a_newer_version_takes_the_place_of_a_canary(replaced)]
#[case::an_aborted_canary_leaves_nothing_behind(aborted)]
#[case::an_agent_that_has_just_come_is_protected_too(just_come)]
#[tokio::test]
async fn the_end_is_the_same_in_any_weather(#[case] scenario: Scenario) {
    prove(scenario, controllers, thoroughness()).await.unwrap().publish();
}

pub fn status(world: &World, plural: &str) -> Value {
    let objects = world.objects::<DynamicObject>(&format!("omnia.altairalabs.ai/{plural}"));
    objects.first().map(|object| object.data["status"].clone()).unwrap_or_default()
}

async fn give_pack(world: &World, canary: &str) {
    write_content(world, "1.0.0", "a").await;
    let source = "source: { type: configmap, configMapRef: { name: content } }";
    let rollout = format!("rollout: {{ type: canary, canary: {{ {canary} }} }}");
    world.create(&object("PromptPack", "support", &format!("version: 1.0.0, {source}, {rollout}"))).await;
}

/// An agent that plays 1.0.0, and then a pack that wants 1.1.0.
pub async fn begin(world: &mut World, canary: &str) {
    give_pack(world, canary).await;
    world.create(&runtime("provider: { type: mock }")).await;
    world.until(HOUR, is("agentruntimes", "Running")).await;
    want(world, "1.1.0").await;
}

async fn want(world: &World, version: &str) {
    write_content(world, version, version).await;
    world.change("PromptPack", "support", json!({ "spec": { "version": version } })).await;
}

pub async fn change(world: &World, canary: Value) {
    world.change("PromptPack", "support", json!({ "spec": { "rollout": { "canary": canary } } })).await;
}

async fn traffic(world: &World, requests: u64, errors: u64) {
    let mut latency = vec![0; 16];
    latency[3] = requests;
    let side = |errors: u64| json!({ "requests": requests, "errors": errors, "latency": latency, "inFlight": 0 });
    let data = json!({ "stable": side(0).to_string(), "canary": side(errors).to_string() });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "traffic" }, "data": data });
    let params = PatchParams::apply("a user").force();
    world.api::<ConfigMap>().patch("traffic", &params, &Patch::Apply(&map)).await.unwrap();
}

/// Where the agent's Service leads.
pub fn leads(world: &World) -> String {
    let services = world.objects::<Service>("/services");
    let service = services.iter().find(|service| service.name_any() == "helper").unwrap();
    service.spec.as_ref().unwrap().selector.as_ref().unwrap()[COMPONENT_LABEL].clone()
}

pub fn has_share(version: &'static str, weight: i32) -> impl Fn(&World) -> bool {
    move |world| {
        let canary = &status(world, "agentruntimes")["canary"];
        let word = |field: &str| canary[field].as_str().unwrap_or_default();
        let current = !word("configMap").is_empty() && word("window").starts_with(word("configMap"));
        current && canary["weight"] == weight && word("version") == version && leads(world) == "router"
    }
}

/// One Deployment, one Service, and nothing that says otherwise.
pub fn alone(world: &World) -> bool {
    let deployments = world.objects::<Deployment>("apps/deployments").len();
    let services = world.objects::<Service>("/services").len();
    (deployments, services) == (1, 1) && leads(world) == "agent" && status(world, "agentruntimes")["canary"].is_null()
}

async fn over(world: &mut World, phase: &'static str, version: &'static str) -> Vec<String> {
    world.until(HOUR, move |world| is("promptpacks", phase)(world) && alone(world)).await;
    assert_eq!(status(world, "promptpacks")["activeVersion"], version);
    assert_eq!(status(world, "agentruntimes")["activeVersion"], version);
    stand(world)
}

fn by_hand(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        begin(world, "weight: 10").await;
        world.until(HOUR, has_share("1.1.0", 10)).await;
        assert_eq!(status(world, "promptpacks")["phase"], "Canary");
        change(world, json!({ "weight": 100 })).await;
        over(world, "Active", "1.1.0").await
    })
}

fn by_itself(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        traffic(world, 100, 1).await;
        begin(world, "weight: 40, stepWeight: 60, interval: 1m, analysis: { maxErrorRate: 2, maxLatency: 1s }").await;
        over(world, "Active", "1.1.0").await
    })
}

fn failing(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        traffic(world, 100, 10).await;
        begin(world, "weight: 40, interval: 1m, analysis: { maxErrorRate: 2, consecutiveFailures: 1 }").await;
        over(world, "Failed", "1.0.0").await
    })
}

fn replaced(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        begin(world, "weight: 20").await;
        world.until(HOUR, has_share("1.1.0", 20)).await;
        want(world, "1.2.0").await;
        world.until(HOUR, has_share("1.2.0", 20)).await;
        change(world, json!({ "promote": "1.2.0" })).await;
        over(world, "Active", "1.2.0").await
    })
}

fn aborted(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        begin(world, "weight: 50").await;
        world.until(HOUR, has_share("1.1.0", 50)).await;
        change(world, json!({ "abort": "1.1.0" })).await;
        over(world, "Active", "1.0.0").await
    })
}

/// What is wanted is known before the agent is: that nobody is known does not mean that nobody is there.
fn just_come(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        give_pack(world, "weight: 10").await;
        world.until(HOUR, is("promptpacks", "Active")).await;
        world.create(&runtime("provider: { type: mock }")).await;
        want(world, "1.1.0").await;
        world.until(HOUR, has_share("1.1.0", 10)).await;
        change(world, json!({ "weight": 100 })).await;
        over(world, "Active", "1.1.0").await
    })
}
