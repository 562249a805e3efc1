//! Differences that are meant, each with its reason.

use std::path::Path;

use serde::Deserialize;

use crate::compare::Difference;

/// One meant difference. `*` in a pattern stands for anything.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Names its section in `docs/differences.md`.
    id: String,
    #[serde(default = "anything")]
    scenario: String,
    #[serde(default = "anything")]
    request: String,
    at: String,
    /// Only where the real server answers with this status.
    kubernetes: Option<u16>,
    /// Only where ours answers with this status.
    embedded: Option<u16>,
    #[serde(skip)]
    used: bool,
}

fn anything() -> String {
    "*".to_owned()
}

/// The list.
pub struct Allowed(Vec<Entry>);

impl Allowed {
    pub fn load() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/differences.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        Self(serde_saphyr::from_str(&text).unwrap())
    }

    /// `statuses` are those of the real server's answer and of ours.
    pub fn covers(&mut self, scenario: &str, request: &str, statuses: (u16, u16), difference: &Difference) -> bool {
        let mut covered = false;
        for entry in &mut self.0 {
            if entry.kubernetes.is_none_or(|status| status == statuses.0)
                && entry.embedded.is_none_or(|status| status == statuses.1)
                && matches(&entry.scenario, scenario)
                && matches(&entry.request, request)
                && matches(&entry.at, &difference.place)
            {
                entry.used = true;
                covered = true;
            }
        }
        covered
    }

    pub fn unused(&self) -> Vec<String> {
        let unused = self.0.iter().filter(|entry| !entry.used);
        unused.map(|entry| format!("{} ({} · {} · {})", entry.id, entry.scenario, entry.request, entry.at)).collect()
    }

    /// Every entry is explained, and nothing else is.
    pub fn check_documentation(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences.md");
        let text = std::fs::read_to_string(path).unwrap();
        let explained: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        for entry in &self.0 {
            assert!(explained.contains(&entry.id.as_str()), "docs/differences.md does not explain {}", entry.id);
        }
        for id in explained {
            assert!(
                self.0.iter().any(|entry| entry.id == id),
                "docs/differences.md explains {id}, which is no difference"
            );
        }
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}
