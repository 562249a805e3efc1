//! Which files an image name stands for on this machine.

pub mod store;

use std::path::{Path, PathBuf};

use store::Store;

/// Images that are this machine's own files unless the user says otherwise: the platform's.
const PLATFORM: &[&str] = &["quay.io/kubeopencode/*", "ghcr.io/kubeopencode/*"];

/// A rule of `--image-map PATTERN=host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: String,
}

impl std::str::FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((pattern, "host")) if !pattern.is_empty() => Ok(Self { pattern: pattern.to_owned() }),
            Some((_, "host")) => Err("the pattern before =host is empty".to_owned()),
            _ => Err(format!("{text}: write PATTERN=host, for example ghcr.io/acme/*=host")),
        }
    }
}

/// An image that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// This machine's own files.
    Host,
    /// Imported.
    Imported(Imported),
}

/// An imported image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Its id.
    pub id: String,
    /// Its layers, top first.
    pub layers: Vec<PathBuf>,
    /// What it runs when the container does not say.
    pub entrypoint: Vec<String>,
    /// Arguments when the container does not say.
    pub arguments: Vec<String>,
    /// Environment.
    pub environment: Vec<(String, String)>,
    /// Where it starts.
    pub working_directory: Option<String>,
    /// `user[:group]`, in numbers.
    pub user: Option<(u32, u32)>,
}

/// The images of this machine.
#[derive(Clone, Debug, Default)]
pub struct Images {
    rules: Vec<Rule>,
    store: Option<Store>,
}

impl Images {
    /// With the user's rules, and what was imported below the node's data directory.
    pub fn new(rules: Vec<Rule>, data: &Path) -> Self {
        Self { rules, store: Some(Store::new(data)) }
    }

    /// Whether an image stands for this machine's own files.
    pub fn are_own_files(&self, name: &str) -> bool {
        let mut patterns = self.rules.iter().map(|rule| rule.pattern.as_str()).chain(PLATFORM.iter().copied());
        name == "host" || patterns.any(|pattern| matches(pattern, name))
    }

    /// Finds an image, or says in words what the user can do.
    pub fn find(&self, name: &str) -> Result<Image, String> {
        if self.are_own_files(name) {
            return Ok(Image::Host);
        }
        if let Some(image) = self.store.as_ref().and_then(|store| store.find(name)) {
            return Ok(Image::Imported(image));
        }
        Err(format!(
            "image \"{name}\" is not on this machine: import it with `orrery image import FILE`, or run it from this \
             machine's own files with `orrery up --image-map '{name}=host'`"
        ))
    }
}

/// Whether `name` fits a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("quay.io/kubeopencode/*", "quay.io/kubeopencode/agent:1"));
        assert!(matches("*", "anything"));
        assert!(matches("a*c*e", "abcde"));
        assert!(!matches("a*c*e", "abde"));
        assert!(matches("busybox", "busybox"));
        assert!(!matches("busybox", "busybox:1"));
    }

    #[test]
    fn the_platforms_images_and_those_that_are_mapped_are_own_files() {
        let images = Images { rules: vec!["ghcr.io/acme/*=host".parse().expect("a rule")], store: None };
        assert!(images.are_own_files("quay.io/kubeopencode/agent:1") && images.are_own_files("ghcr.io/acme/tool"));
        assert!(!images.are_own_files("docker.io/library/debian:13"));
    }

    #[test]
    fn a_missing_image_names_the_command_that_helps() {
        let words = Images::default().find("busybox:1").expect_err("it is not there");
        assert!(words.contains("orrery image import") && words.contains("busybox:1=host"), "{words}");
    }
}
