//! The REST API and the web UI of the plane.

use server::{Server, User};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A bound server, ready to run.
pub struct Web {
    listener: TcpListener,
    options: server::Options,
}

impl Web {
    /// Serves on `listener`.
    pub fn new(options: server::Options, listener: TcpListener) -> Self {
        Self { listener, options }
    }

    /// A link that signs its first user in as the administrator.
    pub fn login_link(&self) -> anyhow::Result<String> {
        let address = super::reachable(self.listener.local_addr()?);
        let admin = User {
            name: apiserver::pki::ADMIN.into(),
            groups: vec![apiserver::user::MASTERS.into()],
            ..User::default()
        };
        Ok(format!("http://{address}/login?token={}", self.options.sessions.invite(admin)))
    }

    /// Serves until `stop`.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        Ok(Server::new(self.options).run(self.listener, stop).await?)
    }
}
