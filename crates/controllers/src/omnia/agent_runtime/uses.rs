//! The Secrets and `ConfigMaps` whose content an agent's containers take when they start, so that a new value needs new ones.

use std::collections::BTreeSet;

use api::omnia::{AgentRuntime, Provider, RuntimeSettings, ToolRegistry};
use k8s_openapi::api::core::v1::{EnvVarSource, Volume};

/// Names of Secrets and `ConfigMaps`.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub(super) secrets: BTreeSet<String>,
    pub(super) config_maps: BTreeSet<String>,
}

impl Uses {
    /// What an agent uses, with its provider and its tools. A runtime of ours reads its files again by itself.
    pub(super) fn of(
        runtime: &AgentRuntime,
        provider: Option<&Provider>,
        registry: Option<&ToolRegistry>,
        own: bool,
    ) -> Self {
        let mut uses = Self::default();
        let spec = &runtime.spec;
        let store = spec.session.iter().filter_map(|session| session.store_ref.as_ref()).map(|store| &store.name);
        let referred = provider.and_then(|provider| provider.spec.secret_ref.as_ref());
        let inline = spec.provider.as_ref().and_then(|provider| provider.secret_ref.as_ref());
        let tools = registry.into_iter().flat_map(|registry| &registry.spec.handlers);
        let tools = tools.filter_map(|handler| handler.auth_secret_ref()).map(|secret| &secret.name);
        let keys = referred.into_iter().chain(inline).map(|secret| &secret.name);
        uses.secrets.extend(store.chain(keys).chain(tools).cloned());
        if let Some(settings) = &spec.runtime {
            let variables = settings.extra_env.iter().flatten();
            variables.filter_map(|variable| variable.value_from.as_ref()).for_each(|source| uses.add_variable(source));
            let volumes = settings.volumes.iter().flatten();
            volumes.filter(|volume| !own || is_fixed(volume, settings)).for_each(|volume| uses.add_volume(volume));
        }
        uses
    }

    fn add_variable(&mut self, source: &EnvVarSource) {
        self.secrets.extend(source.secret_key_ref.as_ref().map(|secret| secret.name.clone()));
        self.config_maps.extend(source.config_map_key_ref.as_ref().map(|map| map.name.clone()));
    }

    fn add_volume(&mut self, volume: &Volume) {
        self.secrets.extend(volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()));
        self.config_maps.extend(volume.config_map.as_ref().map(|map| map.name.clone()));
        let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for source in projected {
            self.secrets.extend(source.secret.as_ref().map(|secret| secret.name.clone()));
            self.config_maps.extend(source.config_map.as_ref().map(|map| map.name.clone()));
        }
    }
}

/// Whether a container sees a volume for ever as it was at its start: a part of one that is mounted does not follow.
fn is_fixed(volume: &Volume, settings: &RuntimeSettings) -> bool {
    let mut mounts = settings.volume_mounts.iter().flatten();
    mounts.any(|mount| mount.name == volume.name && (mount.sub_path.is_some() || mount.sub_path_expr.is_some()))
}
