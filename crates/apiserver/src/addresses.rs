//! The addresses of Services. What is taken is read from the Services themselves at start, so there
//! is no second record to get out of step.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use store::{Paging, Scope, Store};

use crate::object;

/// A range of addresses and who has which.
pub struct Addresses {
    first: u32,
    count: u32,
    taken: Mutex<BTreeMap<u32, String>>,
}

impl Addresses {
    /// The range, with what the Services in the store hold.
    pub fn new((base, prefix): (Ipv4Addr, u8), store: &Store) -> Self {
        let bits = 32 - u32::from(prefix.min(30));
        let first = u32::from(base) & (u32::MAX << bits);
        let addresses = Self { first, count: 1 << bits, taken: Mutex::default() };
        let page = store.list(&Scope::all("/services"), &Paging::default());
        for entry in page.map(|page| page.entries).unwrap_or_default() {
            let service = object::parse(&entry.value);
            if let Some(address) = service["spec"]["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok())
            {
                let owner = format!("{}/{}", entry.key.namespace, entry.key.name);
                addresses.taken.lock().insert(u32::from(address), owner);
            }
        }
        addresses
    }

    /// The first address, which the `kubernetes` Service has.
    pub fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.first + 1)
    }

    /// Takes `wanted`, or any free address when it is empty.
    pub fn reserve(&self, wanted: &str, owner: &str, dry_run: bool) -> Result<String, String> {
        let mut taken = self.taken.lock();
        let address = if wanted.is_empty() {
            // The first sixteen stay free for those who ask for one by name.
            let preferred = (16..self.count - 1).chain(1..16.min(self.count - 1));
            let free = preferred.map(|offset| self.first + offset).find(|address| !taken.contains_key(address));
            free.ok_or("failed to allocate an IP: the range is full")?
        } else {
            let address: Ipv4Addr = wanted.parse().map_err(|_| "must be a valid IPv4 address".to_owned())?;
            let number = u32::from(address);
            if number <= self.first || number - self.first >= self.count - 1 {
                let range = Ipv4Addr::from(self.first);
                let prefix = 32 - self.count.trailing_zeros();
                return Err(format!(
                    "failed to allocate IP {address}: the provided IP is not in the valid range \
                                    {range}/{prefix}"
                ));
            }
            if taken.get(&number).is_some_and(|holder| holder != owner) {
                return Err(format!("failed to allocate IP {address}: provided IP is already allocated"));
            }
            number
        };
        if !dry_run {
            taken.insert(address, owner.to_owned());
        }
        Ok(Ipv4Addr::from(address).to_string())
    }

    /// Gives an address back.
    pub fn release(&self, address: &str, owner: &str) {
        let Ok(address) = address.parse::<Ipv4Addr>() else { return };
        let mut taken = self.taken.lock();
        if taken.get(&u32::from(address)).is_some_and(|holder| holder == owner) {
            taken.remove(&u32::from(address));
        }
    }
}
