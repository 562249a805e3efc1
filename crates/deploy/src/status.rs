use serde::Serialize;

use crate::failure::Failure;
use crate::resource::Key;
use crate::state::State;
use crate::target::Target;

/// Whether a resource works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does; a remark, if there is one.
    Healthy(String),
    /// It does not, or not yet; why.
    Unhealthy(String),
}

/// A resource and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceStatus {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// `healthy`, `unhealthy` or `missing`.
    pub status: &'static str,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// How the whole is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overall {
    /// All of it works.
    Deployed,
    /// There is nothing.
    NotDeployed,
    /// Some of it does not work.
    Degraded,
}

/// How everything is.
#[derive(Clone, Debug, Serialize)]
pub struct StatusReport {
    /// The whole.
    pub status: Overall,
    /// The parts.
    pub resources: Vec<ResourceStatus>,
    /// The state without what is gone.
    #[serde(skip)]
    pub state: State,
}

/// Looks at everything that the state knows. What is gone, or was replaced by another object, leaves the state.
pub async fn status(target: &dyn Target, mut state: State) -> Result<StatusReport, Failure> {
    state.belongs(&target.scope())?;
    let live = if state.resources.is_empty() { Vec::new() } else { target.observe(&[], &state.resources).await? };
    let mut resources = Vec::new();
    let before = state.resources.clone();
    for resource in &before {
        let key = &resource.key;
        if !target.types().contains(&key.type_.as_str()) {
            let detail = "of a type that this version does not know".to_owned();
            resources.push(ResourceStatus { key: key.clone(), status: "unhealthy", detail });
            continue;
        }
        let found = live.iter().find(|live| live.key == *key);
        let same = found.filter(|live| resource.uid.as_ref().is_none_or(|uid| *uid == live.uid));
        let (status, detail) = match (same, found) {
            (Some(live), _) => match target.health(live) {
                Health::Healthy(detail) => ("healthy", detail),
                Health::Unhealthy(detail) => ("unhealthy", detail),
            },
            (None, Some(_)) => ("missing", "another object has taken its name".to_owned()),
            (None, None) => ("missing", String::new()),
        };
        match same {
            Some(live) => {
                let entry = state.entry(key);
                entry.resource_version = Some(live.resource_version.clone());
            }
            None => state.forget(key),
        }
        resources.push(ResourceStatus { key: key.clone(), status, detail });
    }
    if state.resources.len() != before.len() {
        state.serial += 1;
    }
    let status = match resources.iter().all(|resource| resource.status == "healthy") {
        _ if resources.is_empty() => Overall::NotDeployed,
        true => Overall::Deployed,
        false => Overall::Degraded,
    };
    Ok(StatusReport { status, resources, state })
}
