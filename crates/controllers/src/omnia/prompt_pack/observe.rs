//! What a decision about a `PromptPack` depends on.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::omnia::{AgentRuntime, PromptPack, names};
use engine::{Controller, Decision, Error, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;

/// Keeps packs as they are declared.
pub struct PackController;

/// The cache knows only names of `ConfigMaps`.
pub(super) type ConfigMapName = PartialObjectMeta<ConfigMap>;

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
    /// How many agents use it.
    pub agents: usize,
    /// Versions that agents name.
    pub pinned: BTreeSet<String>,
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
                let reference = |agent: &Arc<AgentRuntime>| agent.spec.prompt_pack_ref.clone();
                if change.before.as_ref().map(reference) == change.after.as_ref().map(reference) {
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
        let agents = view.list::<AgentRuntime>(&key.namespace);
        let users: Vec<_> = agents.iter().filter(|agent| agent.spec.prompt_pack_ref.name == key.name).collect();
        let pinned = users.iter().filter_map(|agent| agent.spec.prompt_pack_ref.version.clone()).collect();
        Ok(Some(Observed { pack, source, kept, active, agents: users.len(), pinned }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        super::decide(observed, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

fn source_name(pack: &PromptPack) -> Option<&str> {
    pack.spec.source.config_map_ref.as_ref().map(|reference| reference.name.as_str())
}
