//! Scenarios of `omnia.altairalabs.ai`, each in calm weather, with a fault at every write, and in storms.

use std::time::Duration;

use api::omnia::names::{HASH_ANNOTATION, digest};
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};

use crate::omnia_discovery;
use crate::omnia_packs::content;
use crate::scenarios::{Scenario, prove, prove_against, thoroughness};
use crate::world::{Weather, World, controllers, plane};

pub const MINUTE: Duration = Duration::from_mins(1);
pub const HOUR: Duration = Duration::from_hours(1);

#[rstest]
#[case::an_agent_is_built(an_agent)]
#[case::a_new_version_in_two_writes_rolls_once(a_new_version)]
#[case::an_agent_recovers_when_its_registry_comes(a_late_registry)]
#[case::an_agent_recovers_when_its_pack_comes(a_late_pack)]
#[case::a_registry_follows_its_services(endpoints)]
#[case::a_policy_takes_tools_away_and_gives_them_back(a_policy)]
#[case::a_provider_waits_for_its_secret_and_a_new_key_rolls(a_secret)]
#[case::a_deleted_agent_is_let_go(a_deleted_agent)]
#[tokio::test]
async fn the_end_is_the_same_in_any_weather(#[case] scenario: Scenario) {
    prove(scenario, controllers, thoroughness()).await.unwrap().publish();
}

#[rstest]
#[case::a_registry_follows_a_server_that_describes_itself(a_describing_server)]
#[case::programs_are_asked_in_pods(programs)]
#[tokio::test]
async fn discovery_ends_the_same_in_any_weather(#[case] scenario: Scenario) {
    prove_against(scenario, omnia_discovery::controllers, omnia_discovery::controllers, thoroughness())
        .await
        .unwrap()
        .publish();
}

#[tokio::test]
async fn a_service_touches_only_the_registries_that_select_it() {
    let mut world = World::on(plane().await, "touched", Weather::Calm, omnia_discovery::controllers).await;
    for name in ["near", "far"] {
        service(&world, name).await;
        pods_behind(&world, name, &["one"]).await;
        let labels = Patch::Merge(json!({ "metadata": { "labels": { "role": name } } }));
        world.api::<Service>().patch(name, &PatchParams::default(), &labels).await.unwrap();
        let handler =
            format!("handlers: [{{ name: {name}, type: openapi, selector: {{ matchLabels: {{ role: {name} }} }} }}]");
        world.create(&object("ToolRegistry", name, &handler)).await;
    }
    let count = |world: &World, name: &str| {
        let registries = world.objects::<DynamicObject>("omnia.altairalabs.ai/toolregistries");
        let registry = registries.iter().find(|registry| registry.name_any() == name);
        registry.map_or(Value::Null, |registry| registry.data["status"]["discoveredToolsCount"].clone())
    };
    world.until(HOUR, |world| count(world, "near") == 1 && count(world, "far") == 1).await;
    let asked = || (omnia_discovery::times_asked("near"), omnia_discovery::times_asked("far"));
    let before = asked();
    pods_behind(&world, "near", &["one", "two"]).await;
    world.until(MINUTE / 2, |world| count(world, "near") == 2).await;
    assert!(asked().0 > before.0);
    assert_eq!(asked().1, before.1, "the other was not even asked");
}

pub fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: {kind}\nmetadata: {{ name: {name} }}\nspec: {{ {spec} }}")
}

pub fn pack(version: &str) -> String {
    object(
        "PromptPack",
        "support",
        &format!("version: {version}, source: {{ type: configmap, configMapRef: {{ name: content }} }}"),
    )
}

pub fn runtime(extra: &str) -> String {
    object("AgentRuntime", "helper", &format!("promptPackRef: {{ name: support }}, facade: {{}}, {extra}"))
}

pub const REGISTRY: &str = "handlers: [{ name: a, type: http, tool: { name: a, description: d, inputSchema: { type: object } }, httpConfig: { endpoint: 'http://one/x' } }, { name: b, type: http, tool: { name: b, description: d, inputSchema: { type: object } }, httpConfig: { endpoint: 'http://two/x' } }]";

pub async fn give<K>(world: &World, value: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::Serialize + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(value).unwrap();
    world.api::<K>().create(&PostParams::default(), &object).await.unwrap();
}

pub async fn write_content(world: &World, version: &str, text: &str) {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "content" }, "data": { "pack.json": content(version, text) } });
    let params = PatchParams::apply("a user").force();
    world.api::<ConfigMap>().patch("content", &params, &Patch::Apply(&map)).await.unwrap();
}

pub async fn service(world: &World, name: &str) {
    give::<Service>(world, json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } })).await;
    let labels = json!({ "kubernetes.io/service-name": name });
    let endpoints = json!([{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }]);
    give::<EndpointSlice>(
        world,
        json!({ "metadata": { "name": name, "labels": labels }, "addressType": "IPv4", "endpoints": endpoints }),
    )
    .await;
}

pub async fn ready(world: &World, name: &str, ready: bool) {
    let endpoints = json!([{ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } }]);
    let patch = Patch::Merge(json!({ "endpoints": endpoints }));
    world.api::<EndpointSlice>().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Everything that is left, without what differs from run to run.
pub fn stand(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for plural in ["agentpolicies", "agentruntimes", "promptpacks", "providers", "toolregistries"] {
        for object in world.objects::<DynamicObject>(&format!("omnia.altairalabs.ai/{plural}")) {
            let status = &object.data["status"];
            let mut conditions: Vec<String> = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|c| format!("{}={}/{}", c["type"], c["status"], c["reason"]))
                .collect();
            conditions.sort();
            let tools: Vec<String> = status["discoveredTools"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|tool| format!("{}:{}", tool["name"], tool["status"]))
                .collect();
            lines.push(format!(
                "{plural} {} {} {} {} {:?} {} {}",
                object.name_any(),
                status["phase"],
                status["activeVersion"],
                status["replicas"],
                tools,
                object.finalizers().len(),
                conditions.join(",")
            ));
        }
    }
    for deployment in world.objects::<Deployment>("apps/deployments") {
        lines.push(format!("deployment {} {}", deployment.name_any(), hash(&deployment)));
    }
    for map in world.objects::<ConfigMap>("/configmaps") {
        let data = map.data.clone().unwrap_or_default();
        lines.push(format!("configmap {} {}", map.name_any(), digest(data.values().map(String::as_str))));
    }
    lines
}

pub fn hash(deployment: &Deployment) -> String {
    let template = deployment.spec.as_ref().unwrap().template.metadata.clone().unwrap();
    template.annotations.unwrap()[HASH_ANNOTATION].clone()
}

pub fn phase(world: &World, plural: &str) -> String {
    let objects = world.objects::<DynamicObject>(&format!("omnia.altairalabs.ai/{plural}"));
    objects
        .first()
        .map(|object| object.data["status"]["phase"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

pub fn is(plural: &'static str, wanted: &'static str) -> impl Fn(&World) -> bool {
    move |world| phase(world, plural) == wanted
}

fn an_agent(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        world.create(&object("Provider", "model", "type: mock")).await;
        world.create(&runtime("providerRef: { name: model }, runtime: { replicas: 2 }")).await;
        world.until(HOUR, is("agentruntimes", "Running")).await;
        stand(world)
    })
}

fn a_new_version(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        world.create(&runtime("provider: { type: mock }")).await;
        world.until(HOUR, is("agentruntimes", "Running")).await;
        let before = hash(&world.objects::<Deployment>("apps/deployments")[0]);
        write_content(world, "1.1.0", "b").await;
        world.pass(MINUTE).await;
        assert_eq!(phase(world, "promptpacks"), "Pending", "held");
        assert_eq!(hash(&world.objects::<Deployment>("apps/deployments")[0]), before, "the first write rolls nothing");
        world.change("PromptPack", "support", json!({ "spec": { "version": "1.1.0" } })).await;
        world.until(HOUR, is("promptpacks", "Active")).await;
        world.pass(MINUTE).await;
        assert_ne!(hash(&world.objects::<Deployment>("apps/deployments")[0]), before, "the second does");
        stand(world)
    })
}

fn a_late_registry(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        world.create(&runtime("provider: { type: mock }, toolRegistryRef: { name: desk }")).await;
        world.until(HOUR, is("agentruntimes", "Failed")).await;
        assert!(world.objects::<Deployment>("apps/deployments").is_empty());
        service(world, "one").await;
        service(world, "two").await;
        world.create(&object("ToolRegistry", "desk", REGISTRY)).await;
        world.until(HOUR, is("agentruntimes", "Running")).await;
        world.pass(MINUTE).await;
        stand(world)
    })
}

fn a_late_pack(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&runtime("provider: { type: mock }")).await;
        world.until(HOUR, is("agentruntimes", "Failed")).await;
        world.create(&pack("1.0.0")).await;
        world.until(HOUR, is("promptpacks", "Failed")).await;
        write_content(world, "1.0.0", "a").await;
        world.until(HOUR, is("agentruntimes", "Running")).await;
        world.pass(MINUTE).await;
        stand(world)
    })
}

fn endpoints(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        service(world, "one").await;
        service(world, "two").await;
        world.create(&object("ToolRegistry", "desk", REGISTRY)).await;
        world.until(HOUR, is("toolregistries", "Ready")).await;
        ready(world, "one", false).await;
        world.until(HOUR, is("toolregistries", "Degraded")).await;
        ready(world, "two", false).await;
        world.until(HOUR, is("toolregistries", "Failed")).await;
        ready(world, "one", true).await;
        ready(world, "two", true).await;
        world.until(HOUR, is("toolregistries", "Ready")).await;
        stand(world)
    })
}

/// Says which Pods are behind a Service.
pub async fn pods_behind(world: &World, service: &str, pods: &[&str]) {
    let endpoint = |pod: &&str| json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "targetRef": { "kind": "Pod", "name": pod } });
    let endpoints: Vec<Value> = pods.iter().map(endpoint).collect();
    let patch = Patch::Merge(json!({ "endpoints": endpoints, "ports": [{ "name": "", "port": 8080 }] }));
    world.api::<EndpointSlice>().patch(service, &PatchParams::default(), &patch).await.unwrap();
}

fn tools_listed(world: &World) -> usize {
    let registries = world.objects::<DynamicObject>("omnia.altairalabs.ai/toolregistries");
    registries[0].data["status"]["discoveredTools"].as_array().map_or(0, Vec::len)
}

fn a_describing_server(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        service(world, "shop").await;
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        let spec = "handlers: [{ name: shop, type: openapi, openAPIConfig: { specURL: 'http://shop/openapi.json' } }]";
        world.create(&object("ToolRegistry", "desk", spec)).await;
        world.create(&runtime("provider: { type: mock }, toolRegistryRef: { name: desk }")).await;
        pods_behind(world, "shop", &["small"]).await;
        world.until(HOUR, |world| phase(world, "toolregistries") == "Ready" && tools_listed(world) == 1).await;
        pods_behind(world, "shop", &["big-1", "big-2", "big-3"]).await;
        world.until(HOUR, |world| tools_listed(world) == 3 && tools_file(world).contains("name: t2")).await;
        ready(world, "shop", false).await;
        world.until(HOUR, is("toolregistries", "Failed")).await;
        assert_eq!(tools_listed(world), 3, "they are known, and not to be had");
        pods_behind(world, "shop", &["small", "smaller"]).await;
        world.until(HOUR, is("toolregistries", "Ready")).await;
        world.pass(MINUTE).await;
        stand(world)
    })
}

fn programs(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        let program = |name: &str, image: &str| {
            format!("{{ name: {name}, type: mcp, mcpConfig: {{ transport: stdio, command: run, image: {image} }} }}")
        };
        let handlers = [program("one", "first"), program("two", "broken"), program("three", "forever")];
        world.create(&object("ToolRegistry", "desk", &format!("handlers: [{}]", handlers.join(", ")))).await;
        // The third is given up after three minutes.
        world.until(HOUR, |world| phase(world, "toolregistries") == "Degraded" && tools_listed(world) == 3).await;
        let handlers: Value = crate::support::yaml(&format!("[{}]", program("one", "second")));
        world.change("ToolRegistry", "desk", json!({ "spec": { "handlers": handlers } })).await;
        world.until(HOUR, is("toolregistries", "Ready")).await;
        world.until(HOUR, |world| world.pods().len() == 1).await;
        stand(world)
    })
}

pub fn tools_file(world: &World) -> String {
    let maps = world.objects::<ConfigMap>("/configmaps");
    let map = maps.iter().find(|map| map.name_any() == "helper-tools");
    map.map(|map| map.data.clone().unwrap()["tools.yaml"].clone()).unwrap_or_default()
}

fn a_policy(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        service(world, "one").await;
        service(world, "two").await;
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        world.create(&object("ToolRegistry", "desk", REGISTRY)).await;
        world.create(&object("AgentPolicy", "rules", "toolBlocklist: [a], onFailure: allow")).await;
        world.create(&runtime("provider: { type: mock }, toolRegistryRef: { name: desk }")).await;
        world
            .until(HOUR, |world| tools_file(world).contains("name: b") && !tools_file(world).contains("name: a\n"))
            .await;
        world.delete("AgentPolicy", "rules").await;
        world.until(HOUR, |world| tools_file(world).contains("name: a\n")).await;
        world
            .create(&object(
                "AgentPolicy",
                "strict",
                "toolAccess: { mode: allowlist, rules: [{ registry: desk, tools: [a] }] }, onFailure: allow",
            ))
            .await;
        world.until(HOUR, |world| !tools_file(world).contains("name: b")).await;
        world.pass(MINUTE).await;
        stand(world)
    })
}

fn a_secret(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        world.create(&object("Provider", "model", "type: claude, secretRef: { name: keys }")).await;
        world.create(&runtime("providerRef: { name: model }")).await;
        world.until(HOUR, is("providers", "Error")).await;
        assert_eq!(phase(world, "agentruntimes"), "Pending", "it waits for its provider");
        give::<Secret>(world, json!({ "metadata": { "name": "keys" }, "stringData": { "ANTHROPIC_API_KEY": "one" } }))
            .await;
        world.until(HOUR, is("agentruntimes", "Running")).await;
        let before = hash(&world.objects::<Deployment>("apps/deployments")[0]);
        let patch = Patch::Merge(json!({ "stringData": { "ANTHROPIC_API_KEY": "two" } }));
        world.api::<Secret>().patch("keys", &PatchParams::default(), &patch).await.unwrap();
        world.until(HOUR, move |world| hash(&world.objects::<Deployment>("apps/deployments")[0]) != before).await;
        world.pass(MINUTE).await;
        stand(world)
    })
}

fn a_deleted_agent(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        write_content(world, "1.0.0", "a").await;
        world.create(&pack("1.0.0")).await;
        world.create(&runtime("provider: { type: mock }")).await;
        world.until(HOUR, is("agentruntimes", "Running")).await;
        world.delete("AgentRuntime", "helper").await;
        world
            .until(HOUR, |world| world.objects::<DynamicObject>("omnia.altairalabs.ai/agentruntimes").is_empty())
            .await;
        world.pass(MINUTE).await;
        stand(world)
    })
}
