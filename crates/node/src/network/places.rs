//! Which Pod has which address.

use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;
use std::path::Path;

use super::GATEWAY;
use crate::driver::SandboxSpec;

/// The addresses that are taken, by Pod.
pub(super) struct Places {
    addresses: BTreeMap<String, Ipv4Addr>,
    /// The one that was given last.
    last: u32,
}

impl Places {
    /// Those of Pods that were there before us.
    pub(super) fn on_disk(pods: &Path) -> Self {
        let mut addresses = BTreeMap::new();
        for entry in std::fs::read_dir(pods).into_iter().flatten().flatten() {
            let Ok(text) = std::fs::read(entry.path().join("sandbox.json")) else { continue };
            let Ok(spec) = serde_json::from_slice::<SandboxSpec>(&text) else { continue };
            if let Some(place) = spec.network {
                addresses.insert(entry.file_name().to_string_lossy().into_owned(), place.address);
            }
        }
        let last = addresses.values().max().copied().unwrap_or(GATEWAY);
        Self { addresses, last: last.into() }
    }

    /// The address of a Pod: the one it has, or the free one that has been free the longest. Somebody may still believe
    /// that a Pod that is gone is there.
    pub(super) fn take(&mut self, uid: &str) -> Option<Ipv4Addr> {
        if let Some(own) = self.addresses.get(uid) {
            return Some(*own);
        }
        let (gateway, broadcast) = (u32::from(GATEWAY), u32::from(GATEWAY) | 0xffff);
        let taken: HashSet<u32> = self.addresses.values().map(|address| (*address).into()).collect();
        let mut following = (self.last + 1..broadcast).chain(gateway + 1..=self.last);
        self.last = following.find(|address| !taken.contains(address))?;
        let address = Ipv4Addr::from(self.last);
        self.addresses.insert(uid.to_owned(), address);
        Some(address)
    }

    /// Frees a Pod's address.
    pub(super) fn release(&mut self, uid: &str) -> Option<Ipv4Addr> {
        self.addresses.remove(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_used_again_as_late_as_possible() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut places = Places::on_disk(folder.path());
        let first = places.take("first").expect("an address");
        assert_eq!(places.take("first"), Some(first), "it keeps what it has");
        assert_eq!(places.release("first"), Some(first));
        let mut given = HashSet::new();
        while given.len() < 0xffff - 3 {
            let address = places.take("next").expect("an address");
            assert!(given.insert(address) && address != first, "{address} came again after {}", given.len());
            places.release("next");
        }
        assert_eq!(places.take("last"), Some(first));
    }

    #[test]
    fn when_all_are_taken_there_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut places = Places { last: (u32::from(GATEWAY) | 0xffff) - 2, ..Places::on_disk(folder.path()) };
        places.addresses =
            (2..0xfffe).map(|n| (n.to_string(), Ipv4Addr::from((u32::from(GATEWAY) & !0xffff) + n))).collect();
        assert!(places.take("one").is_some());
        assert_eq!(places.take("two"), None);
    }
}
