//! PersistentVolumeClaims: each is a directory of the node's, kept until nobody needs it. Its size is recorded, not
//! enforced.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Controller, Decision, Error, Event, Key, Outcome, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use serde_json::json;

use crate::pods;

/// Holds a claim that is deleted until no Pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
const PROVISIONER: &str = "orrery.dev/directory";

/// Binds claims and lets go of them.
pub struct Claims {
    /// Storage classes that mean a directory here. A claim without a class means one, too.
    pub classes: Vec<String>,
}

/// A claim and the Pods that use it.
pub struct Observed {
    claim: Arc<PersistentVolumeClaim>,
    users: Vec<String>,
}

impl Controller for Claims {
    const NAME: &'static str = "persistentvolume-controller";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<PersistentVolumeClaim>().mapped::<Pod>(|pod, _| {
            let namespace = pod.namespace().unwrap_or_default();
            claimed(pod).map(|name| Key::new(&namespace, name)).collect()
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(claim) = view.cached::<PersistentVolumeClaim>(key) else { return Ok(None) };
        let holds = |pod: &Pod| is_running(pod) && claimed(pod).any(|name| name == key.name);
        let mut users: Vec<String> =
            view.list::<Pod>(&key.namespace).iter().filter(|pod| holds(pod)).map(|pod| pod.name_any()).collect();
        if claim.metadata.deletion_timestamp.is_some() && users.is_empty() {
            // About to be given up for good: a cache that is behind must not decide that.
            let live = view.live_list::<Pod>(&key.namespace, "").await?;
            users = live.iter().filter(|pod| holds(pod)).map(ResourceExt::name_any).collect();
        }
        Ok(Some(Observed { claim, users }))
    }

    fn decide(&self, observed: &Observed, _now: Timestamp) -> Decision {
        let Observed { claim, users } = observed;
        let mut decision = Decision::none();
        if claim.metadata.deletion_timestamp.is_some() {
            if users.is_empty() {
                decision.remove_finalizer(&**claim, PROTECTION);
            } else {
                decision.outcome(Outcome::Waiting(format!("still used by Pods {}", users.join(", "))));
            }
            return decision;
        }
        decision.add_finalizer(&**claim, PROTECTION);
        match self.objection(claim) {
            Some(objection) => refuse(&mut decision, claim, objection),
            None => bind(&mut decision, claim),
        }
        decision
    }
}

impl Claims {
    /// Why a claim cannot be a directory.
    fn objection(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        let spec = claim.spec.as_ref()?;
        let class = spec.storage_class_name.as_deref().unwrap_or_default();
        if !class.is_empty() && !self.classes.iter().any(|known| known == class) {
            return Some(format!("storageclass.storage.k8s.io \"{class}\" not found"));
        }
        if spec.volume_mode.as_deref() == Some("Block") {
            return Some("spec.volumeMode: this plane has directories only; use Filesystem".to_owned());
        }
        if spec.data_source.is_some() || spec.data_source_ref.is_some() {
            return Some("spec.dataSource: this plane makes empty directories only; leave it out".to_owned());
        }
        if spec.selector.is_some() {
            return Some("spec.selector: there are no volumes to select from; leave it out".to_owned());
        }
        None
    }
}

fn refuse(decision: &mut Decision, claim: &PersistentVolumeClaim, objection: String) {
    decision.event(Event::warning(claim, "ProvisioningFailed", "Provisioning", objection.clone()));
    decision.outcome(Outcome::Permanent(objection));
}

fn bind(decision: &mut Decision, claim: &PersistentVolumeClaim) {
    let Some(spec) = &claim.spec else { return };
    let volume = format!("pvc-{}", claim.uid().unwrap_or_default());
    if spec.volume_name.as_deref().unwrap_or_default().is_empty() {
        let annotations = json!({
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/storage-provisioner": PROVISIONER,
        });
        decision.patch(claim, json!({ "metadata": { "annotations": annotations }, "spec": { "volumeName": volume } }));
        let words = format!("Successfully provisioned volume {volume}");
        decision.event(Event::normal(claim, "ProvisioningSucceeded", "Provisioning", words));
    }
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let size = requests.and_then(|requests| requests.get("storage")).cloned();
    let before = claim.status.clone().unwrap_or_default();
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".into()),
        access_modes: spec.access_modes.clone(),
        capacity: size.map(|size: Quantity| BTreeMap::from([("storage".to_owned(), size)])),
        ..before
    };
    decision.status(claim, claim.status.as_ref(), &status);
}

fn claimed(pod: &Pod) -> impl Iterator<Item = &str> {
    crate::scheduler::claims(pod)
}

/// A Pod that has no node yet, or has ended, holds nothing.
fn is_running(pod: &Pod) -> bool {
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref().is_some_and(|name| !name.is_empty()));
    placed && !pods::is_finished(pod)
}
