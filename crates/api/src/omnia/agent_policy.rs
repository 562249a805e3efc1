#![allow(clippy::duplicated_attributes, reason = "columns have types in common")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which tools agents may call.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "omnia.altairalabs.ai",
    version = "v1alpha1",
    kind = "AgentPolicy",
    plural = "agentpolicies",
    shortname = "ap",
    category = "omnia",
    category = "orrery",
    namespaced,
    status = "AgentPolicyStatus",
    derive = "PartialEq",
    doc = "Which tools agents may call. Of several policies all must allow a tool: to deny wins.",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Agents", type_ = "integer", json_path = ".status.matchedAgents"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.toolAccess) || (has(self.toolBlocklist) && size(self.toolBlocklist) > 0)")
        .message("set at least one of toolAccess and toolBlocklist: a policy without rules would allow everything")
        .field_path(".toolAccess"),
)]
pub struct AgentPolicySpec {
    /// The agents it is for; without it, all in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<AgentSelector>,
    /// Tools by registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_access: Option<ToolAccess>,
    /// Tools that are denied whatever registry they come from, also when `toolAccess` allows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub tool_blocklist: Vec<ToolName>,
    /// Whether a call that is not allowed is refused, or only reported.
    #[serde(default)]
    pub mode: PolicyMode,
    /// What holds for agents on which the policy cannot be enforced.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// The name of a tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolName(pub String);

impl JsonSchema for ToolName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": 64 })
    }
}

/// Chooses agents by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct AgentSelector {
    /// Names of `AgentRuntimes`; none means all in the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// Tools by registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ToolAccess {
    /// Whether the rules name what is allowed, or what is denied.
    pub mode: AccessMode,
    /// The rules.
    #[schemars(length(min = 1, max = 200))]
    pub rules: Vec<AccessRule>,
}

/// What rules mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// Only what they name is allowed.
    Allowlist,
    /// What they name is denied.
    Denylist,
}

/// Tools of one registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct AccessRule {
    /// Name of the `ToolRegistry`.
    #[schemars(length(min = 1))]
    pub registry: String,
    /// Names of tools; `*` stands for all of the registry.
    #[schemars(length(min = 1, max = 1000))]
    pub tools: Vec<ToolName>,
}

/// What becomes of a call that is not allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// It is refused.
    #[default]
    Enforce,
    /// It is done, and reported.
    Permissive,
}

/// What holds where a policy cannot be enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// No tool at all.
    #[default]
    Deny,
    /// The tools that the policy allows, although nobody makes sure that no other is called.
    Allow,
}

/// Whether a policy can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyPhase {
    /// It can.
    Active,
    /// It cannot, or not for all of its agents; the conditions say why.
    Error,
}

/// What is known about a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPolicyStatus {
    /// Active or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PolicyPhase>,
    /// How many `AgentRuntimes` it is for.
    #[serde(default)]
    pub matched_agents: i32,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Valid, Applied and Enforced, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
}

impl AgentPolicySpec {
    /// Whether it is for this agent.
    pub fn selects(&self, agent: &str) -> bool {
        let agents = self.selector.as_ref().map_or(&[][..], |selector| &selector.agents);
        agents.is_empty() || agents.iter().any(|name| name == agent)
    }

    /// Whether its rules allow a tool; to deny wins.
    pub fn allows(&self, registry: &str, tool: &str) -> bool {
        let listed = |tools: &[ToolName]| tools.iter().any(|name| name.0 == tool || name.0 == "*");
        if listed(&self.tool_blocklist) {
            return false;
        }
        let Some(access) = &self.tool_access else { return true };
        let named = access.rules.iter().any(|rule| rule.registry == registry && listed(&rule.tools));
        match access.mode {
            AccessMode::Allowlist => named,
            AccessMode::Denylist => !named,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(spec: serde_json::Value) -> AgentPolicySpec {
        serde_json::from_value(spec).expect("a policy")
    }

    #[test]
    fn to_deny_wins() {
        let both = policy(json!({
            "toolAccess": { "mode": "allowlist", "rules": [{ "registry": "r", "tools": ["a", "b"] }] },
            "toolBlocklist": ["b"],
        }));
        assert!(both.allows("r", "a") && !both.allows("r", "b") && !both.allows("r", "c") && !both.allows("s", "a"));
    }

    #[test]
    fn a_denylist_denies_what_it_names() {
        let deny =
            policy(json!({ "toolAccess": { "mode": "denylist", "rules": [{ "registry": "r", "tools": ["*"] }] } }));
        assert!(!deny.allows("r", "a") && deny.allows("s", "a"));
    }

    #[test]
    fn no_selector_means_every_agent() {
        assert!(policy(json!({ "toolBlocklist": ["x"] })).selects("anyone"));
        let some = policy(json!({ "selector": { "agents": ["a"] }, "toolBlocklist": ["x"] }));
        assert!(some.selects("a") && !some.selects("b"));
    }
}
