//! Conversations, in memory.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

/// More than these at a time and the one that was silent longest goes.
const MOST: usize = 10_000;

/// Every conversation that is not over.
pub(crate) struct Sessions {
    life: Duration,
    known: Mutex<HashMap<String, Session>>,
}

struct Session {
    messages: Vec<Value>,
    last: Instant,
}

impl Sessions {
    pub(crate) fn new(life: Duration) -> Self {
        Self { life, known: Mutex::new(HashMap::new()) }
    }

    /// What was said so far.
    pub(crate) fn history(&self, id: &str) -> Vec<Value> {
        let known = self.known.lock();
        known
            .get(id)
            .filter(|session| session.last.elapsed() < self.life)
            .map(|s| s.messages.clone())
            .unwrap_or_default()
    }

    /// Whether it began here.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.known.lock().get(id).is_some_and(|session| session.last.elapsed() < self.life)
    }

    /// What was said so far, which is forgotten here: it goes on elsewhere.
    pub(crate) fn give_up(&self, id: &str) -> Option<Vec<Value>> {
        let given = self.known.lock().remove(id);
        given.filter(|session| session.last.elapsed() < self.life).map(|session| session.messages)
    }

    /// Adds what was said, by user, model and tools.
    pub(crate) fn remember(&self, id: &str, said: Vec<Value>) {
        let mut known = self.known.lock();
        known.retain(|_, session| session.last.elapsed() < self.life);
        if known.len() >= MOST
            && !known.contains_key(id)
            && let Some(oldest) = known.iter().min_by_key(|(_, session)| session.last).map(|(id, _)| id.clone())
        {
            known.remove(&oldest);
        }
        let session =
            known.entry(id.to_owned()).or_insert_with(|| Session { messages: Vec::new(), last: Instant::now() });
        session.messages.extend(said);
        session.last = Instant::now();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.known.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation_is_remembered_and_in_the_end_forgotten() {
        let sessions = Sessions::new(Duration::from_hours(1));
        sessions.remember("a", vec![json!(1)]);
        sessions.remember("a", vec![json!(2)]);
        assert_eq!((sessions.history("a"), sessions.history("b")), (vec![json!(1), json!(2)], Vec::new()));
        let short = Sessions::new(Duration::ZERO);
        short.remember("a", vec![json!(1)]);
        assert!(short.history("a").is_empty());
        assert_eq!((sessions.knows("a"), sessions.give_up("a").map(|said| said.len())), (true, Some(2)));
        assert_eq!((sessions.knows("a"), sessions.give_up("a")), (false, None), "only one side goes on");
        short.remember("b", vec![json!(1)]);
        assert_eq!(short.count(), 1, "those that are over take no room");
    }
}
