//! For tests of deployments: a plane with Omnia's definitions, packs to deploy, and a stand-in for the controllers that
//! make runtimes ready.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use crate::Plane;

/// Where the dialect's objects are.
pub const OMNIA: &str = "/apis/omnia.altairalabs.ai/v1alpha1";

const TYPES: [(&str, &str); 5] = [
    ("configmap", "/api/v1"),
    ("prompt_pack", OMNIA),
    ("tool_registry", OMNIA),
    ("agent_policy", OMNIA),
    ("agent_runtime", OMNIA),
];
const PLURALS: [&str; 5] = ["configmaps", "promptpacks", "toolregistries", "agentpolicies", "agentruntimes"];

/// A plane to deploy to. Its namespace `default` has a Provider called `mock`.
pub struct Shop {
    /// The plane.
    pub plane: Arc<Plane>,
    operator: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        if let Some(operator) = &self.operator {
            operator.abort();
        }
    }
}

impl Shop {
    /// A plane on which runtimes become ready.
    pub async fn open() -> Self {
        let mut shop = Self::without_operator().await;
        shop.operator = Some(tokio::spawn(operate(shop.plane.client())));
        shop
    }

    /// A plane on which nobody looks at runtimes.
    pub async fn without_operator() -> Self {
        let plane = Arc::new(Plane::in_memory().await);
        prepare(plane.client(), "default").await;
        Self { plane, operator: None }
    }

    /// One more namespace with a Provider.
    pub async fn namespace(&self, name: &str) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        assert_eq!(self.plane.post("/api/v1/namespaces", &namespace).await.code, 201);
        provider(self.plane.client(), name).await;
    }

    /// Everything that carries a deployment's labels, as `type/name` and uid.
    pub async fn owned(&self, namespace: &str) -> Vec<(String, String)> {
        let mut owned = Vec::new();
        for ((type_, root), plural) in TYPES.iter().zip(PLURALS) {
            let selector = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dpromptarena";
            let list = self.plane.get(&format!("{root}/namespaces/{namespace}/{plural}?{selector}")).await.json();
            for item in list["items"].as_array().into_iter().flatten() {
                let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
                owned.push((format!("{type_}/{}", text("name")), text("uid")));
            }
        }
        owned
    }

    /// An object that must be there.
    pub async fn object(&self, path: &str) -> Value {
        let answer = self.plane.get(path).await;
        assert_eq!(answer.code, 200, "{}", answer.text());
        answer.json()
    }
}

/// Brings the definitions and a Provider to any cluster.
pub async fn prepare(client: Client, namespace: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let ours = PatchParams::apply("orrery").force();
    let installed = api::omnia::crds().into_iter().map(|definition| {
        let (definitions, ours) = (definitions.clone(), ours.clone());
        async move {
            let name = definition.name_any();
            definitions.patch(&name, &ours, &Patch::Apply(&definition)).await.expect("definitions are accepted");
            let served = kube::runtime::conditions::is_crd_established();
            kube::runtime::wait::await_condition(definitions, &name, served).await.expect("definitions are served");
        }
    });
    futures::future::join_all(installed).await;
    provider(client, namespace).await;
}

async fn provider(client: Client, namespace: &str) {
    let providers: Api<DynamicObject> = Api::namespaced_with(client, namespace, &kind("Provider", "providers"));
    let body = json!({ "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "Provider",
        "metadata": { "name": "mock" }, "spec": { "type": "mock" } });
    let body: DynamicObject = serde_json::from_value(body).expect("an object");
    providers.create(&PostParams::default(), &body).await.expect("a Provider is accepted");
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("omnia.altairalabs.ai", "v1alpha1", kind), plural)
}

/// Says that every runtime is ready with its pack's version, as its controller would. Never ends.
pub async fn operate(client: Client) {
    let packs: Api<DynamicObject> = Api::all_with(client.clone(), &kind("PromptPack", "promptpacks"));
    let runtimes: Api<DynamicObject> = Api::all_with(client.clone(), &kind("AgentRuntime", "agentruntimes"));
    loop {
        let everything = ListParams::default();
        let (Ok(packs), Ok(runtimes)) = tokio::join!(packs.list(&everything), runtimes.list(&everything)) else {
            return;
        };
        for runtime in runtimes {
            let same = |pack: &&DynamicObject| {
                pack.namespace() == runtime.namespace()
                    && pack.name_any() == runtime.data["spec"]["promptPackRef"]["name"]
            };
            let Some(pack) = packs.iter().find(same) else { continue };
            let (generation, version) = (json!(runtime.metadata.generation), &pack.data["spec"]["version"]);
            let known = &runtime.data["status"];
            if known["observedGeneration"] == generation && known["activeVersion"] == *version {
                continue;
            }
            let status = json!({ "status": {
                "phase": "Running", "observedGeneration": generation, "activeVersion": version,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "RuntimeReady", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            } });
            let namespace = runtime.namespace().unwrap_or_default();
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &namespace, &kind("AgentRuntime", "agentruntimes"));
            // One that was deleted meanwhile needs no status.
            let _ = api.patch_status(&runtime.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A pack: its version, its agents (none: one for the pack), whether it has tools, what it forbids.
pub fn pack(version: &str, agents: &[&str], tools: bool, blocked: &[&str]) -> Value {
    let policy = if blocked.is_empty() { json!({}) } else { json!({ "blocklist": blocked }) };
    let prompt = |name: &str| json!({ "id": "p", "name": name, "version": "1.0.0", "system_template": "Grüße, 世界", "tool_policy": policy });
    let names = if agents.is_empty() { &["default"][..] } else { agents };
    let prompts: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), prompt(name))).collect();
    let mut pack = json!({ "id": "my-pack", "name": "Mein Päckchen 📦", "version": version,
        "template_engine": { "version": "v1", "syntax": "{{variable}}" }, "prompts": prompts });
    if !agents.is_empty() {
        let members: Map<String, Value> = agents.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        pack["agents"] = json!({ "entry": agents[0], "members": members });
    }
    if tools {
        let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
        pack["tools"] = json!({ "find": { "name": "find", "description": "Finds.", "parameters": schema } });
    }
    pack
}
