//! Filters, order and pages of a list. Pure.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::kinds::Kind;
use crate::resources::Output;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;

/// What a list may be asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListQuery {
    /// Part of the name, in any case.
    pub name: Option<String>,
    /// Phases, separated by commas.
    pub phase: Option<String>,
    /// Name of the agent a Task runs on.
    pub agent: Option<String>,
    /// A Kubernetes label selector.
    pub label_selector: Option<String>,
    /// How many, 20 unless told, 500 at most.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
    /// `asc` or `desc` by creation; `desc` unless told.
    pub sort_order: Option<SortOrder>,
    /// `json` or `yaml`.
    pub output: Option<Output>,
}

/// By creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortOrder {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// One object of a list: what filters and order look at, and the whole as it was written.
pub struct Row<'a> {
    name: String,
    namespace: String,
    created: String,
    phase: Option<String>,
    agent: Option<String>,
    whole: &'a RawValue,
}

#[derive(Deserialize)]
struct Light {
    metadata: LightMetadata,
    #[serde(default)]
    spec: LightSpec,
    #[serde(default)]
    status: LightStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LightMetadata {
    name: String,
    namespace: String,
    creation_timestamp: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LightSpec {
    agent_ref: Option<LightReference>,
}

#[derive(Deserialize)]
struct LightReference {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LightStatus {
    phase: Option<String>,
}

impl<'a> Row<'a> {
    /// Reads only what is needed.
    pub fn read(whole: &'a RawValue) -> serde_json::Result<Self> {
        let Light { metadata, spec, status } = serde_json::from_str(whole.get())?;
        Ok(Self {
            name: metadata.name,
            namespace: metadata.namespace,
            created: metadata.creation_timestamp,
            phase: status.phase,
            agent: spec.agent_ref.map(|agent| agent.name),
            whole,
        })
    }

    fn matches(&self, query: &ListQuery) -> bool {
        let by_name = query.name.as_ref().is_none_or(|part| self.name.contains(&part.to_lowercase()));
        let by_phase = query.phase.as_ref().is_none_or(|phases| {
            // An object that the controller has not seen yet waits for it.
            let phase = self.phase.as_deref().unwrap_or("Pending");
            phases.split(',').any(|wanted| wanted.trim().eq_ignore_ascii_case(phase))
        });
        let by_agent = query.agent.as_ref().is_none_or(|agent| self.agent.as_ref() == Some(agent));
        by_name && by_phase && by_agent
    }
}

/// A page of views under the key of the kind, with its place in the whole.
pub fn page(rows: &[Row], query: &ListQuery, kind: &Kind) -> Result<Value> {
    let mut chosen: Vec<&Row> = rows.iter().filter(|row| row.matches(query)).collect();
    // By creation, then by name, so that pages do not overlap when many were created in one second.
    chosen.sort_by_key(|row| (&row.created, &row.namespace, &row.name));
    if query.sort_order != Some(SortOrder::Asc) {
        chosen.reverse();
    }
    let total = chosen.len();
    let offset = query.offset.unwrap_or(0).min(total);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let on_page = chosen.into_iter().skip(offset).take(limit);
    let items = on_page
        .map(|row| Ok((kind.view)(&serde_json::from_str(row.whole.get())?)))
        .collect::<serde_json::Result<Vec<Value>>>()
        .map_err(|error| Error::bad_request(error.to_string()))?;
    let has_more = offset + items.len() < total;
    Ok(json!({
        kind.list_key: items,
        "total": total,
        "pagination": {"limit": limit, "offset": offset, "totalCount": total, "hasMore": has_more},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(count: usize) -> String {
        let task = |index: usize| {
            let phase = if index.is_multiple_of(2) { "Running" } else { "Failed" };
            json!({
                "metadata": {"name": format!("task-{index}"), "creationTimestamp": format!("2026-01-01T00:00:{index:02}Z")},
                "spec": {"agentRef": {"name": "reviewer"}, "description": "a"},
                "status": {"phase": phase},
            })
        };
        Value::from((0..count).map(task).collect::<Vec<_>>()).to_string()
    }

    fn ask(count: usize, query: &ListQuery) -> Value {
        let text = tasks(count);
        let objects: Vec<&RawValue> = serde_json::from_str(&text).expect("a list");
        let rows: Vec<Row> = objects.into_iter().map(|object| Row::read(object).expect("a Task")).collect();
        page(&rows, query, Kind::by_plural("tasks").expect("tasks are in the table")).expect("a page")
    }

    #[test]
    fn pages_cover_everything_once_and_newest_first() {
        let mut seen = Vec::new();
        for offset in [0, 20, 40] {
            let page = ask(45, &ListQuery { offset: Some(offset), ..ListQuery::default() });
            assert_eq!(page["pagination"]["hasMore"], offset < 40);
            seen.extend(page["tasks"].as_array().expect("a list").clone());
        }
        assert_eq!(seen.len(), 45);
        assert_eq!(seen[0]["name"], "task-44");
        assert_eq!(seen[44]["name"], "task-0");
    }

    #[test]
    fn filters_combine() {
        let query = ListQuery {
            name: Some("TASK-1".to_owned()),
            phase: Some("failed, Completed".to_owned()),
            agent: Some("reviewer".to_owned()),
            ..ListQuery::default()
        };
        let page = ask(12, &query);
        assert_eq!(page["total"], 2);
        assert_eq!(page["tasks"][0]["name"], "task-11");
        assert_eq!(ask(12, &ListQuery { agent: Some("other".to_owned()), ..ListQuery::default() })["total"], 0);
    }
}
