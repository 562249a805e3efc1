//! One rule of a role, and when it covers a request or another rule.

use serde::{Deserialize, Deserializer, Serialize};

use crate::attributes::Attributes;

const ANY: &str = "*";

/// One rule: all of its verbs on all of its resources (or paths).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// What may be done.
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<String>,
    /// API groups; the empty string is the core group.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale` or `*`.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Only objects of these names; any, when empty.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are no resource; a final `*` stands for any rest.
    #[serde(rename = "nonResourceURLs", deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// An absent list and `null` are both empty.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|entry| entry == ANY || entry == word)
}

impl Rule {
    /// A rule that covers everything: what one must hold to aggregate roles one does not know.
    pub(crate) fn everything() -> [Self; 2] {
        let any = || vec![ANY.to_owned()];
        [
            Self { verbs: any(), api_groups: any(), resources: any(), ..Self::default() },
            Self { verbs: any(), non_resource_urls: any(), ..Self::default() },
        ]
    }

    /// Whether the rule allows the request.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        if !has(&self.verbs, request.verb) {
            return false;
        }
        if request.resource.is_empty() {
            return self.non_resource_urls.iter().any(|pattern| path_matches(pattern, request.path));
        }
        has(&self.api_groups, request.group)
            && self.resources.iter().any(|entry| resource_matches(entry, request.resource, request.subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == request.name))
    }

    /// Whether everything `wanted` allows is allowed by one of `held` as well.
    pub fn all_covered(held: &[&Self], wanted: &Self) -> bool {
        wanted.atoms().iter().all(|atom| held.iter().any(|rule| rule.covers(atom)))
    }

    /// The rule as rules with one verb, group, resource and name each.
    fn atoms(&self) -> Vec<Self> {
        let one = |word: &String| vec![word.clone()];
        let mut atoms = Vec::new();
        for verb in &self.verbs {
            for url in &self.non_resource_urls {
                atoms.push(Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() });
            }
            for group in &self.api_groups {
                for resource in &self.resources {
                    let atom =
                        Self { verbs: one(verb), api_groups: one(group), resources: one(resource), ..Self::default() };
                    if self.resource_names.is_empty() {
                        atoms.push(atom);
                    } else {
                        atoms.extend(
                            self.resource_names.iter().map(|name| Self { resource_names: one(name), ..atom.clone() }),
                        );
                    }
                }
            }
        }
        atoms
    }

    /// Whether this rule covers one atom.
    fn covers(&self, atom: &Self) -> bool {
        if !atom.verbs.iter().all(|verb| has(&self.verbs, verb)) {
            return false;
        }
        if let Some(url) = atom.non_resource_urls.first() {
            return self.non_resource_urls.iter().any(|pattern| path_matches(pattern, url));
        }
        atom.api_groups.iter().all(|group| has(&self.api_groups, group))
            && atom.resources.iter().all(|wanted| {
                let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
                self.resources.iter().any(|entry| resource_matches(entry, resource, subresource))
            })
            && (self.resource_names.is_empty()
                || (!atom.resource_names.is_empty()
                    && atom.resource_names.iter().all(|name| self.resource_names.contains(name))))
    }
}

/// `pods` is only pods, `pods/log` only their logs, `*/scale` every scale, `*` everything.
fn resource_matches(entry: &str, resource: &str, subresource: &str) -> bool {
    if entry == ANY {
        return true;
    }
    match entry.split_once('/') {
        None => subresource.is_empty() && entry == resource,
        Some((of, below)) => !subresource.is_empty() && below == subresource && (of == ANY || of == resource),
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix(ANY) {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}
