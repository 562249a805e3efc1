//! "Controller Reconciliation", the document that Omnia promises, line by line on a plane: a real API, virtual time.
//!
//! | the document | test (here, unless a path says where) |
//! |---|---|
//! | Watch, queue, reconcile, requeue | every test here; the engine's own: `engine/tests/it` |
//! | **`AgentRuntime`**: Validate: valid; pack: found; registry: not referenced; Deployment; Service; Running | `an_agent_is_built_and_runs` |
//! | Validate: invalid → Failed | `an_invalid_spec_fails_until_it_is_changed` |
//! | Pack: not found → Failed; watches `PromptPack` | `a_missing_pack_fails_until_it_comes` |
//! | Registry: referenced, not found → Failed; found; watches `ToolRegistry` | `a_missing_registry_fails_until_it_comes` |
//! | Deployment: image, variables, volumes, limits, labels | `a_deployment_is_built_from_flags_and_spec` |
//! | Status: phase, replicas, conditions; watches `AgentRuntime` | `replicas_are_wanted_and_counted` |
//! | Beyond it: Secrets and `ConfigMaps` that it uses | `what_an_agent_takes_at_its_start_rolls_it` |
//! | **`PromptPack`**: `ConfigMap` not found, invalid → Failed; watches `ConfigMaps` | `a_pack_without_valid_content_fails` |
//! | Agents found; Immediate → `activeVersion`; notified; Active; watches `PromptPack` | `an_immediate_version_is_active_at_once` |
//! | Agents pick it up with the next request | `runtime/tests/it`, `orrery/tests/it/omnia.rs` |
//! | Canary → `canaryVersion`; weight below 100 % → share of the traffic; 100 % → promoted | `a_canary_is_promoted_at_full_weight` |
//! | Traffic is split, issues are noticed | `router/tests/it`, `omnia_canary.rs`, `orrery/tests/it/omnia_canary.rs` |
//! | **`ToolRegistry`**: HTTP, gRPC → explicit schema; all, some, none → Ready, Degraded, Failed; `discoveredTools`; watches `ToolRegistry` | `a_registry_is_ready_degraded_or_failed_as_its_services_are` |
//! | MCP, OpenAPI → discovered from the Service | `servers_say_themselves_what_they_have`; real servers: `orrery/tests/it/omnia_tools.rs` |
//! | Selector: labels, annotations, URL, ready endpoints; watches Services | `services_are_found_by_labels_and_followed` |
//! | **Errors**: both are logged | `engine/tests/it/signals.rs` |
//! | Transient: condition, back-off, retry | `what_cannot_be_written_is_said_and_tried_again`, `engine/tests/it/act.rs` (5 s to 5 min) |
//! | Permanent: Failed, condition, not requeued | the three "fails until" tests above |
//! | **Concurrency**: 1 worker, a flag, one worker for each object | `engine/tests/it/gate.rs`, `orrery/src/policy.rs` |
//! | **Requeuing**: success: not | `an_agent_is_built_and_runs`, `an_immediate_version_is_active_at_once` |
//! | Waiting for a dependency: 30 s | `a_dependency_is_waited_for_thirty_seconds` |
//! | Polling of what is outside | `servers_are_asked_again_every_minute` |
//!
//! Each line has been proved: its behaviour was taken out of the controllers, the engine, the router, the runtime or the
//! flags (a watch that tells nobody, a phase that is never set, a variable, a condition or a retry left out: 84 such changes), its
//! test was run, and it failed.

use std::sync::Arc;
use std::time::Duration;

use engine::{Clock as _, Engine};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use orrery_controllers::Options;
use orrery_controllers::kubeopencode::session::NoSessions;
use serde_json::{Value, json};

use crate::omnia_canary_scenarios::{alone, begin, change, has_share, leads, status};
use crate::omnia_discovery;
use crate::omnia_scenarios::{
    HOUR, MINUTE, REGISTRY, give, hash, is, object, pack, pods_behind, ready, runtime, service, tools_file,
    write_content,
};
use crate::support::{condition, container, env};
use crate::world::{Install, Weather, World, controllers, plane};

async fn calm(install: Install) -> World {
    World::on(plane().await, "seed", Weather::Calm, install).await
}

/// A pack at version 1.0.0.
async fn with_pack() -> World {
    let world = calm(controllers).await;
    write_content(&world, "1.0.0", "a").await;
    world.create(&pack("1.0.0")).await;
    world
}

fn deployments(world: &World) -> Vec<Arc<Deployment>> {
    world.objects("apps/deployments")
}

fn agent_says(world: &World, type_: &str) -> (String, String) {
    condition(&status(world, "agentruntimes"), type_)
}

/// It waits for a change, however long that takes: no timer, no write.
async fn rests(world: &mut World) {
    let before = world.writes();
    world.pass(HOUR).await;
    assert_eq!((world.writes(), world.next_timer()), (before, None));
}

#[tokio::test]
async fn an_agent_is_built_and_runs() {
    let mut world = with_pack().await;
    world.create(&runtime("provider: { type: mock }")).await;
    world.until(MINUTE, is("agentruntimes", "Running")).await;
    assert_eq!(deployments(&world)[0].name_any(), "helper");
    assert_eq!(world.objects::<Service>("/services")[0].name_any(), "helper");
    assert!(!world.objects::<ConfigMap>("/configmaps").iter().any(|map| map.name_any() == "helper-tools"));
    for type_ in ["SpecValid", "PromptPackReady", "DeploymentReady", "ServiceReady", "Ready"] {
        assert_eq!(agent_says(&world, type_).0, "True", "{type_}");
    }
    rests(&mut world).await;
}

#[tokio::test]
async fn an_invalid_spec_fails_until_it_is_changed() {
    let mut world = with_pack().await;
    world.create(&runtime("provider: { type: mock }, toolRegistryRef: { name: desk, namespace: elsewhere }")).await;
    world.until(MINUTE, is("agentruntimes", "Failed")).await;
    assert_eq!(agent_says(&world, "SpecValid"), ("False".into(), "Invalid".into()));
    assert!(status(&world, "agentruntimes")["conditions"].to_string().contains("spec.toolRegistryRef.namespace"));
    assert!(deployments(&world).is_empty());
    rests(&mut world).await;
    world.change("AgentRuntime", "helper", json!({ "spec": { "toolRegistryRef": null } })).await;
    world.until(MINUTE, is("agentruntimes", "Running")).await;
}

#[tokio::test]
async fn a_missing_pack_fails_until_it_comes() {
    let mut world = calm(controllers).await;
    world.create(&runtime("provider: { type: mock }")).await;
    world.until(MINUTE, is("agentruntimes", "Failed")).await;
    assert_eq!(agent_says(&world, "PromptPackReady"), ("False".into(), "PromptPackNotFound".into()));
    assert!(deployments(&world).is_empty());
    rests(&mut world).await;
    write_content(&world, "1.0.0", "a").await;
    world.create(&pack("1.0.0")).await;
    world.until(MINUTE, is("agentruntimes", "Running")).await;
}

#[tokio::test]
async fn a_missing_registry_fails_until_it_comes() {
    let mut world = with_pack().await;
    world.create(&runtime("provider: { type: mock }, toolRegistryRef: { name: desk }")).await;
    world.until(MINUTE, is("agentruntimes", "Failed")).await;
    assert_eq!(agent_says(&world, "ToolRegistryReady"), ("False".into(), "ToolRegistryNotFound".into()));
    assert!(deployments(&world).is_empty());
    rests(&mut world).await;
    service(&world, "one").await;
    service(&world, "two").await;
    world.create(&object("ToolRegistry", "desk", REGISTRY)).await;
    world.until(MINUTE, is("agentruntimes", "Running")).await;
    assert_eq!(agent_says(&world, "ToolRegistryReady"), ("True".into(), "ToolRegistryFound".into()));
    assert!(tools_file(&world).contains("name: a\n") && tools_file(&world).contains("name: b\n"));
    ready(&world, "one", false).await;
    world.until(MINUTE, |world| !tools_file(world).contains("name: a\n")).await;
}

fn with_images(engine: Engine) -> Engine {
    let mut options = Options::default();
    options.omnia.facade_image = Some("flag/facade:1".into());
    options.omnia.framework_image = Some("flag/runtime:1".into());
    orrery_controllers::install(engine, &options, Arc::new(NoSessions))
}

#[tokio::test]
async fn a_deployment_is_built_from_flags_and_spec() {
    let mut world = calm(with_images).await;
    write_content(&world, "1.0.0", "a").await;
    world.create(&pack("1.0.0")).await;
    let limits = "runtime: { resources: { limits: { memory: 1Gi } } }";
    let provider = "provider: { type: ollama, model: small }, session: { type: memory, ttl: 2h }";
    world.create(&runtime(&format!("{provider}, {limits}"))).await;
    world.until(MINUTE, is("agentruntimes", "Running")).await;
    let deployment = serde_json::to_value(&deployments(&world)[0]).unwrap();
    let template = &deployment["spec"]["template"];
    let mut pod = template["spec"].clone();
    pod["initContainers"] = json!([]);
    let (facade, thinking) = (container(&pod, "facade"), container(&pod, "runtime"));
    assert_eq!((&facade["image"], &thinking["image"]), (&json!("flag/facade:1"), &json!("flag/runtime:1")));
    let has = |container: &Value, name: &str, value: &str| {
        assert!(env(container).contains(&(name.into(), value.into())), "{name}: {:?}", env(container));
    };
    for container in [&facade, &thinking] {
        has(container, "OMNIA_AGENT_NAME", "helper");
        has(container, "OMNIA_NAMESPACE", "seed");
        has(container, "OMNIA_SESSION_TYPE", "memory");
    }
    has(&thinking, "OMNIA_PROVIDER_TYPE", "ollama");
    has(&thinking, "OMNIA_PROVIDER_MODEL", "small");
    assert_eq!(thinking["resources"]["limits"]["memory"], "1Gi");
    let maps = world.objects::<ConfigMap>("/configmaps");
    let mounted = pod["volumes"][0]["configMap"]["name"].as_str().unwrap();
    assert!(maps.iter().any(|map| map.name_any() == mounted && map.immutable == Some(true)), "{mounted}");
    assert_eq!(thinking["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
    let selector = deployment["spec"]["selector"]["matchLabels"].as_object().unwrap();
    assert_eq!(selector["app.kubernetes.io/instance"], "helper");
    assert!(selector.iter().all(|(key, value)| template["metadata"]["labels"][key] == *value), "{selector:?}");
}

#[tokio::test]
async fn replicas_are_wanted_and_counted() {
    let mut world = with_pack().await;
    world.create(&runtime("provider: { type: mock }, runtime: { replicas: 3 }")).await;
    let counted = |world: &World| {
        let status = status(world, "agentruntimes");
        (status["phase"].clone(), status["replicas"]["desired"].clone(), status["replicas"]["ready"].clone())
    };
    let counts = |wanted: i64| move |world: &World| counted(world) == (json!("Running"), json!(wanted), json!(wanted));
    // The node has not started any of them yet, and then two.
    world.work().await;
    assert_eq!(counted(&world), (json!("Pending"), json!(3), json!(0)));
    let two = Patch::Merge(json!({ "status": { "replicas": 3, "readyReplicas": 2 } }));
    world.api::<Deployment>().patch_status("helper", &PatchParams::default(), &two).await.unwrap();
    world.work().await;
    assert_eq!(counted(&world), (json!("Running"), json!(3), json!(2)));
    world.until(MINUTE, counts(3)).await;
    world.change("AgentRuntime", "helper", json!({ "spec": { "runtime": { "replicas": 1 } } })).await;
    world.until(MINUTE, counts(1)).await;
    world.change("AgentRuntime", "helper", json!({ "spec": { "runtime": { "replicas": 0 } } })).await;
    world.until(MINUTE, |world| status(world, "agentruntimes")["phase"] != "Running").await;
}

#[tokio::test]
async fn a_pack_without_valid_content_fails() {
    let mut world = calm(controllers).await;
    world.create(&pack("1.0.0")).await;
    world.until(MINUTE, is("promptpacks", "Failed")).await;
    assert_eq!(condition(&status(&world, "promptpacks"), "SourceValid").0, "False");
    rests(&mut world).await;
    give::<ConfigMap>(&world, json!({ "metadata": { "name": "content" }, "data": { "pack.json": "{}" } })).await;
    world.until(MINUTE, |world| condition(&status(world, "promptpacks"), "SchemaValid").0 == "False").await;
    assert_eq!(status(&world, "promptpacks")["phase"], "Failed");
    rests(&mut world).await;
    write_content(&world, "1.0.0", "a").await;
    world.until(MINUTE, is("promptpacks", "Active")).await;
}

#[tokio::test]
async fn an_immediate_version_is_active_at_once() {
    let mut world = with_pack().await;
    for name in ["one", "two"] {
        let spec = "promptPackRef: { name: support }, facade: {}, provider: { type: mock }";
        world.create(&object("AgentRuntime", name, spec)).await;
    }
    let other = "promptPackRef: { name: another }, facade: {}, provider: { type: mock }";
    world.create(&object("AgentRuntime", "three", other)).await;
    world.until(MINUTE, |world| deployments(world).len() == 2).await;
    world.until(MINUTE, |world| status(world, "promptpacks")["agents"] == 2).await;
    let told = condition(&status(&world, "promptpacks"), "AgentsNotified");
    assert_eq!(told, ("True".into(), "AgentsNotified".into()));
    let before: Vec<String> = deployments(&world).iter().map(|deployment| hash(deployment)).collect();
    write_content(&world, "1.1.0", "b").await;
    world.work().await;
    assert_eq!(status(&world, "promptpacks")["activeVersion"], "1.0.0", "nobody wants it yet");
    world.change("PromptPack", "support", json!({ "spec": { "version": "1.1.0" } })).await;
    // No time passes: the change itself is heard.
    world.work().await;
    let active = status(&world, "promptpacks");
    assert_eq!((&active["activeVersion"], &active["phase"]), (&json!("1.1.0"), &json!("Active")));
    let moved = move |world: &World| {
        deployments(world).iter().map(|deployment| hash(deployment)).zip(&before).all(|(now, before)| now != *before)
    };
    world.until(MINUTE, moved).await;
    world.pass(MINUTE).await;
    rests(&mut world).await;
}

#[tokio::test]
async fn a_canary_is_promoted_at_full_weight() {
    let mut world = calm(controllers).await;
    begin(&mut world, "weight: 10").await;
    world.until(HOUR, has_share("1.1.0", 10)).await;
    let pack = status(&world, "promptpacks");
    assert_eq!((&pack["phase"], &pack["activeVersion"]), (&json!("Canary"), &json!("1.0.0")));
    assert_eq!((&pack["canaryVersion"], &pack["canaryWeight"]), (&json!("1.1.0"), &json!(10)));
    assert_eq!(leads(&world), "router");
    world.pass(HOUR).await;
    assert_eq!(status(&world, "promptpacks")["canaryWeight"], 10, "nothing is promoted below 100 %");
    change(&world, json!({ "weight": 100 })).await;
    world.until(HOUR, |world| is("promptpacks", "Active")(world) && alone(world)).await;
    let pack = status(&world, "promptpacks");
    assert_eq!((&pack["activeVersion"], &pack["canaryVersion"]), (&json!("1.1.0"), &Value::Null));
    assert_eq!(status(&world, "agentruntimes")["activeVersion"], "1.1.0");
}

/// Name and availability of each tool of the only registry.
fn tools(world: &World) -> Vec<(String, String)> {
    let status = status(world, "toolregistries");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = status["discoveredTools"].as_array().cloned().unwrap_or_default();
    list.iter().map(|tool| (text(&tool["name"]), text(&tool["status"]))).collect()
}

fn are(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect()
}

#[tokio::test]
async fn a_registry_is_ready_degraded_or_failed_as_its_services_are() {
    let mut world = calm(controllers).await;
    service(&world, "one").await;
    service(&world, "two").await;
    let schema = "inputSchema: { type: object, required: [q] }";
    let spec = format!(
        "handlers: [{{ name: a, type: http, tool: {{ name: a, description: d, {schema} }}, httpConfig: {{ endpoint: 'http://one/x' }} }},
            {{ name: b, type: grpc, tool: {{ name: b, description: d, {schema} }}, grpcConfig: {{ endpoint: 'two:80' }} }}]"
    );
    world.create(&object("ToolRegistry", "desk", &spec)).await;
    world.until(MINUTE, is("toolregistries", "Ready")).await;
    assert_eq!(tools(&world), are(&[("a", "Available"), ("b", "Available")]));
    for tool in status(&world, "toolregistries")["discoveredTools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"], json!({ "type": "object", "required": ["q"] }), "as it is written");
    }
    rests(&mut world).await;
    ready(&world, "two", false).await;
    world.until(MINUTE, is("toolregistries", "Degraded")).await;
    assert_eq!(tools(&world), are(&[("a", "Available"), ("b", "Unavailable")]));
    ready(&world, "one", false).await;
    world.until(MINUTE, is("toolregistries", "Failed")).await;
    assert_eq!(tools(&world), are(&[("a", "Unavailable"), ("b", "Unavailable")]));
    ready(&world, "one", true).await;
    world.until(MINUTE, is("toolregistries", "Degraded")).await;
    let only: Value = crate::support::yaml(&format!("{{ {spec} }}"));
    let only = json!({ "spec": { "handlers": [only["handlers"][0]] } });
    world.change("ToolRegistry", "desk", only).await;
    world.until(MINUTE, is("toolregistries", "Ready")).await;
    assert_eq!(tools(&world), are(&[("a", "Available")]));
}

#[tokio::test]
async fn servers_say_themselves_what_they_have() {
    for config in [
        "type: openapi, openAPIConfig: { specURL: 'http://shop/openapi.json' }",
        "type: mcp, mcpConfig: { transport: streamable-http, endpoint: 'http://shop/mcp' }",
    ] {
        let mut world = calm(omnia_discovery::controllers).await;
        service(&world, "shop").await;
        pods_behind(&world, "shop", &["one"]).await;
        world.create(&object("ToolRegistry", "desk", &format!("handlers: [{{ name: shop, {config} }}]"))).await;
        world.until(MINUTE, is("toolregistries", "Ready")).await;
        assert_eq!(tools(&world), are(&[("t0", "Available")]), "{config}");
        // The stand-in has as many tools as it has Pods.
        pods_behind(&world, "shop", &["one", "two"]).await;
        world.until(MINUTE, |world| tools(world) == are(&[("t0", "Available"), ("t1", "Available")])).await;
        ready(&world, "shop", false).await;
        world.until(MINUTE, is("toolregistries", "Failed")).await;
        assert_eq!(tools(&world), are(&[("t0", "Unavailable"), ("t1", "Unavailable")]));
    }
}

#[tokio::test]
async fn servers_are_asked_again_every_minute() {
    let mut world = calm(omnia_discovery::controllers).await;
    let handler =
        "{ name: polled, type: openapi, openAPIConfig: { specURL: 'http://tools.example.com/openapi.json' } }";
    world.create(&object("ToolRegistry", "desk", &format!("handlers: [{handler}]"))).await;
    world.pass(Duration::ZERO).await;
    let (before, writes) = (omnia_discovery::times_asked("polled"), world.writes());
    world.pass(10 * MINUTE).await;
    assert_eq!(omnia_discovery::times_asked("polled") - before, 10);
    assert_eq!(world.writes(), writes, "what says the same as before is not written");
}

#[tokio::test]
async fn services_are_found_by_labels_and_followed() {
    let mut world = calm(controllers).await;
    let selector = "selector: { matchLabels: { role: tool } }";
    world
        .create(&object("ToolRegistry", "desk", &format!("handlers: [{{ name: any, type: http, {selector} }}]")))
        .await;
    let first = |world: &World| status(world, "toolregistries")["discoveredTools"][0].clone();
    world.until(MINUTE, |world| first(world)["reason"] == "ServiceNotFound").await;
    service(&world, "s").await;
    let patch = async |world: &World, metadata: Value| {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        world.api::<Service>().patch("s", &PatchParams::default(), &patch).await.unwrap();
    };
    patch(&world, json!({ "labels": { "role": "tool" } })).await;
    world.until(MINUTE, |world| first(world)["reason"] == "NoDescription").await;
    let says = |name: &str| {
        json!({ "annotations": {
        "omnia.altairalabs.ai/tool-name": name, "omnia.altairalabs.ai/tool-description": "Searches",
        "omnia.altairalabs.ai/tool-type": "http", "omnia.altairalabs.ai/tool-path": "/find" } })
    };
    patch(&world, says("search")).await;
    world.until(MINUTE, |world| first(world)["name"] == "search").await;
    let tool = first(&world);
    assert_eq!((&tool["description"], &tool["status"]), (&json!("Searches"), &json!("Available")));
    assert_eq!(tool["endpoint"], "http://s.seed.svc.cluster.local:80/find");
    patch(&world, says("look")).await;
    world.until(MINUTE, |world| first(world)["name"] == "look").await;
    patch(&world, json!({ "annotations": { "omnia.altairalabs.ai/tool-type": "grpc" } })).await;
    world.until(MINUTE, |world| first(world)["endpoint"] == "grpc://s.seed.svc.cluster.local:80/find").await;
    ready(&world, "s", false).await;
    world.until(MINUTE, |world| first(world)["reason"] == "NoReadyEndpoints").await;
    patch(&world, json!({ "labels": { "role": "other" } })).await;
    world.until(MINUTE, |world| first(world)["reason"] == "ServiceNotFound").await;
}

#[tokio::test]
async fn what_cannot_be_written_is_said_and_tried_again() {
    let mut world = with_pack().await;
    world.pass(Duration::ZERO).await;
    world.close(Some("/deployments"));
    world.create(&runtime("provider: { type: mock }")).await;
    let mut waits = Vec::new();
    for _ in 0..4 {
        world.pass(Duration::ZERO).await;
        assert_eq!(agent_says(&world, "DeploymentReady"), ("False".into(), "DeploymentFailed".into()));
        let next = world.next_timer().unwrap();
        waits.push(next.duration_since(world.clock.now()).as_secs());
        world.clock.set(next);
    }
    assert_eq!(waits, [5, 10, 20, 40]);
    world.close(None);
    world.until(MINUTE, is("agentruntimes", "Running")).await;
    assert_eq!(agent_says(&world, "DeploymentReady").0, "True");
}

#[tokio::test]
async fn a_registry_that_cannot_be_written_down_says_so() {
    let mut world = calm(omnia_discovery::controllers).await;
    world.close(Some("/pods"));
    let program = "handlers: [{ name: one, type: mcp, mcpConfig: { transport: stdio, command: run, image: first } }]";
    world.create(&object("ToolRegistry", "desk", program)).await;
    world.pass(Duration::ZERO).await;
    assert_eq!(condition(&status(&world, "toolregistries"), "ToolsDiscovered"), ("False".into(), "Unavailable".into()));
    world.close(None);
    world.until(HOUR, is("toolregistries", "Ready")).await;
    assert_eq!(condition(&status(&world, "toolregistries"), "ToolsDiscovered").0, "True");
}

#[tokio::test]
async fn a_dependency_is_waited_for_thirty_seconds() {
    let mut world = with_pack().await;
    world.create(&object("Provider", "model", "type: claude, secretRef: { name: keys }")).await;
    world.pass(Duration::ZERO).await;
    assert_eq!(world.next_timer(), None, "what is missing is not waited for but watched for");
    world.create(&runtime("providerRef: { name: model }")).await;
    world.pass(Duration::ZERO).await;
    assert_eq!(status(&world, "agentruntimes")["phase"], "Pending");
    assert_eq!(world.next_timer().map(|at| at.duration_since(world.clock.now()).as_secs()), Some(30));
}

/// An agent that takes something from a Secret or a `ConfigMap` called `own`.
async fn using(install: Install, settings: &str) -> World {
    let mut world = calm(install).await;
    write_content(&world, "1.0.0", "a").await;
    world.create(&pack("1.0.0")).await;
    give::<Secret>(&world, json!({ "metadata": { "name": "own" }, "stringData": { "k": "one" } })).await;
    give::<ConfigMap>(&world, json!({ "metadata": { "name": "own" }, "data": { "k": "one" } })).await;
    world.create(&runtime(&format!("provider: {{ type: mock }}, runtime: {{ {settings} }}"))).await;
    world.until(MINUTE, is("agentruntimes", "Running")).await;
    world
}

/// Whether the agent's Pods are replaced when both have another value.
async fn rolls(world: &mut World, secret: bool, map: bool) -> bool {
    let before = hash(&deployments(world)[0]);
    let merge = PatchParams::default();
    if secret {
        let value = Patch::Merge(json!({ "stringData": { "k": "two" } }));
        world.api::<Secret>().patch("own", &merge, &value).await.unwrap();
    }
    if map {
        let value = Patch::Merge(json!({ "data": { "k": "two" } }));
        world.api::<ConfigMap>().patch("own", &merge, &value).await.unwrap();
    }
    world.pass(MINUTE).await;
    hash(&deployments(world)[0]) != before
}

#[tokio::test]
async fn what_an_agent_takes_at_its_start_rolls_it() {
    let variable =
        |source: &str| format!("extraEnv: [{{ name: OWN, valueFrom: {{ {source}: {{ name: own, key: k }} }} }}]");
    let volume = |source: &str| {
        format!("volumes: [{{ name: own, {source} }}], volumeMounts: [{{ name: own, mountPath: /own }}]")
    };
    for (settings, secret) in [
        (variable("secretKeyRef"), true),
        (variable("configMapKeyRef"), false),
        (volume("secret: { secretName: own }"), true),
        (volume("configMap: { name: own }"), false),
        (volume("projected: { sources: [{ secret: { name: own } }] }"), true),
        (volume("projected: { sources: [{ configMap: { name: own } }] }"), false),
    ] {
        let mut world = using(controllers, &settings).await;
        assert!(!rolls(&mut world, !secret, secret).await, "{settings}: the other one is nothing to it");
        assert!(rolls(&mut world, secret, !secret).await, "{settings}");
        world.pass(MINUTE).await;
        rests(&mut world).await;
    }
}

#[tokio::test]
async fn a_runtime_of_ours_is_not_rolled_for_files_that_it_sees_change() {
    let volume = |mount: &str| {
        format!(
            "volumes: [{{ name: own, configMap: {{ name: own }} }}], volumeMounts: [{{ name: own, mountPath: /own{mount} }}]"
        )
    };
    let mut world = using(omnia_discovery::controllers, &volume("")).await;
    assert!(!rolls(&mut world, false, true).await);
    let mut world = using(omnia_discovery::controllers, &volume(", subPath: k")).await;
    assert!(rolls(&mut world, false, true).await, "a part of a volume stays as it was");
}
