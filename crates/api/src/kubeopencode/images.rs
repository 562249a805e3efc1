//! Which image runs where.

use super::Blueprint;

/// Copies the agent's binary to `/tools`.
pub const AGENT: &str = "quay.io/kubeopencode/kubeopencode-agent-opencode:latest";
/// Runs the agent, with a development environment.
pub const EXECUTOR: &str = "quay.io/kubeopencode/kubeopencode-agent-devbox:latest";
/// Attaches to a running agent.
pub const ATTACH: &str = "quay.io/kubeopencode/kubeopencode-agent-attach:latest";
/// Prepares contexts: `git-init`, `context-init`, `url-fetch`.
pub const SYSTEM: &str = "quay.io/kubeopencode/kubeopencode:latest";

/// The three images of an Agent or a template, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Init container that brings the agent's binary.
    pub agent: String,
    /// The container that does the work.
    pub executor: String,
    /// The Pod of a Task that attaches to an Agent.
    pub attach: String,
}

impl Images {
    /// Resolves the images of a blueprint. An `agentImage` without an `executorImage` is the older way to name the
    /// executor; the binary then comes from the default image.
    pub fn of(blueprint: &Blueprint) -> Self {
        let set = |image: &Option<String>| image.clone().filter(|name| !name.is_empty());
        let (agent, executor) = match (set(&blueprint.agent_image), set(&blueprint.executor_image)) {
            (Some(legacy), None) => (AGENT.into(), legacy),
            (agent, executor) => (agent.unwrap_or_else(|| AGENT.into()), executor.unwrap_or_else(|| EXECUTOR.into())),
        };
        Self { agent, executor, attach: set(&blueprint.attach_image).unwrap_or_else(|| ATTACH.into()) }
    }
}

/// When to pull an image that has no policy of its own: a digest never changes, `latest` may, another tag should not.
pub fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    // A colon before the last slash belongs to the registry's port.
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        None | Some((_, "latest" | "")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(agent: Option<&str>, executor: Option<&str>) -> (String, String) {
        let blueprint = Blueprint {
            agent_image: agent.map(Into::into),
            executor_image: executor.map(Into::into),
            ..Blueprint::default()
        };
        let images = Images::of(&blueprint);
        (images.agent, images.executor)
    }

    #[test]
    fn an_agent_image_alone_is_the_executor() {
        assert_eq!(images(Some("a"), None), (AGENT.into(), "a".into()));
        assert_eq!(images(Some("a"), Some("e")), ("a".into(), "e".into()));
        assert_eq!(images(None, Some("e")), (AGENT.into(), "e".into()));
        assert_eq!(images(None, None), (AGENT.into(), EXECUTOR.into()));
    }

    #[test]
    fn only_what_can_change_is_pulled_every_time() {
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("registry:5000/busybox", "Always"),
            ("registry:5000/busybox:1.36", "IfNotPresent"),
            ("busybox@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
