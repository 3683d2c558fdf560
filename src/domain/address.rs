//! Which internet addresses are public: global unicast that does not lead to other addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not global unicast, each with its prefix length (IANA's special-purpose registry).
const V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),        // this network
    ([10, 0, 0, 0], 8),       // private
    ([100, 64, 0, 0], 10),    // shared by the customers of a provider
    ([127, 0, 0, 0], 8),      // loopback
    ([169, 254, 0, 0], 16),   // link-local; clouds serve machines' secrets there
    ([172, 16, 0, 0], 12),    // private
    ([192, 0, 0, 0], 24),     // protocol assignments
    ([192, 0, 2, 0], 24),     // documentation
    ([192, 88, 99, 0], 24),   // relays of 6to4
    ([192, 168, 0, 0], 16),   // private
    ([198, 18, 0, 0], 15),    // benchmarks
    ([198, 51, 100, 0], 24),  // documentation
    ([203, 0, 113, 0], 24),   // documentation
    ([224, 0, 0, 0], 4),      // multicast
    ([240, 0, 0, 0], 4),      // reserved, and broadcast
    ([168, 63, 129, 16], 32), // a large cloud's address for services of its machines
];

/// Global unicast of IPv6, and special networks within it.
const V6_GLOBAL: (u128, u32) = (0x2000 << 112, 3);
const V6: [(u128, u32); 4] = [
    (0x2001 << 112, 23), // protocol assignments, Teredo (2001::/32) and ORCHID among them
    (0x2001_0db8 << 96, 32), // documentation
    (0x2002 << 112, 16), // 6to4: contains an IPv4 address
    (0x3fff << 112, 20), // documentation
];
/// With this prefix a translator (NAT64) dials the IPv4 address in the last 32 bits.
const NAT64: (u128, u32) = (0x0064_ff9b << 96, 96);

/// Whether an address is global unicast. Addresses that lead to others are judged by these (NAT64), or refused (6to4,
/// Teredo, IPv4 addresses as IPv6).
pub fn is_global_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let is_in = |(network, bits): &([u8; 4], u32)| {
        let network = Ipv4Addr::from(*network).to_bits();
        (address.to_bits() ^ network).leading_zeros() >= *bits
    };
    !V4.iter().any(is_in)
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let address = address.to_bits();
    let is_in = |(network, bits): &(u128, u32)| (address ^ network).leading_zeros() >= *bits;
    if is_in(&NAT64) {
        let [.., a, b, c, d] = address.to_be_bytes();
        return is_global_v4(Ipv4Addr::new(a, b, c, d));
    }
    is_in(&V6_GLOBAL) && !V6.iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_global_unicast_is_public() {
        let is_global = |text: &str| is_global_unicast(text.parse().unwrap());
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:200::1",
            "2400:cb00::1",
            "64:ff9b::808:808",
        ] {
            assert!(is_global(text), "{text}");
        }
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.255.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::a00:1",
            "64:ff9b:1::808:808",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_global(text), "{text}");
        }
    }
}
