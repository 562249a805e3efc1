//! Certificates of a plane that runs for years.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::pki::Pki;
use apiserver::tls;
use tokio_util::sync::CancellationToken;

use super::kubeconfig;

const EVERY: Duration = Duration::from_hours(12);

/// Renews certificates long before they end.
pub struct Renewal {
    pub folder: PathBuf,
    pub names: Vec<String>,
    pub address: SocketAddr,
    pub listener: tls::Renewal,
}

impl Renewal {
    /// Looks twice a day until `stop`.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = stop.cancelled() => return Ok(()),
            }
            // There are two months to mend what keeps it from working: no reason to stop the plane.
            if let Err(error) = self.renew() {
                tracing::error!(error = format!("{error:#}"), "certificates could not be renewed");
            }
        }
    }

    fn renew(&self) -> anyhow::Result<()> {
        let pki = Pki::open(&self.folder.join("pki"), &self.names, jiff::Timestamp::now())?;
        self.listener.replace(&pki)?;
        kubeconfig::write(&self.folder.join("kubeconfig"), self.address, &pki)
    }
}
