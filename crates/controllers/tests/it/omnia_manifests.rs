//! Manifests of `omnia.altairalabs.ai` against a plane: what is accepted, and what a refusal says.

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use testkit::Plane;

use crate::support::yaml;
use crate::world::plane;

async fn create(plane: &Plane, manifest: &str) -> Result<DynamicObject, String> {
    let mut value: Value = yaml(manifest);
    let kind = value["kind"].as_str().unwrap().to_owned();
    value["apiVersion"] = "omnia.altairalabs.ai/v1alpha1".into();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("omnia.altairalabs.ai", "v1alpha1", &kind));
    let api: Api<DynamicObject> = Api::namespaced_with(plane.client(), "default", &resource);
    let created = api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await;
    created.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

#[tokio::test]
async fn the_smallest_manifests_are_accepted_and_defaults_filled_in() {
    let plane = plane().await;
    let pack = "kind: PromptPack\nmetadata: { name: p }\nspec: { version: v1.0.0, source: { type: configmap, configMapRef: { name: c } } }";
    assert_eq!(create(&plane, pack).await.unwrap().data["spec"]["rollout"]["type"], "immediate");
    let canary = "kind: PromptPack\nmetadata: { name: q }\nspec: { version: v1.0.0, source: { type: configmap, configMapRef: { name: c } }, rollout: { type: canary, canary: { analysis: { maxLatency: 2s } } } }";
    let canary = create(&plane, canary).await.unwrap().data["spec"]["rollout"]["canary"].clone();
    assert_eq!(
        (&canary["weight"], &canary["interval"], &canary["stepWeight"]),
        (&10.into(), &"5m".into(), &Value::Null)
    );
    assert_eq!(
        (&canary["sessionHeader"], &canary["sessionCookie"]),
        (&"X-Omnia-Session".into(), &"omnia-session".into())
    );
    assert_eq!(
        (&canary["analysis"]["minRequests"], &canary["analysis"]["consecutiveFailures"]),
        (&100.into(), &3.into())
    );
    let runtime = "kind: AgentRuntime\nmetadata: { name: r }\nspec: { promptPackRef: { name: p }, facade: {}, session: {}, runtime: {}, media: {} }";
    let spec = create(&plane, runtime).await.unwrap().data["spec"].clone();
    assert_eq!(spec["promptPackRef"]["track"], "stable");
    assert_eq!(
        (&spec["facade"]["type"], &spec["facade"]["port"], &spec["facade"]["handler"]),
        (&"websocket".into(), &8080.into(), &"runtime".into())
    );
    assert_eq!((&spec["session"]["type"], &spec["session"]["ttl"]), (&"memory".into(), &"24h".into()));
    assert_eq!((&spec["runtime"]["replicas"], &spec["media"]["basePath"]), (&1.into(), &"/etc/omnia/media".into()));
    let registry = "kind: ToolRegistry\nmetadata: { name: t }\nspec: { handlers: [{ name: a, type: http, tool: { name: Look_Up, description: d, inputSchema: { type: object, anything: 1 } }, httpConfig: { endpoint: 'http://a/b' } }] }";
    let handler = create(&plane, registry).await.unwrap().data["spec"]["handlers"][0].clone();
    assert_eq!((&handler["timeout"], &handler["retries"]), (&"30s".into(), &0.into()));
    assert_eq!(
        (&handler["httpConfig"]["method"], &handler["httpConfig"]["contentType"]),
        (&"POST".into(), &"application/json".into())
    );
    assert_eq!(handler["tool"]["inputSchema"]["anything"], 1, "schemas are kept whole");
    let policy = "kind: AgentPolicy\nmetadata: { name: a }\nspec: { toolBlocklist: [rm] }";
    let spec = create(&plane, policy).await.unwrap().data["spec"].clone();
    assert_eq!((&spec["mode"], &spec["onFailure"]), (&"enforce".into(), &"deny".into()));
    create(&plane, "kind: Provider\nmetadata: { name: m }\nspec: { type: mock }").await.unwrap();
}

fn canary(type_: &str, canary: &str) -> String {
    let source = "source: { type: configmap, configMapRef: { name: c } }";
    format!("version: 1.0.0, {source}, rollout: {{ type: {type_}, canary: {{ {canary} }} }}")
}

fn handler(type_: &str, extra: &str) -> String {
    format!("handlers: [{{ name: a, type: {type_}, {extra} }}]")
}

async fn refused(plane: &Plane, cases: &[(&str, &str, &str)]) {
    for (kind, spec, expected) in cases {
        let manifest = format!("kind: {kind}\nmetadata: {{ name: x }}\nspec: {{ {spec} }}");
        let refusal = create(plane, &manifest).await.expect_err(&manifest);
        assert!(refusal.contains(expected), "{manifest}\n{refusal}");
    }
}

#[tokio::test]
async fn a_refusal_of_a_server_of_tools_names_the_field() {
    let tool = "tool: { name: t, description: d, inputSchema: {} }";
    let http = "type: http, httpConfig: { endpoint: 'http://x' }";
    let cases: [(&str, &str, &str); 17] = [
        ("ToolRegistry", &handler("openapi", ""), "openAPIConfig is required when type is openapi"),
        ("ToolRegistry", &handler("openapi", "openAPIConfig: {}"), "openAPIConfig.specURL is required"),
        ("ToolRegistry", &handler("openapi", "openAPIConfig: { specURL: 'ftp://x' }"), "openAPIConfig.specURL"),
        (
            "ToolRegistry",
            &handler("openapi", "openAPIConfig: { specURL: 'http://x', authType: basic }"),
            "openAPIConfig.authSecretRef",
        ),
        (
            "ToolRegistry",
            &handler("openapi", &format!("openAPIConfig: {{ specURL: 'http://x' }}, {tool}")),
            "tool is only for handlers of type http or grpc",
        ),
        (
            "ToolRegistry",
            &handler(
                "mcp",
                "openAPIConfig: { specURL: 'http://x' }, mcpConfig: { transport: sse, endpoint: 'http://x' }",
            ),
            "openAPIConfig is only for handlers of type openapi",
        ),
        (
            "ToolRegistry",
            &format!(
                "handlers: [{{ name: a, {http}, {tool}, mcpConfig: {{ transport: sse, endpoint: 'http://x' }} }}]"
            ),
            "mcpConfig is only for handlers of type mcp",
        ),
        ("ToolRegistry", &handler("mcp", ""), "mcpConfig is required when type is mcp"),
        ("ToolRegistry", &handler("mcp", "mcpConfig: { endpoint: 'http://x' }"), "mcpConfig.transport"),
        ("ToolRegistry", &handler("mcp", "mcpConfig: { transport: smoke }"), "mcpConfig.transport"),
        ("ToolRegistry", &handler("mcp", "mcpConfig: { transport: sse }"), "mcpConfig.endpoint is required"),
        ("ToolRegistry", &handler("mcp", "mcpConfig: { transport: stdio }"), "command is required"),
        (
            "ToolRegistry",
            &handler("mcp", "mcpConfig: { transport: stdio, command: x, endpoint: 'http://x' }"),
            "endpoint is not used",
        ),
        (
            "ToolRegistry",
            &handler("mcp", "mcpConfig: { transport: sse, endpoint: 'http://x', command: x }"),
            "only for transport stdio",
        ),
        (
            "ToolRegistry",
            &handler("mcp", "mcpConfig: { transport: stdio, command: x, headers: { a: b } }"),
            "a program gets no headers",
        ),
        (
            "ToolRegistry",
            &handler("mcp", "mcpConfig: { transport: streamable-http, endpoint: 'http://x', authType: bearer }"),
            "mcpConfig.authSecretRef",
        ),
        (
            "ToolRegistry",
            &handler("mcp", "selector: { matchLabels: { a: b } }, mcpConfig: { transport: stdio, command: x }"),
            "stdio takes no selector",
        ),
    ];
    refused(&*plane().await, &cases).await;
}

#[tokio::test]
async fn a_refusal_names_the_field() {
    let plane = plane().await;
    let http = "type: http, httpConfig: { endpoint: 'http://x' }";
    let tool = "tool: { name: t, description: d, inputSchema: {} }";
    let cases = [
        ("PromptPack", "source: { type: configmap, configMapRef: { name: c } }, version: '1.0'", "spec.version"),
        ("PromptPack", "source: { type: git, configMapRef: { name: c } }, version: 1.0.0", "spec.source.type"),
        ("PromptPack", "source: { type: configmap }, version: 1.0.0", "configMapRef is required"),
        ("PromptPack", "version: 1.0.0", "spec.source"),
        (
            "PromptPack",
            "source: { type: configmap, configMapRef: { name: c } }, version: 1.0.0, rollout: { type: someday }",
            "spec.rollout.type",
        ),
        ("PromptPack", &canary("immediate", "weight: 1"), "canary is read only when type is canary"),
        ("PromptPack", &canary("canary", "weight: 101"), "spec.rollout.canary.weight"),
        ("PromptPack", &canary("canary", "stepWeight: 0"), "spec.rollout.canary.stepWeight"),
        ("PromptPack", &canary("canary", "interval: soon"), "spec.rollout.canary.interval"),
        ("PromptPack", &canary("canary", "promote: 1.0.0, abort: 1.0.0"), "promote and abort name the same version"),
        ("PromptPack", &canary("canary", "analysis: { minRequests: 5 }"), "maxErrorRate or maxLatency is required"),
        ("PromptPack", &canary("canary", "analysis: { maxErrorRate: 101 }"), "canary.analysis.maxErrorRate"),
        ("PromptPack", &canary("canary", "sessionHeader: 'two words'"), "spec.rollout.canary.sessionHeader"),
        ("AgentRuntime", "facade: {}", "spec.promptPackRef"),
        ("AgentRuntime", "promptPackRef: { name: p }", "spec.facade"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: { type: telnet }", "spec.facade.type"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: { port: 0 }", "spec.facade.port"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: { handler: guess }", "spec.facade.handler"),
        ("AgentRuntime", "promptPackRef: { name: p, track: nightly }, facade: {}", "spec.promptPackRef.track"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: {}, framework: { type: langchain }", "image is required"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: {}, session: { type: redis }", "storeRef is required"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: {}, session: { ttl: forever }", "spec.session.ttl"),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: {}, runtime: { replicas: -1 }", "spec.runtime.replicas"),
        (
            "AgentRuntime",
            "promptPackRef: { name: p }, facade: {}, runtime: { autoscaling: { maxReplicas: 5 } }",
            "autoscaling is not supported",
        ),
        ("AgentRuntime", "promptPackRef: { name: p }, facade: {}, provider: { type: oracle }", "spec.provider.type"),
        (
            "AgentRuntime",
            "promptPackRef: { name: p }, facade: {}, provider: { config: { temperature: '3' } }",
            "spec.provider.config.temperature",
        ),
        ("ToolRegistry", "handlers: []", "at least one of handlers"),
        ("ToolRegistry", &format!("handlers: [{{ name: Bad_Name, {http}, {tool} }}]"), "spec.handlers[0].name"),
        ("ToolRegistry", &format!("handlers: [{{ name: a, type: http, {tool} }}]"), "httpConfig is required"),
        ("ToolRegistry", &format!("handlers: [{{ name: a, type: grpc, {tool} }}]"), "grpcConfig is required"),
        ("ToolRegistry", &format!("handlers: [{{ name: a, {http} }}]"), "tool is required"),
        (
            "ToolRegistry",
            &format!("handlers: [{{ name: a, {http}, {tool}, retries: 11 }}]"),
            "spec.handlers[0].retries",
        ),
        (
            "ToolRegistry",
            &format!("handlers: [{{ name: a, {http}, {tool} }}, {{ name: a, {http}, {tool} }}]"),
            "spec.handlers[1]",
        ),
        (
            "ToolRegistry",
            &format!("handlers: [{{ name: a, type: http, httpConfig: {{}}, {tool} }}]"),
            "httpConfig.endpoint is required",
        ),
        (
            "ToolRegistry",
            &format!(
                "handlers: [{{ name: a, type: http, httpConfig: {{ endpoint: 'http://x', authType: bearer }}, {tool} }}]"
            ),
            "authSecretRef is required",
        ),
        ("ToolRegistry", "tools: [{ name: 'not a name' }]", "spec.tools[0].name"),
        ("AgentPolicy", "mode: enforce", "at least one of toolAccess and toolBlocklist"),
        ("AgentPolicy", "toolAccess: { mode: allowlist, rules: [] }", "spec.toolAccess.rules"),
        (
            "AgentPolicy",
            "toolAccess: { mode: denylist, rules: [{ registry: r, tools: [] }] }",
            "spec.toolAccess.rules[0].tools",
        ),
        ("AgentPolicy", "toolBlocklist: [x], mode: sometimes", "spec.mode"),
        ("Provider", "model: x", "spec.type"),
        ("Provider", "type: openai, baseURL: somewhere", "spec.baseURL"),
        ("Provider", "type: openai, pricing: { inputCostPer1K: free }", "spec.pricing.inputCostPer1K"),
    ];
    refused(&plane, &cases).await;
    let long = format!(
        "kind: AgentRuntime\nmetadata: {{ name: {} }}\nspec: {{ promptPackRef: {{ name: p }}, facade: {{}} }}",
        "x".repeat(57)
    );
    assert!(create(&plane, &long).await.expect_err("too long").contains("at most 56 characters"));
}
