//! What is decided about `AgentRuntimes`: each arrow of their flow chart.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::{AgentPolicy, AgentRuntime, PromptPack, Provider, ToolRegistry};
use engine::{Decision, Outcome};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use orrery_controllers::omnia::Settings;
use orrery_controllers::omnia::agent_runtime::{Canary, Observed, decide};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{at, condition, container, env, object, status, steps, yaml};

const RUNTIME: &str = "
metadata: { name: helper, namespace: team, uid: r-uid, generation: 4, finalizers: [agentruntime.omnia.altairalabs.ai/finalizer] }
spec:
  promptPackRef: { name: support }
  facade: { type: websocket }
  provider: { type: mock }
";

const PACK: &str = "
metadata: { name: support, namespace: team, uid: p-uid }
spec: { version: 1.1.0, source: { type: configmap, configMapRef: { name: c } } }
status:
  phase: Active
  activeVersion: 1.1.0
  versions:
  - { version: 1.1.0, configMap: support-bb, prompts: [help, sales], entry: help }
  - { version: 1.0.0, configMap: support-aa, prompts: [help], entry: help }
";

const REGISTRY: &str = "
metadata: { name: desk, namespace: team, uid: t-uid }
spec:
  handlers:
  - name: orders
    type: http
    tool: { name: look_up, description: Looks up, inputSchema: { type: object, properties: { id: { type: string } } } }
    httpConfig: { endpoint: 'http://orders.team.svc:80/find', headers: { X-A: b }, authType: bearer, authSecretRef: { name: desk-key, key: token } }
  - { name: gone, type: http, tool: { name: gone, description: d, inputSchema: {} }, httpConfig: { endpoint: 'http://x' } }
status:
  phase: Degraded
  discoveredTools:
  - { name: look_up, handlerName: orders, description: Looks up, inputSchema: { type: object, properties: { id: { type: string } } }, endpoint: 'http://orders.team.svc:80/find', status: Available }
  - { name: gone, handlerName: gone, status: Unavailable, reason: Unreachable }
";

fn observed(runtime: &str) -> Observed {
    Observed {
        runtime: Arc::new(yaml::<AgentRuntime>(runtime)),
        pack: Some(Arc::new(yaml::<PromptPack>(PACK))),
        registry: None,
        policies: Vec::new(),
        provider: None,
        secrets: BTreeMap::new(),
        config_maps: BTreeMap::new(),
        deployment: None,
        tools: None,
        schemas: Vec::new(),
        pods: Vec::new(),
        canary: Canary::default(),
    }
}

fn with_tools(extra: &str) -> Observed {
    let mut observed = observed(&format!("{RUNTIME}\n  toolRegistryRef: {{ name: desk }}\n{extra}"));
    observed.registry = Some(Arc::new(yaml::<ToolRegistry>(REGISTRY)));
    observed
}

fn decided(observed: &Observed) -> Decision {
    decide(observed, &Settings::default(), at("2026-01-01T00:00:00Z"))
}

/// With our own program as facade and runtime.
fn own() -> Settings {
    Settings { own_image: Some("host".into()), ..Settings::default() }
}

fn decided_by_own(observed: &Observed) -> Decision {
    decide(observed, &own(), at("2026-01-01T00:00:00Z"))
}

fn failed(decision: &Decision) -> (Value, bool) {
    let objects = steps(decision).iter().any(|step| step.starts_with("apply"));
    assert!(!objects, "nothing is built: {:?}", steps(decision));
    (status(decision), matches!(decision.outcome, Outcome::Permanent(_)))
}

#[test]
fn valid_then_pack_then_deployment_then_service_then_running() {
    let mut observed = observed(RUNTIME);
    let decision = decided(&observed);
    assert_eq!(
        steps(&decision),
        ["apply Deployment helper", "apply Service helper", "patch status AgentRuntime helper"]
    );
    let written = status(&decision);
    assert_eq!((&written["phase"], &written["activeVersion"]), (&json!("Pending"), &json!("1.1.0")));
    assert_eq!(written["serviceEndpoint"], "helper.team.svc.cluster.local:8080");
    assert_eq!(written["observedGeneration"], 4);
    for (type_, reason) in [
        ("PromptPackReady", "PromptPackFound"),
        ("ProviderReady", "ProviderFound"),
        ("DeploymentReady", "DeploymentCreated"),
        ("ServiceReady", "ServiceCreated"),
    ] {
        assert_eq!(condition(&written, type_), ("True".into(), reason.into()));
    }
    assert_eq!(condition(&written, "Ready"), ("False".into(), "RuntimeNotReady".into()));
    assert_eq!(decision.outcome, Outcome::Done, "success is not requeued");
    assert_eq!(decision.look_again, None, "success is not requeued");

    let ready = json!({ "spec": { "replicas": 3, "selector": {}, "template": {} }, "status": { "readyReplicas": 2, "availableReplicas": 1 } });
    observed.deployment = Some(Arc::new(serde_json::from_value::<Deployment>(ready).unwrap()));
    let written = status(&decided(&observed));
    assert_eq!(written["phase"], "Running");
    assert_eq!(written["replicas"], json!({ "desired": 3, "ready": 2, "available": 1 }), "the Deployment's truth");
    assert_eq!(condition(&written, "Ready"), ("True".into(), "RuntimeReady".into()));
}

#[test]
fn a_new_agent_gets_its_finalizer_first_and_a_deleted_one_loses_it() {
    let fresh = RUNTIME.replace(", finalizers: [agentruntime.omnia.altairalabs.ai/finalizer]", "");
    assert_eq!(steps(&decided(&observed(&fresh)))[0], "patch object AgentRuntime helper");
    let deleted = RUNTIME.replace("generation: 4", "generation: 4, deletionTimestamp: '2026-01-01T00:00:00Z'");
    assert_eq!(steps(&decided(&observed(&deleted))), ["patch object AgentRuntime helper"]);
}

#[rstest]
#[case::foreign_registry("  toolRegistryRef: { name: x, namespace: other }", "spec.toolRegistryRef.namespace")]
#[case::foreign_provider("  providerRef: { name: x, namespace: other }", "spec.providerRef.namespace")]
fn an_invalid_spec_fails(#[case] extra: &str, #[case] field: &str) {
    let (written, permanent) = failed(&decided(&observed(&format!("{RUNTIME}\n{extra}\n"))));
    assert_eq!((&written["phase"], permanent), (&json!("Failed"), true));
    assert_eq!(condition(&written, "SpecValid"), ("False".into(), "Invalid".into()));
    assert!(written.to_string().contains(field), "{written}");
}

#[rstest]
#[case::grpc("  facade: { type: grpc }", "spec.facade.type")]
#[case::store("  facade: {}\n  session: { type: redis, storeRef: { name: s } }", "spec.session.type")]
#[case::version("  facade: {}\n  framework: { type: promptkit, version: '1.2' }", "spec.framework.version")]
#[case::port("  facade: { port: 9000 }", "spec.facade.port")]
#[case::media("  facade: {}\n  media: {}", "spec.media")]
#[case::facade_of_others("  facade: { image: f:1 }", "spec.facade.image: f:1")]
#[case::runtime_of_others("  facade: {}\n  framework: { type: custom, image: r:1 }", "spec.framework.image: r:1")]
fn what_the_built_in_image_cannot_do_is_said(#[case] extra: &str, #[case] field: &str) {
    let runtime = RUNTIME.replace("  facade: { type: websocket }", extra);
    let (written, _) = failed(&decided_by_own(&observed(&runtime)));
    assert_eq!(condition(&written, "SpecValid"), ("False".into(), "Invalid".into()));
    assert!(written.to_string().contains(field), "{written}");
}

#[test]
fn settings_of_a_provider_that_the_built_in_runtime_does_not_know_are_refused() {
    let runtime = RUNTIME.replace("{ type: mock }", "{ type: mock, additionalConfig: { top-k: '5' } }");
    let (written, _) = failed(&decided_by_own(&observed(&runtime)));
    assert!(written.to_string().contains("spec.provider.additionalConfig"), "{written}");
    assert_eq!(status(&decided(&observed(&runtime)))["phase"], "Pending", "another runtime gets them");
}

#[test]
fn a_missing_pack_fails_and_an_unready_one_is_waited_for() {
    let mut observed = observed(RUNTIME);
    observed.pack = None;
    let (written, permanent) = failed(&decided(&observed));
    assert_eq!((&written["phase"], permanent), (&json!("Failed"), true));
    assert_eq!(condition(&written, "PromptPackReady"), ("False".into(), "PromptPackNotFound".into()));

    let pending = PACK.split("status:").next().unwrap();
    observed.pack = Some(Arc::new(yaml::<PromptPack>(pending)));
    let decision = decided(&observed);
    assert_eq!(status(&decision)["phase"], "Pending");
    assert!(matches!(decision.outcome, Outcome::Waiting(_)), "a dependency is waited for, 30 s at most");

    observed.pack = Some(Arc::new(yaml::<PromptPack>(&format!("{pending}\nstatus: {{ phase: Failed }}"))));
    let (written, _) = failed(&decided(&observed));
    assert_eq!(condition(&written, "PromptPackReady"), ("False".into(), "PromptPackInvalid".into()));
}

#[test]
fn a_version_can_be_named_and_must_be_kept() {
    let pinned = |version: &str| RUNTIME.replace("name: support }", &format!("name: support, version: {version} }}"));
    let deployment = object(&decided(&observed(&pinned("1.0.0"))), "Deployment");
    assert_eq!(deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"], "support-aa");
    let (written, _) = failed(&decided(&observed(&pinned("0.9.0"))));
    assert_eq!(condition(&written, "PromptPackReady"), ("False".into(), "PromptPackVersionNotFound".into()));
}

#[test]
fn a_prompt_can_be_named_and_must_exist() {
    let deployment = object(&decided(&observed(&format!("{RUNTIME}\n  agentName: sales\n"))), "Deployment");
    let variables = env(&container(&with_init(&deployment), "runtime"));
    assert!(variables.contains(&("OMNIA_PROMPT_NAME".into(), "sales".into())), "{variables:?}");
    let (written, _) = failed(&decided(&observed(&format!("{RUNTIME}\n  agentName: nobody\n"))));
    assert_eq!(condition(&written, "PromptPackReady"), ("False".into(), "PromptPackRefInvalid".into()));
}

#[test]
fn a_missing_registry_fails_and_one_that_is_there_does_not() {
    let mut observed = with_tools("");
    assert_eq!(
        condition(&status(&decided(&observed)), "ToolRegistryReady"),
        ("True".into(), "ToolRegistryFound".into())
    );
    observed.registry = None;
    let (written, permanent) = failed(&decided(&observed));
    assert_eq!((&written["phase"], permanent), (&json!("Failed"), true), "it waits for a change, and watches for it");
    assert_eq!(condition(&written, "ToolRegistryReady"), ("False".into(), "ToolRegistryNotFound".into()));
}

#[test]
fn a_recovered_agent_no_longer_says_what_was_wrong() {
    let mut observed = with_tools("");
    observed.registry = None;
    let (written, _) = failed(&decided(&observed));
    let mut again = (*observed.runtime).clone();
    again.status = Some(serde_json::from_value(written).unwrap());
    observed.runtime = Arc::new(again);
    observed.pack = None;
    let (written, _) = failed(&decided(&observed));
    assert_eq!(condition(&written, "PromptPackReady").1, "PromptPackNotFound");
    let mut again = (*observed.runtime).clone();
    again.status = Some(serde_json::from_value(written).unwrap());
    let mut healthy = with_tools("");
    healthy.runtime = Arc::new(again);
    let written = status(&decided(&healthy));
    assert!(
        written["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["status"] == "True" || c["type"] == "Ready" || c["type"] == "ToolsLeftOut"),
        "{written:#}"
    );
}

#[test]
fn a_missing_policy_fails() {
    let (written, _) = failed(&decided(&observed(&format!("{RUNTIME}\n  agentPolicyRef: {{ name: rules }}\n"))));
    assert_eq!(condition(&written, "AgentPolicyReady"), ("False".into(), "AgentPolicyNotFound".into()));
}

fn provider(phase: &str) -> Arc<Provider> {
    let text = format!(
        "metadata: {{ name: model, namespace: team }}\nspec: {{ type: claude, model: claude-x, secretRef: {{ name: keys }}, defaults: {{ temperature: '0.5', maxTokens: 9 }}, pricing: {{ inputCostPer1K: '0.1' }} }}\nstatus: {{ phase: {phase} }}"
    );
    Arc::new(yaml(&text))
}

#[test]
fn a_provider_is_found_waited_for_or_missing_and_wins_over_the_inline_one() {
    let mut observed = observed(&format!("{RUNTIME}\n  providerRef: {{ name: model }}\n"));
    let (written, _) = failed(&decided(&observed));
    assert_eq!(condition(&written, "ProviderReady"), ("False".into(), "ProviderNotFound".into()));
    observed.provider = Some(provider("Error"));
    let decision = decided(&observed);
    assert_eq!(condition(&status(&decision), "ProviderReady"), ("False".into(), "ProviderNotReady".into()));
    assert_eq!(status(&decision)["phase"], "Pending");
    assert!(matches!(decision.outcome, Outcome::Waiting(_)));
    observed.provider = Some(provider("Ready"));
    let variables = env(&container(&with_init(&object(&decided(&observed), "Deployment")), "runtime"));
    assert!(variables.contains(&("OMNIA_PROVIDER_TYPE".into(), "claude".into())), "{variables:?}");
}

#[test]
fn without_a_provider_the_packs_is_taken_and_without_that_the_built_in_runtime_refuses() {
    let bare = RUNTIME.replace("  provider: { type: mock }\n", "");
    let (written, _) = failed(&decided_by_own(&observed(&bare)));
    assert_eq!(condition(&written, "ProviderReady"), ("False".into(), "ProviderRequired".into()));
    let mut inherits = observed(&bare);
    inherits.pack =
        Some(Arc::new(yaml::<PromptPack>(&PACK.replace("spec: {", "spec: { providerRef: { name: model },"))));
    inherits.provider = Some(provider("Ready"));
    let variables = env(&container(&with_init(&object(&decided_by_own(&inherits), "Deployment")), "runtime"));
    assert!(variables.contains(&("OMNIA_PROVIDER_MODEL".into(), "claude-x".into())), "{variables:?}");
}

/// `container` looks at init containers too.
fn with_init(deployment: &Value) -> Value {
    let mut pod = deployment["spec"]["template"]["spec"].clone();
    pod["initContainers"] = json!([]);
    pod
}

#[test]
fn every_variable_is_there_in_a_stable_order() {
    let mut observed = with_tools(
        "  session: { type: postgres, storeRef: { name: store }, ttl: 1h }\n  media: { basePath: /media }\n  runtime: { extraEnv: [{ name: LAST, value: wins }] }",
    );
    let text = "type: openai, model: m, baseURL: 'http://m', secretRef: { name: keys }, config: { temperature: '0.5', topP: '0.9', maxTokens: 9 }, pricing: { inputCostPer1K: '1', outputCostPer1K: '2', cachedCostPer1K: '3' }, additionalConfig: { z-last: z, a-first: a }";
    let mut runtime = (*observed.runtime).clone();
    runtime.spec.provider = Some(yaml(&format!("{{ {text} }}")));
    observed.runtime = Arc::new(runtime);
    observed.secrets = BTreeMap::from([("keys".to_owned(), serde_contents(&["OPENAI_API_KEY"]))]);
    let pod = with_init(&object(&decided(&observed), "Deployment"));
    let names = |name: &str| env(&container(&pod, name)).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(
        names("facade"),
        [
            "OMNIA_AGENT_NAME",
            "OMNIA_NAMESPACE",
            "OMNIA_PROMPTPACK_NAME",
            "OMNIA_PROMPTPACK_VERSION",
            "OMNIA_HEALTH_PORT",
            "OMNIA_FACADE_TYPE",
            "OMNIA_FACADE_PORT",
            "OMNIA_HANDLER_MODE",
            "OMNIA_RUNTIME_ADDRESS",
            "OMNIA_SESSION_TYPE",
            "OMNIA_SESSION_TTL",
            "OMNIA_SESSION_STORE_URL",
        ]
    );
    assert_eq!(
        names("runtime"),
        [
            "OMNIA_AGENT_NAME",
            "OMNIA_NAMESPACE",
            "OMNIA_PROMPTPACK_NAME",
            "OMNIA_PROMPTPACK_VERSION",
            "OMNIA_HEALTH_PORT",
            "OMNIA_PROMPTPACK_PATH",
            "OMNIA_PROMPT_NAME",
            "OMNIA_GRPC_PORT",
            "OMNIA_PROVIDER_TYPE",
            "OMNIA_PROVIDER_MODEL",
            "OMNIA_PROVIDER_BASE_URL",
            "OMNIA_PROVIDER_TEMPERATURE",
            "OMNIA_PROVIDER_TOP_P",
            "OMNIA_PROVIDER_MAX_TOKENS",
            "OMNIA_PROVIDER_INPUT_COST",
            "OMNIA_PROVIDER_OUTPUT_COST",
            "OMNIA_PROVIDER_CACHED_COST",
            "OMNIA_PROVIDER_A_FIRST",
            "OMNIA_PROVIDER_Z_LAST",
            "OPENAI_API_KEY",
            "OMNIA_TOOLREGISTRY_NAME",
            "OMNIA_TOOLREGISTRY_NAMESPACE",
            "OMNIA_TOOLS_CONFIG_PATH",
            "OMNIA_TOOL_AUTH_ORDERS",
            "OMNIA_SESSION_TYPE",
            "OMNIA_SESSION_TTL",
            "OMNIA_SESSION_URL",
            "OMNIA_MEDIA_BASE_PATH",
            "LAST",
        ]
    );
    let values: BTreeMap<String, String> = env(&container(&pod, "runtime")).into_iter().collect();
    assert_eq!(values["OMNIA_AGENT_NAME"], "helper");
    assert_eq!(values["OMNIA_NAMESPACE"], "team");
    assert_eq!(values["OMNIA_PROMPTPACK_PATH"], "/etc/omnia/pack/pack.json");
    assert_eq!(values["OMNIA_TOOLS_CONFIG_PATH"], "/etc/omnia/tools/tools.yaml");
    assert_eq!(values["OPENAI_API_KEY"], "<from>", "a key is named, never copied");
}

fn serde_contents(keys: &[&str]) -> orrery_controllers::omnia::Contents {
    let keys = keys.iter().map(|key| ((*key).to_owned(), "digest".to_owned())).collect();
    orrery_controllers::omnia::Contents { keys }
}

#[test]
fn the_deployment_is_as_the_contract_says() {
    let mut observed = with_tools(
        "  runtime: { replicas: 2, nodeSelector: { a: b }, resources: { limits: { memory: 1Gi } }, volumes: [{ name: v, emptyDir: {} }], volumeMounts: [{ name: v, mountPath: /v }] }",
    );
    observed.tools = Some(Arc::new(ConfigMap::default()));
    let decision = decided(&observed);
    let deployment = object(&decision, "Deployment");
    let labels = json!({ "app.kubernetes.io/name": "omnia-agent", "app.kubernetes.io/instance": "helper", "app.kubernetes.io/managed-by": "omnia-operator", "omnia.altairalabs.ai/component": "agent" });
    for place in [
        &deployment["metadata"]["labels"],
        &deployment["spec"]["selector"]["matchLabels"],
        &deployment["spec"]["template"]["metadata"]["labels"],
    ] {
        assert_eq!(*place, labels);
    }
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], "r-uid");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = with_init(&deployment);
    let (facade, runtime) = (container(&pod, "facade"), container(&pod, "runtime"));
    assert_eq!(facade["image"], "ghcr.io/altairalabs/omnia-facade:latest");
    assert_eq!(runtime["image"], "ghcr.io/altairalabs/omnia-runtime:latest");
    assert_eq!(facade["command"], Value::Null, "an image of others knows itself what to run");
    assert_eq!(facade["ports"][0], json!({ "name": "facade", "containerPort": 8080, "protocol": "TCP" }));
    assert_eq!(facade["readinessProbe"]["httpGet"], json!({ "path": "/readyz", "port": 8081 }));
    assert_eq!(
        (&facade["readinessProbe"]["initialDelaySeconds"], &facade["readinessProbe"]["periodSeconds"]),
        (&json!(5), &json!(10))
    );
    assert_eq!(
        (&runtime["livenessProbe"]["initialDelaySeconds"], &runtime["livenessProbe"]["periodSeconds"]),
        (&json!(15), &json!(20))
    );
    assert_eq!(runtime["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(
        runtime["volumeMounts"][0],
        json!({ "name": "promptpack-config", "mountPath": "/etc/omnia/pack", "readOnly": true })
    );
    assert_eq!(runtime["volumeMounts"][1]["mountPath"], "/etc/omnia/tools");
    assert_eq!(runtime["volumeMounts"][2]["mountPath"], "/v");
    assert_eq!(pod["volumes"][1]["configMap"]["name"], "helper-tools");
    let service = object(&decision, "Service");
    assert_eq!(
        service["spec"]["ports"],
        json!([{ "name": "facade", "port": 8080, "targetPort": "facade", "protocol": "TCP" }])
    );
    assert_eq!(service["spec"]["selector"], labels);
}

#[test]
fn images_come_from_the_resource_then_the_flags_then_our_own() {
    let image = |runtime: &str, settings: &Settings| {
        let decision = decide(&observed(runtime), settings, at("2026-01-01T00:00:00Z"));
        let pod = with_init(&object(&decision, "Deployment"));
        (
            container(&pod, "facade")["image"].clone(),
            container(&pod, "runtime")["image"].clone(),
            container(&pod, "runtime")["command"].clone(),
        )
    };
    let named = RUNTIME.replace("{ type: websocket }", "{ type: websocket, image: f:1 }")
        + "  framework: { type: custom, image: r:1 }\n";
    let flags = Settings { facade_image: Some("f:2".into()), framework_image: Some("r:2".into()), ..own() };
    assert_eq!(image(&named, &flags), (json!("f:1"), json!("r:1"), Value::Null));
    assert_eq!(image(RUNTIME, &flags), (json!("f:2"), json!("r:2"), Value::Null));
    assert_eq!(image(RUNTIME, &own()), (json!("host"), json!("host"), json!(["/orrery", "omnia-runtime"])));
    let tagged = format!("{RUNTIME}\n  framework: {{ type: promptkit, version: '1.4' }}\n");
    assert_eq!(image(&tagged, &flags).1, json!("r:1.4"));
}

fn tools_of(decision: &Decision) -> Value {
    yaml(object(decision, "ConfigMap")["data"]["tools.yaml"].as_str().unwrap())
}

#[test]
fn the_tools_file_has_what_is_available_with_real_schemas_and_no_secrets() {
    let decision = decided(&with_tools(""));
    assert_eq!(steps(&decision)[0], "apply ConfigMap helper-tools");
    let tools = tools_of(&decision);
    assert_eq!(tools["handlers"].as_array().unwrap().len(), 1, "what is not available is left out");
    let tool = &tools["handlers"][0];
    assert_eq!(tool["tool"]["inputSchema"], json!({ "type": "object", "properties": { "id": { "type": "string" } } }));
    assert_eq!(
        (&tool["endpoint"], &tool["httpConfig"]["headers"]["X-A"]),
        (&json!("http://orders.team.svc:80/find"), &json!("b"))
    );
    assert_eq!(tool["httpConfig"]["authEnv"], "OMNIA_TOOL_AUTH_ORDERS");
    assert_eq!(condition(&status(&decision), "ToolsLeftOut"), ("True".into(), "SomeLeftOut".into()));
}

#[test]
fn a_registry_that_is_no_longer_named_leaves_no_file() {
    let mut observed = observed(RUNTIME);
    observed.tools = Some(Arc::new(yaml::<ConfigMap>("metadata: { name: helper-tools, namespace: team, uid: m }")));
    assert_eq!(steps(&decided(&observed))[0], "delete ConfigMap helper-tools");
}

fn policy(spec: &str) -> Arc<AgentPolicy> {
    Arc::new(yaml(&format!("metadata: {{ name: rules, namespace: team }}\nspec: {{ {spec} }}")))
}

#[rstest]
#[case::blocked("toolBlocklist: [look_up]", 0, true)]
#[case::not_allowed("toolAccess: { mode: allowlist, rules: [{ registry: desk, tools: [other] }] }", 0, true)]
#[case::of_another_registry("toolAccess: { mode: denylist, rules: [{ registry: other, tools: [look_up] }] }", 1, true)]
#[case::allowed("toolAccess: { mode: allowlist, rules: [{ registry: desk, tools: [look_up] }] }", 1, true)]
#[case::reported("toolBlocklist: [look_up], mode: permissive", 1, true)]
#[case::not_enforceable("toolBlocklist: [other]", 0, false)]
#[case::not_enforceable_and_allowed("toolBlocklist: [other], onFailure: allow", 1, false)]
#[case::still_denied("toolBlocklist: [look_up], onFailure: allow", 0, false)]
fn the_tools_file_has_only_what_the_policies_allow(#[case] spec: &str, #[case] tools: usize, #[case] ours: bool) {
    let mut observed = with_tools("");
    observed.policies = vec![policy(spec)];
    let decision = if ours { decided_by_own(&observed) } else { decided(&observed) };
    let file = tools_of(&decision);
    let entries = file["handlers"].as_array().cloned().unwrap_or_default();
    assert_eq!(entries.len(), tools, "{file:#}");
    if spec.contains("permissive") {
        assert_eq!(entries[0]["auditedBy"], json!(["rules"]));
    }
}

fn hash(decision: &Decision) -> Value {
    object(decision, "Deployment")["spec"]["template"]["metadata"]["annotations"]["omnia.altairalabs.ai/config-hash"]
        .clone()
}

#[test]
fn new_content_rolls_a_foreign_runtime_and_not_ours() {
    let mut newer = observed(RUNTIME);
    newer.pack = Some(Arc::new(yaml::<PromptPack>(&PACK.replace("support-bb", "support-cc"))));
    assert_ne!(hash(&decided(&observed(RUNTIME))), hash(&decided(&newer)));
    let template = |decision: &Decision| object(decision, "Deployment")["spec"]["template"].clone();
    assert_eq!(
        template(&decided_by_own(&observed(RUNTIME))),
        template(&decided_by_own(&newer)),
        "ours reads it again by itself"
    );
    let mounted = template(&decided_by_own(&newer))["spec"]["volumes"][0]["configMap"]["name"].clone();
    assert_eq!(mounted, "support-active");
}

#[test]
fn a_changed_secret_rolls_every_runtime() {
    let runtime = RUNTIME.replace("{ type: mock }", "{ type: openai, secretRef: { name: keys } }");
    let with = |digest: &str| {
        let mut observed = observed(&runtime);
        let mut contents = serde_contents(&["OPENAI_API_KEY"]);
        contents.keys.insert("OPENAI_API_KEY".into(), digest.into());
        observed.secrets = BTreeMap::from([("keys".to_owned(), contents)]);
        hash(&decided_by_own(&observed))
    };
    assert_eq!(with("a"), with("a"));
    assert_ne!(with("a"), with("b"));
}

#[test]
fn a_secret_that_is_missing_is_said() {
    let runtime = RUNTIME.replace("{ type: mock }", "{ type: openai, secretRef: { name: keys } }");
    let (written, _) = failed(&decided(&observed(&runtime)));
    assert_eq!(condition(&written, "ProviderReady"), ("False".into(), "SecretNotFound".into()));
}
