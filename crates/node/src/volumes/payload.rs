//! Which files a volume of configMap, secret, downwardAPI or projected kind holds. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use crate::environment::{Kind, Place, Sources, field, resource};

/// Files by path, with their modes.
pub type Payload = BTreeMap<String, (Vec<u8>, u32)>;

/// ConfigMaps and Secrets that a Pod's volumes need.
pub fn needs(pod: &Pod) -> Vec<(Kind, String)> {
    let mut names = Vec::new();
    for volume in super::of(pod) {
        names.extend(volume.config_map.as_ref().map(|source| (Kind::ConfigMap, source.name.clone())));
        let secret = volume.secret.as_ref().and_then(|source| source.secret_name.clone());
        names.extend(secret.map(|name| (Kind::Secret, name)));
        for part in projections(&volume) {
            names.extend(part.config_map.as_ref().map(|source| (Kind::ConfigMap, source.name.clone())));
            names.extend(part.secret.as_ref().map(|source| (Kind::Secret, source.name.clone())));
        }
    }
    names
}

/// Tokens that a Pod's volumes need.
pub fn token_requests(pod: &Pod) -> Vec<ServiceAccountTokenProjection> {
    let volumes = super::of(pod);
    volumes.iter().flat_map(projections).filter_map(|part| part.service_account_token).collect()
}

fn projections(volume: &Volume) -> Vec<VolumeProjection> {
    volume.projected.as_ref().and_then(|projected| projected.sources.clone()).unwrap_or_default()
}

/// The files of a volume, or words that name what is missing. `tokens` are by audience.
pub fn payload(
    pod: &Pod,
    volume: &Volume,
    sources: &Sources,
    tokens: &BTreeMap<String, String>,
    place: &Place,
) -> Result<Payload, String> {
    let mut writer = Writer { sources, files: Payload::new(), default_mode: 0o644 };
    if let Some(source) = &volume.config_map {
        writer.default_mode = mode(source.default_mode, 0o644);
        writer.keyed(Kind::ConfigMap, &source.name, source.items.as_deref(), source.optional)?;
    }
    if let Some(source) = &volume.secret {
        writer.default_mode = mode(source.default_mode, 0o644);
        let name = source.secret_name.as_deref().unwrap_or_default();
        writer.keyed(Kind::Secret, name, source.items.as_deref(), source.optional)?;
    }
    if let Some(source) = &volume.downward_api {
        writer.default_mode = mode(source.default_mode, 0o644);
        writer.downward(pod, source.items.as_deref().unwrap_or_default(), place)?;
    }
    if let Some(projected) = &volume.projected {
        writer.default_mode = mode(projected.default_mode, 0o644);
        for part in projections(volume) {
            if let Some(source) = &part.config_map {
                writer.keyed(Kind::ConfigMap, &source.name, source.items.as_deref(), source.optional)?;
            } else if let Some(source) = &part.secret {
                writer.keyed(Kind::Secret, &source.name, source.items.as_deref(), source.optional)?;
            } else if let Some(source) = &part.downward_api {
                writer.downward(pod, source.items.as_deref().unwrap_or_default(), place)?;
            } else if let Some(source) = &part.service_account_token {
                let audience = source.audience.clone().unwrap_or_default();
                let token = tokens.get(&audience).ok_or_else(|| "no service account token yet".to_owned())?;
                let default_mode = writer.default_mode;
                writer.put(&source.path, token.clone().into_bytes(), default_mode)?;
            } else {
                return Err(format!("volume {}: a projected source that this node does not know", volume.name));
            }
        }
    }
    Ok(writer.files)
}

struct Writer<'a> {
    sources: &'a Sources,
    files: Payload,
    default_mode: u32,
}

impl Writer<'_> {
    fn keyed(
        &mut self,
        kind: Kind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let optional = optional == Some(true);
        let object = match self.sources.object(kind, name) {
            Ok(object) => object,
            Err(_) if optional => return Ok(()),
            Err(words) => return Err(words),
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            for (key, value) in object {
                self.put(key, value.clone(), self.default_mode)?;
            }
            return Ok(());
        };
        for item in items {
            match self.sources.key(kind, name, &item.key) {
                Ok(value) => self.put(&item.path, value.to_vec(), mode(item.mode, self.default_mode))?,
                Err(_) if optional => {}
                Err(words) => return Err(words),
            }
        }
        Ok(())
    }

    fn downward(&mut self, pod: &Pod, items: &[DownwardAPIVolumeFile], place: &Place) -> Result<(), String> {
        for item in items {
            let text = if let Some(source) = &item.field_ref {
                field(pod, &source.field_path, place)?
            } else if let Some(source) = &item.resource_field_ref {
                let name = source.container_name.clone().unwrap_or_default();
                let spec = pod.spec.as_ref();
                let container = spec.and_then(|spec| spec.containers.iter().find(|container| container.name == name));
                let container = container.ok_or_else(|| format!("downwardAPI {}: no container {name}", item.path))?;
                let divisor = source.divisor.as_ref().map(|quantity| quantity.0.as_str());
                resource(container, &source.resource, divisor, place)?
            } else {
                return Err(format!("downwardAPI {}: fieldRef or resourceFieldRef is needed", item.path));
            };
            self.put(&item.path, text.into_bytes(), mode(item.mode, self.default_mode))?;
        }
        Ok(())
    }

    fn put(&mut self, path: &str, bytes: Vec<u8>, mode: u32) -> Result<(), String> {
        let safe = !path.is_empty()
            && !path.starts_with('/')
            && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
            && !path.starts_with("..");
        if !safe {
            return Err(format!("{path} is not a path inside the volume"));
        }
        self.files.insert(path.to_owned(), (bytes, mode));
        Ok(())
    }
}

fn mode(declared: Option<i32>, default: u32) -> u32 {
    declared.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default) & 0o777
}
