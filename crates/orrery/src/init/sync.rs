//! `git-sync`: a sidecar that keeps a clone at what its reference is now.

use std::time::Duration;

use anyhow::Context as _;

use super::{git::Clone, variable};
use crate::style;

pub fn run() -> anyhow::Result<()> {
    let interval = variable("GIT_SYNC_INTERVAL").unwrap_or_else(|| "300".into());
    let seconds =
        interval.parse().with_context(|| format!("GIT_SYNC_INTERVAL is {interval:?}, which is not a number"))?;
    let clone = Clone::from_environment()?;
    loop {
        // A remote that cannot be reached now may be in a while; what is there stays as it is.
        if let Err(error) = clone.update() {
            style::say(format_args!("not updated: {error:#}"));
        }
        std::thread::sleep(Duration::from_secs(seconds));
    }
}
