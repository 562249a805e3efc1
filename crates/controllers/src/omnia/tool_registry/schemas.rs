//! What does not fit into a status goes into `ConfigMaps`, and the status says where.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::{Details, DiscoveredTool, SchemaReference, ToolRegistry, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;

use super::decide::gone;
use crate::omnia::owner::{labels, owned};

/// The component that these objects are.
pub(crate) const COMPONENT: &str = "tool-schemas";
/// What the descriptions of all tools may take in the status.
const STATUS_HOLDS: usize = 256 << 10;
/// What one `ConfigMap` is filled with; it can hold a mebibyte.
const MAP_HOLDS: usize = 768 << 10;
/// What all of a registry's `ConfigMaps` may take.
const REGISTRY_HOLDS: usize = 16 << 20;
/// How much of a description stays in the status.
const WORDS_LEFT: usize = 120;

/// Moves what is too much.
pub(super) fn spill(registry: &ToolRegistry, tools: &mut [DiscoveredTool]) -> Vec<ConfigMap> {
    let texts: Vec<Option<String>> = tools.iter().map(text).collect();
    let total: usize = texts.iter().flatten().map(String::len).sum();
    if total <= STATUS_HOLDS {
        return Vec::new();
    }
    let mut maps: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    let (mut filled, mut all) = (0, 0);
    for (tool, text) in tools.iter_mut().zip(texts) {
        let Some(text) = text else { continue };
        shorten(tool);
        if all + text.len() > REGISTRY_HOLDS {
            let message = format!("the schemas of this registry take more than {} MiB", REGISTRY_HOLDS >> 20);
            *tool = gone(tool.clone(), "SchemaTooLarge", message);
            continue;
        }
        if filled + text.len() > MAP_HOLDS {
            maps.push(BTreeMap::new());
            filled = 0;
        }
        filled += text.len();
        all += text.len();
        let key = format!("{}.{}", tool.handler_name.as_deref().unwrap_or_default(), tool.name);
        tool.schema_ref = Some(SchemaReference {
            config_map: names::schemas_config_map(&registry.name_any(), maps.len() - 1),
            key: key.clone(),
            digest: names::digest([text.as_str()]),
        });
        if let Some(map) = maps.last_mut() {
            map.insert(key, text);
        }
    }
    let maps = maps.into_iter().enumerate();
    maps.map(|(number, data)| ConfigMap {
        metadata: owned(
            registry,
            names::schemas_config_map(&registry.name_any(), number),
            labels(COMPONENT, &registry.name_any()),
        ),
        data: Some(data),
        ..ConfigMap::default()
    })
    .collect()
}

/// A tool with what was moved, as far as it is still there.
pub(super) fn restore(tool: &DiscoveredTool, maps: &[Arc<ConfigMap>]) -> DiscoveredTool {
    let mut tool = tool.clone();
    tool.last_checked = None;
    let Some(reference) = tool.schema_ref.take() else { return tool };
    let map = maps.iter().find(|map| map.name_any() == reference.config_map);
    let text = map.and_then(|map| map.data.as_ref()?.get(&reference.key));
    if let Some(details) = text.and_then(|text| serde_json::from_str::<Details>(text).ok()) {
        (tool.description, tool.operation) = (details.description, details.operation);
        (tool.input_schema, tool.output_schema) = (details.input_schema, details.output_schema);
    }
    tool
}

/// What would move. A tool whose name another has is not called, and so not described.
fn text(tool: &DiscoveredTool) -> Option<String> {
    if tool.reason.as_deref() == Some("DuplicateName") || tool.input_schema.is_none() {
        return None;
    }
    let details = Details {
        description: tool.description.clone(),
        operation: tool.operation.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
    };
    Some(serde_json::to_string(&details).expect("details are plain data"))
}

fn shorten(tool: &mut DiscoveredTool) {
    (tool.input_schema, tool.output_schema, tool.operation) = (None, None, None);
    if let Some(words) = &mut tool.description
        && words.chars().count() > WORDS_LEFT
    {
        *words = words.chars().take(WORDS_LEFT - 1).chain(['…']).collect();
    }
}
