//! What a policy means for the agents it is for: which tools they get, by the rule that the controllers apply.

use api::omnia::{AgentPolicy, AgentRuntime, PolicyMode, ToolRegistry};
use axum::Json;
use axum::extract::Extension;
use controllers::omnia::agent_policy::is_for;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::error::Result;
use crate::extract::Path;
use crate::resources::ObjectPath;

/// `GET …/agentpolicies/{name}/effect`.
pub async fn effect(Extension(caller): Extension<Caller>, Path((namespace, name)): ObjectPath) -> Result<Json<Value>> {
    let policy = Api::<AgentPolicy>::namespaced(caller.client.clone(), &namespace).get(&name).await?;
    let runtimes = Api::<AgentRuntime>::namespaced(caller.client.clone(), &namespace);
    let runtimes = runtimes.list(&ListParams::default()).await?.items;
    let registries = Api::<ToolRegistry>::namespaced(caller.client, &namespace).list(&ListParams::default()).await?;
    let agents: Vec<Value> = runtimes
        .iter()
        .filter(|runtime| is_for(&policy, runtime))
        .map(|runtime| of_agent(&policy, runtime, &registries.items))
        .collect();
    Ok(Json(json!({"refuses": policy.spec.mode == PolicyMode::Enforce, "agents": agents})))
}

fn of_agent(policy: &AgentPolicy, runtime: &AgentRuntime, registries: &[ToolRegistry]) -> Value {
    let reference = runtime.spec.tool_registry_ref.as_ref().map(|reference| reference.name.as_str());
    let registry = registries.iter().find(|registry| Some(registry.name_any().as_str()) == reference);
    let found = registry.and_then(|registry| registry.status.as_ref()).into_iter();
    let tools: Vec<Value> = found
        .flat_map(|status| &status.discovered_tools)
        .map(
            |tool| json!({"name": tool.name, "allowed": policy.spec.allows(reference.unwrap_or_default(), &tool.name)}),
        )
        .collect();
    json!({"agent": runtime.name_any(), "registry": reference, "tools": tools})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_the_registry_is_judged() {
        let policy: AgentPolicy = serde_json::from_value(json!({
            "metadata": {"name": "p"}, "spec": {"toolBlocklist": ["pay"]},
        }))
        .expect("a policy");
        let runtime: AgentRuntime = serde_json::from_value(json!({
            "metadata": {"name": "shop"},
            "spec": {"promptPackRef": {"name": "shop"}, "facade": {}, "toolRegistryRef": {"name": "tools"}},
        }))
        .expect("a runtime");
        let registry: ToolRegistry = serde_json::from_value(json!({
            "metadata": {"name": "tools"}, "spec": {},
            "status": {"discoveredTools": [{"name": "look", "status": "Available"}, {"name": "pay", "status": "Available"}]},
        }))
        .expect("a registry");
        let tools = json!([{"name": "look", "allowed": true}, {"name": "pay", "allowed": false}]);
        assert_eq!(of_agent(&policy, &runtime, &[registry])["tools"], tools);
        assert_eq!(of_agent(&policy, &runtime, &[])["tools"], json!([]));
    }
}
