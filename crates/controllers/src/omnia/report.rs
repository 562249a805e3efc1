//! How failures of every kind here are told.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A failure for the status: the condition, its reason, the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) condition: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Something exists and is not ready yet, as against something that is wrong or missing.
    pub(super) waiting: bool,
}

impl Fault {
    /// Wrong or missing: nothing is tried until something changes.
    pub(super) fn permanent(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, reason, message: message.into(), waiting: false }
    }

    /// There, but not ready: looked at on its change, and after 30 s at the latest.
    pub(super) fn waiting(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { waiting: true, ..Self::permanent(condition, reason, message) }
    }
}

/// Whether a condition says something that it did not say before.
pub(super) fn is_news(conditions: &[Condition], type_: &str, message: &str) -> bool {
    engine::condition::find(conditions, type_).is_none_or(|known| known.message != message)
}
