//! An `AgentPolicy`: whom it is for, and whether it can be enforced there. The enforcing itself happens where tools are
//! given to runtimes (`agent_runtime::tools`) and where they are called.

use std::sync::Arc;

use api::omnia::{AgentPolicy, AgentPolicyStatus, AgentRuntime, OnFailure, PolicyMode, PolicyPhase};
use engine::condition::Truth;
use engine::{Conditions, Controller, Decision, Error, Key, View, Watches};
use jiff::Timestamp;
use kube::ResourceExt;

use super::Settings;

/// Says whether policies hold.
pub struct PolicyController {
    /// What the operator decided.
    pub settings: Settings,
}

/// What a decision about an `AgentPolicy` depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The policy.
    pub policy: Arc<AgentPolicy>,
    /// The agents it is for.
    pub agents: Vec<Arc<AgentRuntime>>,
}

impl Controller for PolicyController {
    const NAME: &'static str = "omnia-policy";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<AgentPolicy>().changes::<AgentRuntime>(|change, view| {
            let facts =
                |agent: &Arc<AgentRuntime>| (agent.metadata.generation, agent.metadata.deletion_timestamp.clone());
            if change.before.as_ref().map(facts) == change.after.as_ref().map(facts) {
                return Vec::new();
            }
            let Some(agent) = change.after.as_ref().or(change.before.as_ref()) else { return Vec::new() };
            let policies = view.list::<AgentPolicy>(&agent.namespace().unwrap_or_default());
            policies.iter().map(|policy| Key::of(&**policy)).collect()
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(policy) = view.cached::<AgentPolicy>(key) else { return Ok(None) };
        let agents = view.list::<AgentRuntime>(&key.namespace);
        let agents = agents.into_iter().filter(|agent| is_for(&policy, agent)).collect();
        Ok(Some(Observed { policy, agents }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        decide(observed, &self.settings, now)
    }
}

/// Whether a policy is for an agent: one of the two names the other, or the policy names nobody.
pub fn is_for(policy: &AgentPolicy, agent: &AgentRuntime) -> bool {
    let named = agent.spec.agent_policy_ref.as_ref().is_some_and(|reference| reference.name == policy.name_any());
    named || policy.spec.selects(&agent.name_any())
}

/// Decides.
pub fn decide(observed: &Observed, settings: &Settings, now: Timestamp) -> Decision {
    let policy = &*observed.policy;
    let current = policy.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, policy.metadata.generation, now);
    let count = observed.agents.len();
    conditions.set("Valid", true, "PolicyValid", "the rules can be read");
    conditions.set("Applied", true, "PolicyApplied", format!("the tools of {count} agents are chosen by it"));
    let (truth, reason, message) = enforcement(observed, settings);
    conditions.set("Enforced", truth, reason, message);
    let phase = if reason == "ForeignRuntime" { PolicyPhase::Error } else { PolicyPhase::Active };
    let status = AgentPolicyStatus {
        phase: Some(phase),
        matched_agents: i32::try_from(count).unwrap_or(i32::MAX),
        observed_generation: policy.metadata.generation,
        conditions: conditions.finish(),
    };
    let mut decision = Decision::none();
    decision.status(policy, policy.status.as_ref(), &status);
    decision
}

/// Whether every call is checked. Only our own runtime does that; another one is at most not told of a tool.
fn enforcement(observed: &Observed, settings: &Settings) -> (Truth, &'static str, String) {
    let spec = &observed.policy.spec;
    if spec.mode == PolicyMode::Permissive {
        return (Truth::False, "Permissive", "spec.mode is permissive: calls are reported, not refused".into());
    }
    let foreign: Vec<String> = observed
        .agents
        .iter()
        .filter(|agent| !settings.runtime(&agent.spec).own)
        .map(|agent| agent.name_any())
        .collect();
    if !foreign.is_empty() {
        let then = match spec.on_failure {
            OnFailure::Deny => "spec.onFailure is deny: they get no tools",
            OnFailure::Allow => "spec.onFailure is allow: they are told only of the tools that are allowed",
        };
        let message =
            format!("calls of {} cannot be checked, because their image is not ours; {then}", foreign.join(", "));
        return (Truth::False, "ForeignRuntime", message);
    }
    if observed.agents.is_empty() {
        return (Truth::Unknown, "NoAgents", "it is for no agent that exists".into());
    }
    (Truth::True, "Enforced", "every call is checked".into())
}
