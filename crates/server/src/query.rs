//! Filters, order and pages of a list. Pure.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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

/// A page of views under `key`, with its place in the whole.
pub fn page(mut views: Vec<Value>, query: &ListQuery, key: &str) -> Value {
    views.retain(|view| matches(view, query));
    sort(&mut views, query.sort_order == Some(SortOrder::Asc));
    let total = views.len();
    let offset = query.offset.unwrap_or(0).min(total);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let items: Vec<Value> = views.into_iter().skip(offset).take(limit).collect();
    let has_more = offset + items.len() < total;
    json!({
        key: items,
        "total": total,
        "pagination": {"limit": limit, "offset": offset, "totalCount": total, "hasMore": has_more},
    })
}

fn matches(view: &Value, query: &ListQuery) -> bool {
    let name = view["name"].as_str().unwrap_or_default().to_lowercase();
    let by_name = query.name.as_ref().is_none_or(|part| name.contains(&part.to_lowercase()));
    let by_phase = query.phase.as_ref().is_none_or(|phases| {
        let phase = view["phase"].as_str().unwrap_or_default();
        phases.split(',').any(|wanted| wanted.trim().eq_ignore_ascii_case(phase))
    });
    let by_agent = query.agent.as_ref().is_none_or(|agent| view["agentRef"]["name"] == **agent);
    by_name && by_phase && by_agent
}

/// By creation, then by name, so that pages do not overlap when many were created in one second.
fn sort(views: &mut [Value], ascending: bool) {
    let key = |view: &Value| (text(view, "createdAt"), text(view, "namespace"), text(view, "name"));
    views.sort_by_cached_key(key);
    if !ascending {
        views.reverse();
    }
}

fn text(view: &Value, field: &str) -> String {
    view[field].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(count: usize) -> Vec<Value> {
        (0..count)
            .map(|index| json!({"name": format!("Task-{index}"), "phase": if index % 2 == 0 { "Running" } else { "Failed" }, "createdAt": format!("2026-01-01T00:00:{index:02}Z")}))
            .collect()
    }

    #[test]
    fn pages_cover_everything_once_and_newest_first() {
        let mut seen = Vec::new();
        for offset in [0, 20, 40] {
            let page = page(tasks(45), &ListQuery { offset: Some(offset), ..ListQuery::default() }, "tasks");
            assert_eq!(page["pagination"]["hasMore"], offset < 40);
            seen.extend(page["tasks"].as_array().expect("a list").clone());
        }
        assert_eq!(seen.len(), 45);
        assert_eq!(seen[0]["name"], "Task-44");
        assert_eq!(seen[44]["name"], "Task-0");
    }

    #[test]
    fn filters_combine() {
        let query = ListQuery {
            name: Some("task-1".to_owned()),
            phase: Some("failed, Completed".to_owned()),
            ..ListQuery::default()
        };
        let page = page(tasks(12), &query, "tasks");
        assert_eq!(page["total"], 2);
        assert_eq!(page["tasks"][0]["name"], "Task-11");
    }
}
