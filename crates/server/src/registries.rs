//! What a registry knows about a tool, wherever it is kept: in its status, or, when that is too much for it, in a
//! `ConfigMap` that the status names.

use api::omnia::{Details, ToolRegistry};
use axum::Json;
use axum::extract::Extension;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::resources::ObjectPath;

/// Which tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Its name.
    tool: String,
}

/// `GET …/toolregistries/{name}/details?tool=NAME`: its description and schemas.
pub async fn details(
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): ObjectPath,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Details>> {
    let registry = Api::<ToolRegistry>::namespaced(caller.client.clone(), &namespace).get(&name).await?;
    let tools = registry.status.map(|status| status.discovered_tools).unwrap_or_default();
    let tool = tools.into_iter().find(|tool| tool.name == wanted.tool);
    let tool = tool.ok_or_else(|| Error::not_found(format!("ToolRegistry {name} has no tool {}", wanted.tool)))?;
    let Some(place) = tool.schema_ref else {
        let (description, operation) = (tool.description, tool.operation);
        let (input_schema, output_schema) = (tool.input_schema, tool.output_schema);
        return Ok(Json(Details { description, operation, input_schema, output_schema }));
    };
    let map = Api::<ConfigMap>::namespaced(caller.client, &namespace).get(&place.config_map).await?;
    let text = map.data.and_then(|mut data| data.remove(&place.key)).unwrap_or_default();
    let unreadable = |error| {
        let why = format!("ConfigMap {} has nothing to read under {}: {error}", place.config_map, place.key);
        Error::not_found(why)
    };
    Ok(Json(serde_json::from_str(&text).map_err(unreadable)?))
}
