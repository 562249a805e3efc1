//! What a Pod's volumes hold, and how it gets onto disk.

pub mod files;
mod payload;

pub use payload::{Payload, needs, payload, token_requests};

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};

use crate::environment::quantity;

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A directory that lives as long as the Pod.
    Empty,
    /// The same in memory, with at most so many bytes.
    Memory(Option<u64>),
    /// Files written from objects of the API.
    Files,
    /// A claim's directory.
    Claim(String),
}

/// Reads a volume of the manifest. The error names what this node does not offer.
pub fn source(volume: &Volume) -> Result<Source, String> {
    if let Some(empty) = &volume.empty_dir {
        if empty.medium.as_deref() == Some("Memory") {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes")]
            let limit = empty.size_limit.as_ref().and_then(|limit| quantity(&limit.0)).map(|bytes| bytes as u64);
            return Ok(Source::Memory(limit));
        }
        return Ok(Source::Empty);
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        return Ok(Source::Claim(claim.claim_name.clone()));
    }
    if volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
    {
        return Ok(Source::Files);
    }
    if volume.host_path.is_some() {
        return Err(format!(
            "volume {}: hostPath would show this machine's own files to the Pod; use a persistentVolumeClaim",
            volume.name
        ));
    }
    Err(format!(
        "volume {}: this node knows emptyDir, configMap, secret, projected, downwardAPI and persistentVolumeClaim",
        volume.name
    ))
}

/// Volumes of a Pod by name.
pub fn of(pod: &Pod) -> Vec<Volume> {
    pod.spec.as_ref().and_then(|spec| spec.volumes.clone()).unwrap_or_default()
}

/// Names of volumes that end with the Pod.
pub fn ephemeral(pod: &Pod) -> Vec<String> {
    let is_ephemeral = |volume: &Volume| matches!(source(volume), Ok(Source::Empty));
    of(pod).into_iter().filter(is_ephemeral).map(|volume| volume.name).collect()
}

/// Directories and memory of a Pod's volumes, as a sandbox wants them.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Directories by volume.
    pub directories: BTreeMap<String, PathBuf>,
    /// Memory volumes with their limits.
    pub memory: BTreeMap<String, Option<u64>>,
}
