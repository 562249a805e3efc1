//! Which node a Pod fits on. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Node, PersistentVolumeClaim, Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::affinity;

/// Thousandths of a unit.
type Milli = i64;

/// Why no node will do.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    nodes: usize,
    /// How many nodes each reason rules out; or one reason that rules out all.
    reasons: BTreeMap<String, usize>,
    whole: Option<String>,
    /// Deleting other Pods could help some nodes (Kubernetes says so, and so do we; nothing is deleted).
    crowded: usize,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, reasons, whole, crowded } = self;
        if *nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let mut counted: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        counted.sort();
        let reasons = whole.clone().unwrap_or_else(|| counted.join(", "));
        write!(f, "0/{nodes} nodes are available: {reasons}. preemption: 0/{nodes} nodes are available: ")?;
        let mut preemption = Vec::new();
        if whole.is_none() && *crowded > 0 {
            preemption.push(format!("{crowded} No preemption victims found for incoming pod"));
        }
        let helpless = if whole.is_some() { *nodes } else { nodes - crowded };
        if helpless > 0 {
            preemption.push(format!("{helpless} Preemption is not helpful for scheduling"));
        }
        write!(f, "{}.", preemption.join(", "))
    }
}

/// The claims a Pod's volumes name.
pub fn claims(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()).map(|source| source.claim_name.as_str())
}

/// Whether a Pod takes up room on its node.
pub fn holds_room(pod: &Pod) -> bool {
    let assigned = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_some_and(|name| !name.is_empty()));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    assigned && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// The node with the fewest Pods among those that fit; the first by name among equals.
pub fn choose(
    pod: &Pod,
    nodes: &[Arc<Node>],
    placed: &[Arc<Pod>],
    claims: &BTreeMap<String, Option<Arc<PersistentVolumeClaim>>>,
) -> Result<String, Unfit> {
    let mut unfit = Unfit { nodes: nodes.len(), reasons: BTreeMap::new(), whole: None, crowded: 0 };
    if let Some(reason) = everywhere(pod, claims) {
        unfit.whole = Some(reason);
        return Err(unfit);
    }
    let mut best: Option<(usize, &str)> = None;
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let on_it: Vec<&Pod> = placed.iter().map(|pod| &**pod).filter(|pod| on(pod, name)).collect();
        let fixed = fixed_reason(pod, node);
        let reasons = match &fixed {
            Some(reason) => vec![reason.clone()],
            None => crowded_reasons(pod, node, &on_it),
        };
        if reasons.is_empty() {
            let candidate = (on_it.len(), name);
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
        unfit.crowded += usize::from(fixed.is_none() && !reasons.is_empty());
        for reason in reasons {
            *unfit.reasons.entry(reason).or_default() += 1;
        }
    }
    best.map(|(_, name)| name.to_owned()).ok_or(unfit)
}

fn on(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

/// What keeps a Pod from every node.
fn everywhere(pod: &Pod, claims: &BTreeMap<String, Option<Arc<PersistentVolumeClaim>>>) -> Option<String> {
    let class = pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.as_deref());
    if let Some(class) = class.filter(|class| !class.is_empty()) {
        return Some(format!("RuntimeClass \"{class}\" not found"));
    }
    for (name, claim) in claims {
        let Some(claim) = claim else { return Some(format!("persistentvolumeclaim \"{name}\" not found")) };
        if claim.metadata.deletion_timestamp.is_some() {
            return Some(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
            return Some("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    None
}

/// What keeps a Pod from this node whatever else runs there.
fn fixed_reason(pod: &Pod, node: &Node) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let node_spec = node.spec.as_ref();
    let cordon =
        Taint { key: "node.kubernetes.io/unschedulable".into(), effect: "NoSchedule".into(), ..Taint::default() };
    let cordoned = node_spec.and_then(|spec| spec.unschedulable) == Some(true);
    if cordoned && !tolerations.iter().any(|toleration| tolerates(toleration, &cordon)) {
        return Some("node(s) were unschedulable".to_owned());
    }
    let taints = node_spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let hard = taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    for taint in hard {
        if !tolerations.iter().any(|toleration| tolerates(toleration, taint)) {
            let value = taint.value.as_deref().unwrap_or_default();
            return Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key));
        }
    }
    (!affinity::matches(spec, node)).then(|| "node(s) didn't match Pod's node affinity/selector".to_owned())
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    let effect = empty(&toleration.effect) || toleration.effect.as_deref() == Some(&taint.effect);
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = if empty(&toleration.key) { exists } else { toleration.key.as_deref() == Some(&taint.key) };
    let value = exists || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    effect && key && value
}

/// What keeps a Pod from this node because of those that are there.
fn crowded_reasons(pod: &Pod, node: &Node, placed: &[&Pod]) -> Vec<String> {
    let empty = BTreeMap::new();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref()).unwrap_or(&empty);
    let mut reasons = Vec::new();
    if let Some(most) = allocatable.get("pods").and_then(milli)
        && Milli::try_from(placed.len() + 1).unwrap_or(Milli::MAX).saturating_mul(1000) > most
    {
        reasons.push("Too many pods".to_owned());
    }
    for (resource, wanted) in requests(pod) {
        let have = allocatable.get(&resource).and_then(milli).unwrap_or(0);
        let used: Milli = placed.iter().map(|pod| requests(pod).get(&resource).copied().unwrap_or(0)).sum();
        if wanted > 0 && used + wanted > have {
            reasons.push(format!("Insufficient {resource}"));
        }
    }
    reasons
}

/// What a Pod asks for: its containers and sidecars together, or its hungriest init container with the sidecars
/// started before it, whichever is more; plus the overhead.
fn requests(pod: &Pod) -> BTreeMap<String, Milli> {
    let Some(spec) = &pod.spec else { return BTreeMap::new() };
    let mut total = BTreeMap::new();
    spec.containers.iter().for_each(|container| add(&mut total, &request(container)));
    let mut sidecars = BTreeMap::new();
    let mut peak: BTreeMap<String, Milli> = BTreeMap::new();
    for container in spec.init_containers.iter().flatten() {
        let mut now = request(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &now);
            now.clone_from(&sidecars);
        } else {
            add(&mut now, &sidecars);
        }
        for (resource, amount) in now {
            let highest = peak.entry(resource).or_default();
            *highest = amount.max(*highest);
        }
    }
    add(&mut total, &sidecars);
    for (resource, amount) in peak {
        let sum = total.entry(resource).or_default();
        *sum = amount.max(*sum);
    }
    add(&mut total, &amounts(spec.overhead.as_ref()));
    total
}

fn request(container: &Container) -> BTreeMap<String, Milli> {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<String, Milli> {
    let quantities = quantities.into_iter().flatten();
    quantities.filter_map(|(resource, quantity)| Some((resource.clone(), milli(quantity)?))).collect()
}

/// The amount; `None` for a text that is no quantity, which the API server refuses.
fn milli(quantity: &Quantity) -> Option<Milli> {
    machinery::quantity::Quantity::parse(&quantity.0).ok().map(|quantity| quantity.milli_value())
}

fn add(sum: &mut BTreeMap<String, Milli>, more: &BTreeMap<String, Milli>) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

#[cfg(test)]
mod tests;
