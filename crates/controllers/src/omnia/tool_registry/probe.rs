//! Programs that are MCP servers are never run here: a throw-away Pod asks each what tools it has, and its log says so.

use std::time::Duration;

use api::omnia::{Handler, HandlerType, McpTransport, ToolRegistry, names};
use engine::Decision;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, VolumeMount};
use kube::ResourceExt;
use serde_json::json;

use super::observe::Observed;
use crate::omnia::Settings;
use crate::omnia::owner::{labels, owned};
use crate::pod::{self, Recipe, empty, mount, variable};

/// The component that these Pods are.
pub(crate) const COMPONENT: &str = "tool-probe";
/// A Pod that has not ended by then is given up; images may have to be pulled first.
const PATIENCE: SignedDuration = SignedDuration::from_mins(3);
/// How many times longer than other servers a program is believed: asking it costs a Pod.
const BELIEVED: u32 = 10;
/// Where our program is in an image of ours, and where it is brought in any other.
const OWN_PROGRAM: &str = "/orrery";
const BROUGHT_PROGRAM: &str = "/tools/kubeopencode";

/// What is known about a program.
pub(super) enum Known {
    /// It has answered.
    Said,
    /// A Pod is asking it.
    Asking,
    /// It cannot be asked.
    Never(String),
}

pub(super) fn is_program(handler: &Handler) -> bool {
    let stdio = |transport| transport == McpTransport::Stdio;
    handler.type_ == HandlerType::Mcp && handler.mcp_config.as_ref().is_some_and(|config| stdio(config.transport))
}

/// What is known about the program of a handler.
pub(super) fn known(observed: &Observed, settings: &Settings, handler: &Handler) -> Known {
    if let Err(why) = pod(&observed.registry, handler, settings) {
        return Known::Never(why);
    }
    if observed.answers.contains_key(&(handler.name.clone(), None)) { Known::Said } else { Known::Asking }
}

/// The Pod that asks the program of a handler now, as far as it is there.
pub(super) fn current<'a>(
    pods: impl IntoIterator<Item = &'a std::sync::Arc<Pod>>,
    registry: &ToolRegistry,
    handler: &Handler,
    settings: &Settings,
) -> Option<&'a Pod> {
    let wanted = pod(registry, handler, settings).ok()?.name_any();
    pods.into_iter().find(|pod| pod.name_any() == wanted).map(AsRef::as_ref)
}

pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a Pod has had its time.
pub(super) fn is_late(pod: &Pod, now: Timestamp) -> bool {
    !has_ended(pod) && now.duration_since(begun(pod, now)) > PATIENCE
}

/// Since when a Pod asks, by the clock of whoever sent it.
fn begun(pod: &Pod, now: Timestamp) -> Timestamp {
    pod.annotations().get(names::ASKED_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(now)
}

/// Starts the Pods that are missing, and deletes those that are no longer wanted.
pub(super) fn keep(observed: &Observed, settings: &Settings, now: Timestamp, decision: &mut Decision) {
    let registry = &*observed.registry;
    let believed = settings.recheck * BELIEVED;
    let mut wanted = Vec::new();
    for handler in registry.spec.handlers.iter().filter(|handler| is_program(handler)) {
        let Ok(mut pod) = pod(registry, handler, settings) else { continue };
        pod.annotations_mut().insert(names::ASKED_ANNOTATION.into(), now.to_string());
        wanted.push(pod.name_any());
        match current(&observed.pods, registry, handler, settings) {
            None => drop(decision.create(&pod)),
            Some(there) => {
                let begun = begun(there, now);
                let until = if has_ended(there) { begun + believed } else { begun + PATIENCE };
                if there.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                // A Pod that never ends is kept as long: its answer is that it gave none.
                if now >= begun + believed {
                    decision.delete(there);
                } else {
                    decision.look_again(if now > until { begun + believed } else { until + Duration::from_millis(1) });
                }
            }
        }
    }
    for pod in observed.pods.iter().filter(|pod| !wanted.contains(&pod.name_any())) {
        if pod.metadata.deletion_timestamp.is_none() {
            decision.delete(&**pod);
        }
    }
}

/// The Pod that asks the program of a handler.
fn pod(registry: &ToolRegistry, handler: &Handler, settings: &Settings) -> Result<Pod, String> {
    let own = settings.own_image.as_ref().or(settings.router_image.as_ref());
    let own =
        own.ok_or("no image with our program is known, which would ask it: start the controller with --helper-image")?;
    let config = handler.mcp_config.clone().unwrap_or_default();
    let image = config.image.as_ref().unwrap_or(own);
    let program = json!({ "command": config.command, "arguments": config.args, "directory": config.work_dir, "environment": config.env });
    let account = registry.spec.service_account_name.clone();
    let is_brought = image != own;
    let program_of_ours = if is_brought { BROUGHT_PROGRAM } else { OWN_PROGRAM };
    let shared = if is_brought { vec![mount("tools", "/tools")] } else { Vec::new() };
    let bring = is_brought.then(|| {
        let env = vec![variable("TOOLS_DIR", "/tools")];
        container("helper-init", own, [OWN_PROGRAM, "self-init"], env, shared.clone())
    });
    let env = vec![variable("MCP_PROGRAM", program.to_string())];
    let recipe = Recipe {
        init_containers: bring.into_iter().collect(),
        containers: vec![container("server", image, [program_of_ours, "mcp-tools"], env, shared)],
        volumes: is_brought.then(|| empty("tools")).into_iter().collect(),
        restart_policy: Some("Never"),
        service_account: account.clone(),
        deadline: Some(PATIENCE.as_secs()),
        ..Recipe::default()
    };
    let text = format!("{program} {image} {account:?}");
    let uid = registry.uid().unwrap_or_default();
    let name = format!("{}-{}-{}", registry.name_any(), handler.name, names::digest([uid.as_str(), text.as_str()]));
    Ok(recipe.pod(owned(registry, name, labels(COMPONENT, &registry.name_any()))))
}

fn container(name: &str, image: &str, command: [&str; 2], env: Vec<EnvVar>, mounts: Vec<VolumeMount>) -> Container {
    Container {
        env: Some(env),
        volume_mounts: (!mounts.is_empty()).then_some(mounts),
        ..pod::container(name, image, command.map(Into::into).to_vec())
    }
}
