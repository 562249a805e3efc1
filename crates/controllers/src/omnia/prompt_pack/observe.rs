//! What a decision about a `PromptPack` depends on.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::omnia::{AgentRuntime, PromptPack, RolloutType, RuntimePhase, names};
use engine::{Controller, Decision, Error, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;

use crate::omnia::contents::ConfigMapName;

/// Keeps packs as they are declared.
pub struct PackController;

/// What a decision about a `PromptPack` depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The pack.
    pub pack: Arc<PromptPack>,
    /// The `ConfigMap` that it names.
    pub source: Option<Arc<ConfigMap>>,
    /// The contents that are kept.
    pub kept: Vec<Arc<ConfigMapName>>,
    /// What agents read now.
    pub active: Option<Arc<ConfigMap>>,
    /// The agents that use it.
    pub users: Vec<Arc<AgentRuntime>>,
}

impl Observed {
    /// Whether a content is kept under this name.
    pub(super) fn is_kept(&self, name: &str) -> bool {
        self.kept.iter().any(|map| map.metadata.name.as_deref() == Some(name))
    }

    /// Versions that agents name.
    pub(super) fn pinned(&self) -> BTreeSet<&str> {
        self.users.iter().filter_map(|agent| agent.spec.prompt_pack_ref.version.as_deref()).collect()
    }

    /// The agents that get a new version by themselves and have someone to serve.
    pub(super) fn followers(&self) -> Vec<&AgentRuntime> {
        let follows = |agent: &&AgentRuntime| {
            let phase = agent.status.as_ref().and_then(|status| status.phase);
            let replicas = agent.spec.runtime.as_ref().map_or(1, |settings| settings.replicas);
            agent.spec.prompt_pack_ref.version.is_none()
                && agent.metadata.deletion_timestamp.is_none()
                && phase != Some(RuntimePhase::Failed)
                && replicas > 0
        };
        self.users.iter().map(|agent| &**agent).filter(follows).collect()
    }
}

impl Controller for PackController {
    const NAME: &'static str = "omnia-promptpack";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<PromptPack>()
            .mapped::<ConfigMapName>(|map, view| {
                let namespace = map.metadata.namespace.clone().unwrap_or_default();
                if let Some(pack) = map.metadata.labels.as_ref().and_then(|labels| labels.get(names::PACK_LABEL)) {
                    return vec![Key::new(namespace, pack)];
                }
                let name = map.metadata.name.clone();
                let reads = |pack: &Arc<PromptPack>| source_name(pack).map(ToOwned::to_owned) == name;
                let packs = view.list::<PromptPack>(&namespace);
                packs.iter().filter(|pack| reads(pack)).map(|pack| Key::of(&**pack)).collect()
            })
            .changes::<AgentRuntime>(|change, _| {
                let facts = |agent: &Arc<AgentRuntime>| {
                    let status = agent.status.clone().unwrap_or_default();
                    let replicas = agent.spec.runtime.as_ref().map(|settings| settings.replicas);
                    let leaving = agent.metadata.deletion_timestamp.is_some();
                    (agent.spec.prompt_pack_ref.clone(), replicas, leaving, status.phase, status.canary)
                };
                if change.before.as_ref().map(facts) == change.after.as_ref().map(facts) {
                    return Vec::new();
                }
                let agents = change.before.iter().chain(&change.after);
                agents
                    .filter_map(|agent| Some(Key::new(agent.namespace()?, &agent.spec.prompt_pack_ref.name)))
                    .collect()
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(pack) = view.cached::<PromptPack>(key) else { return Ok(None) };
        if pack.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let source = match source_name(&pack) {
            Some(name) => view.live::<ConfigMap>(&Key::new(&key.namespace, name)).await?,
            None => None,
        };
        let active = view.live::<ConfigMap>(&Key::new(&key.namespace, names::active_config_map(&key.name))).await?;
        let active_name = names::active_config_map(&key.name);
        let is_kept = |map: &Arc<ConfigMapName>| {
            let labels = map.metadata.labels.clone().unwrap_or_default();
            labels.get(names::PACK_LABEL) == Some(&key.name) && map.metadata.name.as_ref() != Some(&active_name)
        };
        let kept = view.list::<ConfigMapName>(&key.namespace).into_iter().filter(is_kept).collect();
        let is_user = |agent: &Arc<AgentRuntime>| agent.spec.prompt_pack_ref.name == key.name;
        let users = view.list::<AgentRuntime>(&key.namespace).into_iter().filter(is_user).collect();
        let mut observed = Observed { pack, source, kept, active, users };
        if may_end(&observed) {
            let agents = view.live_list::<AgentRuntime>(&key.namespace, "").await?;
            observed.users = agents.into_iter().map(Arc::new).filter(is_user).collect();
        }
        Ok(Some(observed))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        super::decide(observed, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

/// Whether a canary may end with what is decided now, because nobody has sessions on the other version. An agent that the
/// cache does not show as it is has sessions too, so that this is asked of the API server itself.
fn may_end(observed: &Observed) -> bool {
    let rollout = &observed.pack.spec.rollout;
    if rollout.type_ != RolloutType::Canary {
        return false;
    }
    let spec = rollout.canary.clone().unwrap_or_default();
    let status = observed.pack.status.as_ref();
    let weight = status.and_then(|status| status.canary_weight).unwrap_or(0);
    spec.promote.is_some() || weight.max(spec.weight) >= 100 || observed.followers().is_empty()
}

fn source_name(pack: &PromptPack) -> Option<&str> {
    pack.spec.source.config_map_ref.as_ref().map(|reference| reference.name.as_str())
}
