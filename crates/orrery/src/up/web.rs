//! The REST API and the web UI of the plane.

use std::sync::Arc;

use server::{Server, Sessions, User};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A bound server, ready to run.
pub struct Web {
    listener: TcpListener,
    sessions: Arc<Sessions>,
    client: kube::Client,
}

impl Web {
    /// Serves on `listener`; `client` asks the plane in the callers' names.
    pub fn new(client: kube::Client, listener: TcpListener) -> Self {
        Self { listener, sessions: Arc::default(), client }
    }

    /// A link that signs its first user in as the administrator.
    pub fn login_link(&self) -> anyhow::Result<String> {
        let address = super::reachable(self.listener.local_addr()?);
        let admin = User {
            name: apiserver::pki::ADMIN.into(),
            groups: vec![apiserver::user::MASTERS.into()],
            ..User::default()
        };
        Ok(format!("http://{address}/login?token={}", self.sessions.invite(admin)))
    }

    /// Serves until `stop`.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let options = server::Options { client: self.client, sessions: self.sessions, anonymous: None };
        Ok(Server::new(options).run(self.listener, stop).await?)
    }
}
