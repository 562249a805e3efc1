//! The contents of a pack's versions, which the controllers keep in `ConfigMaps`.

use api::omnia::PromptPack;
use api::omnia::names::PACK_KEY;
use axum::Json;
use axum::extract::Extension;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::resources::ObjectPath;

/// Which content.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Wanted {
    /// The `ConfigMap` of the version, as `versions` of the pack names it; the active one's unless told.
    config_map: Option<String>,
}

/// `GET …/promptpacks/{name}/content`: the text of `pack.json` of one version.
pub async fn content(
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): ObjectPath,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    let pack = Api::<PromptPack>::namespaced(caller.client.clone(), &namespace).get(&name).await?;
    let versions = pack.status.map(|status| status.versions).unwrap_or_default();
    let chosen = versions.into_iter().find(|kept| wanted.config_map.as_ref().is_none_or(|map| *map == kept.config_map));
    // Only what the pack names: this is no way to other ConfigMaps.
    let Some(kept) = chosen else {
        return Err(Error::not_found(match wanted.config_map {
            Some(map) => format!("PromptPack {name} keeps no version in ConfigMap {map}"),
            None => format!("PromptPack {name} has no version yet; its conditions say why"),
        }));
    };
    let map = Api::<ConfigMap>::namespaced(caller.client, &namespace).get(&kept.config_map).await?;
    let text = map.data.and_then(|mut data| data.remove(PACK_KEY)).unwrap_or_default();
    Ok(Json(json!({"version": kept.version, "configMap": kept.config_map, "text": text})))
}
