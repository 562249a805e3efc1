//! What the operator of the platform decides, and which image runs where.

use std::sync::Arc;
use std::time::Duration;

use api::omnia::AgentRuntimeSpec;

use super::tool_registry::discover::{Asker, Discover};
use super::tool_registry::reach::{Network, Reach};
use crate::ask::{Ask, Nobody};

/// The facade that upstream publishes.
pub const FACADE: &str = "ghcr.io/altairalabs/omnia-facade:latest";
/// The runtime that upstream publishes.
pub const RUNTIME: &str = "ghcr.io/altairalabs/omnia-runtime:latest";

/// What the operator of the platform decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Image of facades, unless the resource names another.
    pub facade_image: Option<String>,
    /// Image of runtimes, unless the resource names another.
    pub framework_image: Option<String>,
    /// An image with our own program, which serves as both where no other image is named.
    pub own_image: Option<String>,
    /// An image with our own program, which serves as the router of a canary.
    pub router_image: Option<String>,
    /// The cluster's own DNS domain.
    pub cluster_domain: String,
    /// How often it is asked whether tools outside of the cluster can be reached, and what servers have.
    pub recheck: Duration,
    /// How the first is asked.
    pub reach: Arc<dyn Reach>,
    /// How the second is asked.
    pub discover: Arc<dyn Discover>,
    /// How routers and agents are asked what they do.
    pub ask: Arc<dyn Ask>,
    /// How time goes in a canary.
    pub pace: Pace,
}

/// How time goes in a canary.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often routers are asked what they measured.
    pub poll: Duration,
    /// How long it takes until nobody connects to where a Service led before.
    pub settle: Duration,
    /// How long requests and streams that are under way are waited for.
    pub drain: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { poll: Duration::from_secs(5), settle: Duration::from_secs(5), drain: Duration::from_mins(10) }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            facade_image: None,
            framework_image: None,
            own_image: None,
            router_image: None,
            cluster_domain: "cluster.local".into(),
            recheck: Duration::from_mins(1),
            reach: Arc::new(Network::default()),
            discover: Arc::new(Asker::new(None)),
            ask: Arc::new(Nobody),
            pace: Pace::default(),
        }
    }
}

/// An image, and whether it is our own program that runs from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its name.
    pub name: String,
    /// Whether our own program runs from it.
    pub own: bool,
}

impl Settings {
    /// What clients of an agent talk to.
    pub fn facade(&self, spec: &AgentRuntimeSpec) -> Image {
        self.choose(spec.facade.image.as_ref(), self.facade_image.as_ref(), FACADE)
    }

    /// What thinks for an agent. A version is the tag of an image that is not our own.
    pub fn runtime(&self, spec: &AgentRuntimeSpec) -> Image {
        let framework = spec.framework.as_ref();
        let named = framework.and_then(|framework| framework.image.as_ref());
        let mut image = self.choose(named, self.framework_image.as_ref(), RUNTIME);
        if let (None, false, Some(version)) =
            (named, image.own, framework.and_then(|framework| framework.version.as_ref()))
        {
            image.name = with_tag(&image.name, version);
        }
        image
    }

    fn choose(&self, named: Option<&String>, flag: Option<&String>, published: &str) -> Image {
        match (named.or(flag), &self.own_image) {
            (Some(name), _) => Image { name: name.clone(), own: false },
            (None, Some(own)) => Image { name: own.clone(), own: true },
            (None, None) => Image { name: published.into(), own: false },
        }
    }
}

/// An image under another tag; a digest is no longer true then.
fn with_tag(image: &str, tag: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let repository = match name.rsplit_once(':') {
        // A colon before the last slash belongs to the registry's port.
        Some((repository, rest)) if !rest.contains('/') => repository,
        _ => name,
    };
    format!("{repository}:{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_replaces_a_tag_and_nothing_else() {
        assert_eq!(with_tag("ghcr.io/a/b:latest", "1.2"), "ghcr.io/a/b:1.2");
        assert_eq!(with_tag("registry:5000/a/b", "1.2"), "registry:5000/a/b:1.2");
        assert_eq!(with_tag("a/b:1@sha256:00", "2"), "a/b:2");
    }
}
