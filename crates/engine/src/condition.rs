//! Conditions that `kubectl wait` can use: one of each type, a transition time that moves only when the status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The three values a condition can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be said.
    Unknown,
}

impl Truth {
    /// As written in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Conditions of one object at one generation and moment.
#[derive(Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the conditions an object has now.
    pub fn new(current: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self { list: current.to_vec(), generation, now }
    }

    /// Sets a condition; the transition time stays unless the status changes.
    pub fn set(
        &mut self,
        type_: &str,
        status: impl Into<Truth>,
        reason: &str,
        message: impl Into<String>,
    ) -> &mut Self {
        let status = status.into().as_str();
        let mut condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            observed_generation: self.generation,
            last_transition_time: Time(self.now),
        };
        match self.list.iter_mut().find(|present| present.type_ == type_) {
            Some(present) => {
                if present.status == status {
                    condition.last_transition_time = present.last_transition_time.clone();
                }
                *present = condition;
            }
            None => self.list.push(condition),
        }
        self
    }

    /// Removes a condition that no longer says anything.
    pub fn remove(&mut self, type_: &str) -> &mut Self {
        self.list.retain(|present| present.type_ != type_);
        self
    }

    /// The finished list.
    pub fn finish(self) -> Vec<Condition> {
        self.list
    }
}

/// The condition of a type, if the object has it.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a condition is there and true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
        let later: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a timestamp");
        let mut conditions = Conditions::new(&[], Some(1), first);
        conditions.set("Ready", false, "Starting", "starts");
        let list = conditions.finish();

        let mut conditions = Conditions::new(&list, Some(2), later);
        conditions.set("Ready", false, "StillStarting", "starts");
        let list = conditions.finish();
        assert_eq!(list[0].last_transition_time, Time(first));
        assert_eq!(list[0].observed_generation, Some(2));
        assert_eq!(list[0].reason, "StillStarting");

        let mut conditions = Conditions::new(&list, Some(2), later);
        conditions.set("Ready", true, "Up", "serves");
        let list = conditions.finish();
        assert_eq!(list[0].last_transition_time, Time(later));
        assert!(is_true(&list, "Ready"));
    }
}
