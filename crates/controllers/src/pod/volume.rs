//! Short ways to say common volumes and mounts.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, PersistentVolumeClaimVolumeSource, SecretVolumeSource,
    Volume, VolumeMount,
};

pub(crate) fn empty(name: impl Into<String>) -> Volume {
    Volume { name: name.into(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

pub(super) fn claim(name: &str, claim: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim.into(), ..Default::default() };
    Volume { name: name.into(), persistent_volume_claim: Some(source), ..Volume::default() }
}

pub(crate) fn config_map(
    name: impl Into<String>,
    config_map: &str,
    items: Option<Vec<KeyToPath>>,
    mode: Option<i32>,
    optional: bool,
) -> Volume {
    let source = ConfigMapVolumeSource {
        name: config_map.into(),
        items,
        default_mode: mode,
        optional: optional.then_some(true),
    };
    Volume { name: name.into(), config_map: Some(source), ..Volume::default() }
}

pub(super) fn secret(
    name: impl Into<String>,
    secret: &str,
    items: Option<Vec<KeyToPath>>,
    mode: Option<i32>,
) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(secret.into()),
        items,
        default_mode: mode,
        ..SecretVolumeSource::default()
    };
    Volume { name: name.into(), secret: Some(source), ..Volume::default() }
}

pub(super) fn item(key: &str, path: &str, mode: Option<i32>) -> KeyToPath {
    KeyToPath { key: key.into(), path: path.into(), mode }
}

pub(crate) fn mount(volume: impl Into<String>, path: &str) -> VolumeMount {
    VolumeMount { name: volume.into(), mount_path: path.into(), ..VolumeMount::default() }
}

pub(crate) fn read_only(volume: impl Into<String>, path: &str) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount(volume, path) }
}

pub(super) fn sub_path(mount: VolumeMount, path: &str) -> VolumeMount {
    VolumeMount { sub_path: Some(path.into()), ..mount }
}
