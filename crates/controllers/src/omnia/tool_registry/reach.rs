//! Whether a place outside of the cluster answers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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
                if let Some(refused) = addresses.iter().find(|address| is_link_local(address.ip())) {
                    return Err(format!(
                        "{host} is {}, a link-local address: clouds keep credentials there",
                        refused.ip()
                    ));
                }
                let connected = TcpStream::connect(addresses.as_slice()).await;
                connected.map(drop).map_err(|error| format!("cannot connect to {host}:{port}: {error}"))
            });
            asked.await.unwrap_or_else(|_| Err(format!("{host}:{port} did not answer within {:?}", self.patience)))
        })
    }
}

/// Addresses at which clouds serve credentials to whoever asks from the right machine.
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => {
            let metadata = v6.segments()[..2] == [0xfd00, 0x0ec2];
            v6.is_unicast_link_local() || metadata || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_clouds_are_out_of_reach() {
        for address in ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"] {
            assert!(is_link_local(address.parse().expect("an address")), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "::1", "2001:db8::1"] {
            assert!(!is_link_local(address.parse().expect("an address")), "{address}");
        }
    }

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
