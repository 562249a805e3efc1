//! Addresses that nobody is sent to, whoever asks: the controllers that look whether a tool answers, and the runtime that calls it.

use std::net::IpAddr;

/// Addresses at which clouds serve credentials to whoever asks from the right machine.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => {
            let metadata = v6.segments()[..2] == [0xfd00, 0x0ec2];
            v6.is_unicast_link_local() || metadata || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_link_local())
        }
    }
}

/// Why nobody is sent there, in words, if `host` is such an address.
pub fn refusal(host: &str, address: IpAddr) -> Option<String> {
    is_link_local(address).then(|| format!("{host} is {address}, a link-local address: clouds keep credentials there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_clouds_are_out_of_reach() {
        for address in ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"] {
            assert!(refusal("a", address.parse().expect("an address")).is_some(), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "::1", "2001:db8::1"] {
            assert_eq!(refusal("a", address.parse().expect("an address")), None, "{address}");
        }
    }
}
