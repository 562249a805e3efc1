use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Key;

/// What is to be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// It is not there and should be.
    Create,
    /// It is there and should be different.
    Update,
    /// It is there and should not be.
    Delete,
    /// It is as it should be.
    NoChange,
    /// We wrote it as it should be, and someone else changed it: it is put back.
    Drift,
}

impl Action {
    /// The sign in front of a line.
    pub fn sign(self) -> char {
        match self {
            Self::Create => '+',
            Self::Update => '~',
            Self::Delete => '-',
            Self::NoChange => ' ',
            Self::Drift => '!',
        }
    }

    /// The word at the end of a line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::NoChange => "NoChange",
            Self::Drift => "Drift",
        }
    }

    /// Whether something is written.
    pub fn writes(self) -> bool {
        self != Self::NoChange
    }
}

/// One field that a write would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Where: `spec.runtime.replicas`.
    pub path: String,
    /// What is there; nothing when the field is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What will be there; nothing when the field is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Who set what is there, when it was not us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

impl FieldChange {
    /// In a line: `spec.version: "1.0.0" → "1.1.0"`, values cut after so many letters.
    pub fn line(&self, letters: usize) -> String {
        let shown = |value: &Value| {
            let text = value.to_string();
            match text.char_indices().nth(letters) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        let by = self.manager.as_ref().map(|manager| format!(" (set by {manager})")).unwrap_or_default();
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!("{}: {} → {}{by}", self.path, shown(before), shown(after)),
            (None, Some(after)) => format!("{}: added {}{by}", self.path, shown(after)),
            (Some(before), None) => format!("{}: removed {}{by}", self.path, shown(before)),
            (None, None) => self.path.clone(),
        }
    }
}

/// What is to be done with one resource, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// What.
    pub action: Action,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The fields that an update changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// What it should be; nothing for a delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What must be there first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Key>,
    /// The object that the plan was made for; nothing when it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It is there and did not work when last seen, so that apply looks again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsettled: bool,
}

/// One line: `~ configmap shop-packdata Update`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.action.sign(), self.key.type_, self.key.name, self.action.word())
    }
}

/// Everything that is to be done, and the state that it was decided on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of this format.
    pub format: u32,
    /// The history that the state belongs to.
    pub lineage: String,
    /// The state that the plan was made against; apply refuses any other.
    pub serial: u64,
    /// Where it is to be done.
    pub scope: String,
    /// Which pack.
    pub pack_id: String,
    /// Which version of it.
    pub version: String,
    /// Which of its deployments, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// What is to be done: writes phase by phase, then deletes.
    pub changes: Vec<Change>,
    /// What is worth knowing before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Plan {
    /// The version of the format that is written.
    pub const FORMAT: u32 = 1;

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.changes.iter().all(|change| !change.action.writes() && !change.unsettled)
    }

    /// How many resources get this action.
    pub fn count(&self, action: Action) -> usize {
        self.changes.iter().filter(|change| change.action == action).count()
    }

    /// `Plan: 1 to create, 2 to update, 0 to delete`, and what else there is.
    pub fn summary(&self) -> String {
        let mut text = format!(
            "Plan: {} to create, {} to update, {} to delete",
            self.count(Action::Create),
            self.count(Action::Update),
            self.count(Action::Delete)
        );
        for (action, word) in [(Action::Drift, "drifted"), (Action::NoChange, "unchanged")] {
            if self.count(action) > 0 {
                let _ = write!(text, ", {} {word}", self.count(action));
            }
        }
        text
    }
}
