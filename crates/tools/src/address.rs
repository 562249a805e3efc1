//! Keeps calls away from addresses that nobody is sent to, also when a name means one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::omnia::address::refusal;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Says no to a URL whose host is such an address; names are looked at when they are resolved.
pub(crate) fn check(url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => refusal(host, address).map_or(Ok(()), Err),
        Err(_) => Ok(()),
    }
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
            if let Some(refused) = found.iter().find_map(|address| refusal(&host, address.ip())) {
                return Err(refused.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
