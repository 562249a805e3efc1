//! What the operator decides about Tasks and agents: the same options wherever controllers run.

use std::path::PathBuf;
use std::time::Duration;

use controllers::logs::Archive;

/// The options.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "policy")]
pub struct Options {
    /// How long a Pod may fail to get its image, or to start at all, before its Task fails.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION")]
    image_patience: Duration,
    /// How long a Task waits for an Agent, a template or a ConfigMap that is not there (yet).
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    dependency_patience: Duration,
    /// Objects of one kind that are worked on at the same time; by default 1, and 4 with `orrery up`, where several
    /// writes reach the disk together.
    #[arg(long, value_name = "COUNT")]
    workers: Option<usize>,
    /// Where logs are kept before their Pod is deleted.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Image of what clients of an agent with a pack talk to, unless the resource names another.
    #[arg(long, value_name = "IMAGE")]
    facade_image: Option<String>,
    /// Image of what thinks for an agent with a pack, unless the resource names another.
    #[arg(long, value_name = "IMAGE")]
    framework_image: Option<String>,
}

impl Options {
    /// As the controllers take them; what the operator does not name is as usual.
    pub fn controllers(&self, usual: Usual) -> controllers::Options {
        let mut options = controllers::Options::default();
        options.policy.image_patience = self.image_patience;
        options.policy.dependency_patience = self.dependency_patience;
        options.engine.workers = self.workers.unwrap_or(usual.workers);
        options.omnia.facade_image.clone_from(&self.facade_image);
        options.omnia.framework_image.clone_from(&self.framework_image);
        options.logs = self.log_dir.clone().or(usual.logs).map(|directory| Archive { directory });
        options
    }
}

/// What the operator need not name.
pub struct Usual {
    /// Where logs go.
    pub logs: Option<PathBuf>,
    /// Objects of one kind that are worked on at the same time.
    pub workers: usize,
}

/// A duration as Kubernetes writes it.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = api::duration::Duration(text.to_owned()).parse().map_err(|error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| format!("{text} is in the past"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        policy: Options,
    }

    fn chosen(flags: &[&str]) -> controllers::Options {
        let words = std::iter::once("orrery").chain(flags.iter().copied());
        let line = Line::try_parse_from(words).expect("flags that there are");
        line.policy.controllers(Usual { logs: None, workers: 1 })
    }

    #[test]
    fn flags_reach_the_controllers() {
        let facts = |options: controllers::Options| {
            (options.engine.workers, options.omnia.facade_image, options.omnia.framework_image)
        };
        assert_eq!(facts(chosen(&[])), (1, None, None));
        let flags = ["--workers", "7", "--facade-image", "f", "--framework-image", "r"];
        assert_eq!(facts(chosen(&flags)), (7, Some("f".into()), Some("r".into())));
    }
}
