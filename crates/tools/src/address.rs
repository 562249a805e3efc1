//! Addresses that nobody is sent to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

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

/// Says no to a URL whose host is such an address; names are looked at when they are resolved.
pub(crate) fn check(url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) if is_link_local(address) => Err(refusal(host, address)),
        _ => Ok(()),
    }
}

fn refusal(host: &str, address: IpAddr) -> String {
    format!("{host} is {address}, a link-local address: clouds keep credentials there")
}

/// Resolves names as the machine does, and refuses those that mean such an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Careful;

impl Careful {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self)
    }
}

impl Resolve for Careful {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            if let Some(refused) = found.iter().find(|address| is_link_local(address.ip())) {
                return Err(refusal(&host, refused.ip()).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
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
}
