use serde::Serialize;

use crate::resource::Key;

/// What kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Work begins on something.
    Progress,
    /// Something was done with a resource.
    Resource,
    /// Something failed.
    Error,
    /// All is done.
    Complete,
}

/// News of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceEvent {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// `CREATE`, `UPDATE`, `DELETE`, …
    pub action: crate::Action,
    /// `created`, `updated`, `deleted`, `unchanged`, `planned` or `failed`.
    pub status: &'static str,
    /// More about it: its uid, or why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// News of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What kind.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// What happened. Progress ends with its share of the whole: ` (40%)`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The resource that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceEvent>,
    /// How far the whole is, in hundredths.
    #[serde(skip)]
    pub percent: Option<usize>,
}

impl Event {
    pub(crate) fn progress(message: &str, percent: usize) -> Self {
        let message = format!("{message} ({percent}%)");
        Self { kind: EventKind::Progress, message, resource: None, percent: Some(percent) }
    }

    pub(crate) fn note(message: String) -> Self {
        Self { kind: EventKind::Progress, message, resource: None, percent: None }
    }

    pub(crate) fn complete(message: String) -> Self {
        Self { kind: EventKind::Complete, message, resource: None, percent: Some(100) }
    }

    pub(crate) fn error(message: String, resource: Option<ResourceEvent>) -> Self {
        Self { kind: EventKind::Error, message, resource, percent: None }
    }

    pub(crate) fn resource(message: String, resource: ResourceEvent) -> Self {
        Self { kind: EventKind::Resource, message, resource: Some(resource), percent: None }
    }
}

/// Someone who wants the news as it comes.
pub trait Report: Sync {
    /// Something happened.
    fn event(&self, event: Event);
}

/// Nobody does.
pub struct Quiet;

impl Report for Quiet {
    fn event(&self, _: Event) {}
}
