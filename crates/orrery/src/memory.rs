//! What a start needs and nobody needs afterwards.

use std::time::Duration;

/// After so long everything that only a start needs has run.
const STARTED: Duration = Duration::from_secs(2);

/// Gives the pages of code that only the start has run back to the kernel, when it is over.
pub fn give_back_after_start() {
    tokio::spawn(async {
        tokio::time::sleep(STARTED).await;
        if let Err(error) = node::code::give_back() {
            tracing::debug!(%error, "the memory of the program's start could not be given back");
        }
    });
}
