//! Whether a place outside of the cluster answers.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use api::omnia::address::refusal;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Asks places whether they answer. Implementations bound what they do in time.
pub trait Reach: fmt::Debug + Send + Sync + 'static {
    /// Connects, and says in words why not.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<(), String>>;
}

/// The network, as this process sees it.
#[derive(Clone, Debug)]
pub struct Network {
    /// How long one place has to answer.
    pub patience: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self { patience: Duration::from_secs(3) }
    }
}

impl Reach for Network {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let asked = timeout(self.patience, async {
                let found = tokio::net::lookup_host((host, port)).await;
                let addresses: Vec<SocketAddr> =
                    found.map_err(|error| format!("cannot resolve {host}: {error}"))?.collect();
                if let Some(refused) = addresses.iter().find_map(|address| refusal(host, address.ip())) {
                    return Err(refused);
                }
                let connected = TcpStream::connect(addresses.as_slice()).await;
                connected.map(drop).map_err(|error| format!("cannot connect to {host}:{port}: {error}"))
            });
            asked.await.unwrap_or_else(|_| Err(format!("{host}:{port} did not answer within {:?}", self.patience)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn someone_who_listens_is_reached_and_the_others_are_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let network = Network::default();
        assert_eq!(network.connect("127.0.0.1", port).await, Ok(()));
        drop(listener);
        assert!(network.connect("127.0.0.1", port).await.is_err());
        let refused = network.connect("169.254.169.254", 80).await.expect_err("a cloud's credentials");
        assert!(refused.contains("link-local"), "{refused}");
    }
}
