//! What to do about an `AgentRuntime`. Pure.

use api::omnia::{AgentRuntime, AgentRuntimeStatus, Replicas, RuntimePhase, names};
use engine::{Conditions, Decision, Event, Failure, Outcome};
use jiff::Timestamp;
use kube::ResourceExt;

use super::canary::{self, Course};
use super::objects::{self, Side};
use super::observe::Observed;
use super::plan::Plan;
use super::tools::{self, Tools};
use crate::kubeopencode::agent::trouble;
use crate::omnia::Settings;
use crate::omnia::report::{Fault, is_news};

/// The conditions that stand in the way of an agent, in the order in which they are checked.
const GATES: [&str; 5] = ["SpecValid", "PromptPackReady", "ToolRegistryReady", "AgentPolicyReady", "ProviderReady"];

/// Decides.
pub fn decide(observed: &Observed, settings: &Settings, now: Timestamp) -> Decision {
    let runtime = &*observed.runtime;
    let mut decision = Decision::none();
    if runtime.metadata.deletion_timestamp.is_some() {
        // What it owns goes with it; there is nothing else to undo.
        decision.remove_finalizer(runtime, names::FINALIZER);
        return decision;
    }
    decision.add_finalizer(runtime, names::FINALIZER);
    let plan = match Plan::make(observed, settings) {
        Ok(plan) => plan,
        Err(fault) => return failed(observed, decision, &fault, now),
    };
    let tools = tools::choose(observed, &plan);
    let config_map = tools.as_ref().map(|tools| tools::config_map(observed, tools));
    match (&config_map, &observed.tools) {
        (Some(config_map), _) => {
            decision.apply(config_map);
        }
        (None, Some(stale)) => {
            decision.delete(&**stale);
        }
        (None, None) => {}
    }
    let course = canary::course(observed, &plan, settings, config_map.as_ref(), &mut decision, now);
    decision.apply(&objects::deployment(observed, &plan, config_map.as_ref(), Side::Stable));
    decision.apply(&objects::service(observed, course.routed));
    if let Some(at) = course.look_again {
        decision.look_again(at);
    }
    report(observed, settings, &plan, tools.as_ref(), course, decision, now)
}

/// What the status says when the objects are as they should be.
fn report(
    observed: &Observed,
    settings: &Settings,
    plan: &Plan,
    tools: Option<&Tools>,
    course: Course,
    mut decision: Decision,
    now: Timestamp,
) -> Decision {
    let runtime = &*observed.runtime;
    let current = runtime.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, runtime.metadata.generation, now);
    conditions.set("SpecValid", true, "Valid", "the agent can be built as it is written");
    found(observed, plan, tools, &mut conditions);
    conditions.set("DeploymentReady", true, "DeploymentCreated", "the Deployment is as it should be");
    conditions.set("ServiceReady", true, "ServiceCreated", "the Service is as it should be");
    match course.condition {
        Some((truth, reason, message)) => conditions.set("CanaryReady", truth, reason, message),
        None => conditions.remove("CanaryReady"),
    };
    let replicas = replicas(observed);
    let phase = if replicas.ready > 0 {
        conditions.set(
            "Ready",
            true,
            "RuntimeReady",
            format!("{} of {} Pods answer", replicas.ready, replicas.desired),
        );
        RuntimePhase::Running
    } else {
        let (reason, message) = if replicas.desired == 0 {
            ("ScaledToZero".to_owned(), "spec.runtime.replicas is 0".to_owned())
        } else {
            trouble(&observed.pods)
        };
        let reason = if reason == "DeploymentNotReady" { "RuntimeNotReady".to_owned() } else { reason };
        conditions.set("Ready", false, &reason, message);
        RuntimePhase::Pending
    };
    let status = AgentRuntimeStatus {
        phase: Some(phase),
        replicas: Some(replicas),
        active_version: Some(plan.version.version.clone()),
        canary: course.status,
        service_endpoint: Some(objects::endpoint(observed, &settings.cluster_domain)),
        observed_generation: runtime.metadata.generation,
        conditions: conditions.finish(),
    };
    tell(runtime, &current, &status, &mut decision);
    decision.status(runtime, runtime.status.as_ref(), &status);
    decision
}

/// What the agent refers to, as it was found.
fn found(observed: &Observed, plan: &Plan, tools: Option<&Tools>, conditions: &mut Conditions) {
    let spec = &observed.runtime.spec;
    let message = format!("it plays prompt {} of version {}", plan.prompt, plan.version.version);
    conditions.set("PromptPackReady", true, "PromptPackFound", message);
    match (&spec.tool_registry_ref, tools) {
        (Some(reference), Some(tools)) => {
            let message = format!("it has {} tools of ToolRegistry {}", tools.file.handlers.len(), reference.name);
            conditions.set("ToolRegistryReady", true, "ToolRegistryFound", message);
            if tools.left_out.is_empty() {
                conditions.remove("ToolsLeftOut");
            } else {
                conditions.set("ToolsLeftOut", true, "SomeLeftOut", tools.left_out.join("; "));
            }
        }
        _ => {
            conditions.remove("ToolRegistryReady").remove("ToolsLeftOut");
        }
    }
    if observed.policies.is_empty() {
        conditions.remove("AgentPolicyReady");
    } else {
        let names: Vec<String> = observed.policies.iter().map(|policy| policy.name_any()).collect();
        conditions.set(
            "AgentPolicyReady",
            true,
            "AgentPolicyFound",
            format!("its tools are chosen by {}", names.join(", ")),
        );
    }
    match &plan.provider {
        Some(model) => {
            let name = model.model.as_deref().unwrap_or("the provider's own choice");
            let message = format!("type {}, model {name}", model.type_.as_str());
            conditions.set("ProviderReady", true, "ProviderFound", message);
        }
        None => {
            conditions.remove("ProviderReady");
        }
    }
}

/// The Deployment's own truth.
fn replicas(observed: &Observed) -> Replicas {
    let wanted = observed.runtime.spec.runtime.as_ref().map_or(1, |settings| settings.replicas);
    let Some(deployment) = &observed.deployment else { return Replicas { desired: wanted, ready: 0, available: 0 } };
    let status = deployment.status.clone().unwrap_or_default();
    Replicas {
        desired: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(wanted),
        ready: status.ready_replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
    }
}

fn tell(runtime: &AgentRuntime, before: &AgentRuntimeStatus, after: &AgentRuntimeStatus, decision: &mut Decision) {
    if before.service_endpoint.is_none() {
        decision.event(Event::normal(runtime, "DeploymentCreated", "Create", "created the Deployment"));
        decision.event(Event::normal(runtime, "ServiceCreated", "Create", "created the Service"));
    }
    if before.phase != after.phase && after.phase == Some(RuntimePhase::Running) {
        decision.event(Event::normal(runtime, "Running", "Serve", "the agent answers"));
    }
}

/// Something is in the way: what runs keeps running, and the status says why nothing changes.
fn failed(observed: &Observed, mut decision: Decision, fault: &Fault, now: Timestamp) -> Decision {
    let runtime = &*observed.runtime;
    let current = runtime.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, runtime.metadata.generation, now);
    for gate in GATES.iter().take_while(|gate| **gate != fault.condition) {
        // What was checked before is no longer in the way.
        if engine::condition::find(&current.conditions, gate).is_some_and(|known| known.status == "False") {
            conditions.remove(gate);
        }
    }
    conditions.set(fault.condition, false, fault.reason, &fault.message);
    conditions.set("Ready", false, fault.reason, &fault.message);
    if is_news(&current.conditions, fault.condition, &fault.message) {
        decision.event(Event::warning(runtime, fault.reason, "Build", &fault.message));
    }
    let phase = if fault.waiting { RuntimePhase::Pending } else { RuntimePhase::Failed };
    let replicas = observed.deployment.as_ref().map(|_| replicas(observed));
    let status = AgentRuntimeStatus {
        phase: Some(phase),
        replicas: replicas.or_else(|| current.replicas.clone()),
        observed_generation: runtime.metadata.generation,
        conditions: conditions.finish(),
        ..current
    };
    decision.status(runtime, runtime.status.as_ref(), &status);
    decision.outcome(if fault.waiting {
        Outcome::Waiting(fault.message.clone())
    } else {
        Outcome::Permanent(fault.message.clone())
    });
    decision
}

/// What to say when the API server refused a step.
pub(super) fn refused(observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
    let runtime = &*observed.runtime;
    if runtime.metadata.deletion_timestamp.is_some() {
        return Decision::none();
    }
    let current = runtime.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, runtime.metadata.generation, now);
    let (condition, reason) = if failure.message.contains(" Service ") {
        ("ServiceReady", "ServiceFailed")
    } else {
        ("DeploymentReady", "DeploymentFailed")
    };
    conditions.set(condition, false, reason, &failure.message);
    conditions.set("Ready", false, reason, &failure.message);
    let mut decision = Decision::none();
    if is_news(&current.conditions, condition, &failure.message) {
        decision.event(Event::warning(runtime, reason, "Build", &failure.message));
    }
    let permanent = failure.kind == engine::FailureKind::Permanent;
    let status = AgentRuntimeStatus {
        phase: if permanent { Some(RuntimePhase::Failed) } else { current.phase.or(Some(RuntimePhase::Pending)) },
        observed_generation: runtime.metadata.generation,
        conditions: conditions.finish(),
        ..current
    };
    decision.status(runtime, runtime.status.as_ref(), &status);
    decision
}
