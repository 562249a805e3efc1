//! The parts of a running plane: started together, stopped together.

use std::future::Future;
use std::time::Duration;

use anyhow::anyhow;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A part that does not stop within this time is cut off.
const PATIENCE: Duration = Duration::from_secs(20);

/// Running parts. When one ends before it was asked to, all stop.
pub struct Parts {
    running: JoinSet<(&'static str, anyhow::Result<()>)>,
    stop: CancellationToken,
}

impl Parts {
    pub fn new(stop: CancellationToken) -> Self {
        Self { running: JoinSet::new(), stop }
    }

    /// Starts a part; it should end soon after its token is cancelled.
    pub fn add<F>(&mut self, name: &'static str, part: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let part = part(self.stop.clone());
        self.running.spawn(async move { (name, part.await) });
    }

    /// Runs until `asked` completes or a part ends by itself, then stops the others.
    pub async fn run_until(mut self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let early = tokio::select! {
            () = asked => None,
            ended = self.running.join_next() => ended.map(outcome),
        };
        self.stop.cancel();
        let rest = async {
            let mut failed = None;
            while let Some(ended) = self.running.join_next().await {
                if let (name, Err(error)) = outcome(ended) {
                    tracing::error!(part = name, error = format!("{error:#}"), "did not stop cleanly");
                    failed.get_or_insert((name, error));
                }
            }
            failed
        };
        let failed = if let Ok(failed) = tokio::time::timeout(PATIENCE, rest).await {
            failed
        } else {
            tracing::warn!("some parts did not stop in time; they are cut off");
            self.running.shutdown().await;
            None
        };
        match (early, failed) {
            (Some((name, Ok(()))), _) => Err(anyhow!("{name} ended by itself")),
            (Some((name, Err(error))), _) | (None, Some((name, error))) => Err(error.context(format!("{name} failed"))),
            (None, None) => Ok(()),
        }
    }
}

/// A panic is a failure like any other, only that we do not know whose.
fn outcome(
    joined: Result<(&'static str, anyhow::Result<()>), tokio::task::JoinError>,
) -> (&'static str, anyhow::Result<()>) {
    joined.unwrap_or_else(|error| ("a part", Err(anyhow!(error))))
}
