//! The address of a client, which may be behind proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, Request};
use ipnet::IpNet;

use super::observe::REQUEST_ID;

/// The header to which each proxy appends the address that it was called from. (`Forwarded` is not read: a proxy that does
/// not know a header passes on what its client has written in it.)
pub(crate) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Where a request came from, and its id: what routes that a page calls on its behalf have to know.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    headers: HeaderMap,
    peer: Option<Peer>,
}

impl Arrival {
    /// The origin of this request.
    pub(crate) fn of(parts: &Parts) -> Self {
        let mut headers = HeaderMap::new();
        for name in [REQUEST_ID, FORWARDED_FOR] {
            for value in parts.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        let peer = parts.extensions.get().copied();
        Self { headers, peer }
    }

    /// Makes the call of a route come from there, with the same id.
    pub(crate) fn carry_over<T>(&self, request: &mut Request<T>) {
        request.headers_mut().extend(self.headers.clone());
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
    }

    pub(crate) fn request_id(&self) -> &str {
        let id = self.headers.get(REQUEST_ID);
        id.and_then(|id| id.to_str().ok()).unwrap_or_default()
    }
}

/// The networks of the trusted proxies: `10.0.0.0/8,192.168.1.7`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let blocks = text
            .split(',')
            .map(str::trim)
            .filter(|block| !block.is_empty())
            .map(|block| {
                let parsed = block
                    .parse()
                    .or_else(|_| block.parse::<IpAddr>().map(IpNet::from));
                parsed.map_err(|_| {
                    format!("{block:?} is not a network, such as 10.0.0.0/8 or 2001:db8::/32")
                })
            });
        Ok(Self(blocks.collect::<Result<_, _>>()?))
    }
}

impl TrustedProxies {
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.contains(&address))
    }

    /// The address of the client that has sent a request: the last one that is not a trusted proxy's. The client may have
    /// made up anything before it.
    pub(crate) fn client(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
        let Peer(peer) = extensions.get()?;
        let mut client = peer.to_canonical();
        let named = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .rev()
            .flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for name in named {
            if !self.has(client) {
                break;
            }
            // Nothing before a malformed address can be trusted.
            let Some(address) = address_of(name.trim()) else {
                break;
            };
            client = address;
        }
        Some(client)
    }
}

/// An address, with or without a port; one of IPv6 may be in brackets.
fn address_of(text: &str) -> Option<IpAddr> {
    let in_brackets = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address: IpAddr = if let Some(text) = in_brackets {
        text.parse::<Ipv6Addr>().ok()?.into()
    } else {
        let with_port = |_| text.parse().map(|address: SocketAddr| address.ip());
        text.parse().or_else(with_port).ok()?
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_trusted_proxy() {
        let client = |trusted: &str, peer: &str, forwarded: &[&str]| {
            let trusted: TrustedProxies = trusted.parse().unwrap();
            let (mut headers, mut extensions) = (HeaderMap::new(), Extensions::new());
            extensions.insert(Peer(peer.parse().unwrap()));
            for line in forwarded {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            trusted.client(&headers, &extensions).unwrap().to_string()
        };
        let made_up = &["1.1.1.1, 203.0.113.7"][..];
        assert_eq!(client("", "10.0.0.1", made_up), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "11.0.0.1", made_up), "11.0.0.1");
        assert_eq!(client("10.0.0.0/8", "10.9.0.1", made_up), "203.0.113.7");
        assert_eq!(
            client("10.0.0.0/8", "::ffff:10.9.0.1", made_up),
            "203.0.113.7"
        );
        let two = &["1.1.1.1", "203.0.113.7:4711 , 10.0.0.2"][..];
        assert_eq!(
            client("10.0.0.1, 10.0.0.2/32", "10.0.0.1", two),
            "203.0.113.7"
        );
        assert_eq!(client("0.0.0.0/0", "10.0.0.1", two), "1.1.1.1");
        assert_eq!(
            client("10.0.0.0/8", "10.0.0.1", &["203.0.113.7, unknown"]),
            "10.0.0.1"
        );
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &[]), "10.0.0.1");
        let six = &["2001:db8:1::7, [2001:db8:ffff::1]:80"][..];
        assert_eq!(
            client("2001:db8:ffff::/48,::1", "::1", six),
            "2001:db8:1::7"
        );
        for (named, address) in [
            ("[::ffff:203.0.113.5]", "203.0.113.5"),
            ("[2001:db8:1::7]", "2001:db8:1::7"),
            ("[::ffff:203.0.113.5]:80", "203.0.113.5"),
            ("[203.0.113.5]", "10.0.0.1"),
            ("[[::1]]", "10.0.0.1"),
            ("[::1", "10.0.0.1"),
        ] {
            assert_eq!(
                client("10.0.0.0/8", "10.0.0.1", &[named]),
                address,
                "{named}"
            );
        }
        for wrong in ["10.0.0.0/33", "10.0.0/8", "a", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<TrustedProxies>().is_err(), "{wrong}");
        }
    }
}
