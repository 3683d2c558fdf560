//! API keys of the configuration, and how a request sends a key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::http::{HeaderMap, header};

use crate::domain::access::{Scope, Scopes};
use crate::domain::secret::Digest;

/// The minimum length of a configured key, in bytes. A key this short must be random.
const KEY_BYTES_MIN: usize = 8;

/// The keys of the configuration: `role:key,role:key`.
#[derive(Clone, Default)]
pub struct ApiKeys(Arc<[(Scopes, Digest)]>);

impl fmt::Debug for ApiKeys {
    /// Keys are never written anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.0.len())
    }
}

impl FromStr for ApiKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let keys = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(configured_key)
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err("it has no keys".to_owned());
        }
        Ok(Self(keys.into()))
    }
}

/// The role of a configured key with these scopes.
pub(super) fn role_of(scopes: Scopes) -> &'static str {
    [Scope::Admin, Scope::Write, Scope::Read]
        .into_iter()
        .find(|scope| scopes.has(*scope))
        .map_or("none", Scope::name)
}

fn configured_key(part: &str) -> Result<(Scopes, Digest), String> {
    let (role, key) = part.split_once(':').unwrap_or((part, ""));
    let scopes = match role {
        "read" => Scopes::from_iter([Scope::Read]),
        "write" => Scopes::from_iter([Scope::Read, Scope::Write]),
        "admin" => Scopes::ALL,
        // The text may be a key without a role, so it is not repeated.
        _ => {
            let detail = "an API key must be `role:key`, with the role `read`, `write` or `admin`";
            return Err(detail.to_owned());
        }
    };
    let is_sound = key.len() >= KEY_BYTES_MIN && key.bytes().all(|byte| byte.is_ascii_graphic());
    is_sound.then(|| (scopes, Digest::of(key))).ok_or_else(|| {
        format!(
            "an API key must have at least {KEY_BYTES_MIN} characters, all of them visible ASCII"
        )
    })
}

impl ApiKeys {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The scopes of the key with a matching digest, and that digest. Takes the same time for every wrong key.
    pub(super) fn find(&self, is_meant: impl Fn(&Digest) -> bool) -> Option<(Scopes, Digest)> {
        self.0
            .iter()
            .filter(|(_, digest)| is_meant(digest))
            .copied()
            .reduce(|(one, _), (other, digest)| (one.and(other), digest))
    }

    /// The index of the first key with this digest. Takes the same time for every wrong key.
    pub(super) fn place_of(&self, digest: &Digest) -> Option<usize> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, (_, own))| own == digest)
            .map(|(place, _)| place)
            .reduce(usize::min)
    }
}

/// The bearer token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, sent) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| sent.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_keys_are_exact_and_have_scopes_under_the_old_names() {
        let keys: ApiKeys = "read:reader-1, write:writer-1, admin:a:1:2345,"
            .parse()
            .unwrap();
        let scopes = |key: &str| {
            let found = keys.find(|own| *own == Digest::of(key));
            found.map(|(scopes, _)| scopes.to_string())
        };
        assert_eq!(scopes("reader-1").as_deref(), Some("read"));
        assert_eq!(scopes("writer-1").as_deref(), Some("read, write"));
        assert_eq!(scopes("a:1:2345").as_deref(), Some("admin"));
        for wrong in ["r", "reader-11", "", "a"] {
            assert_eq!(scopes(wrong), None, "{wrong}");
        }
        let role = |key: &str| {
            let found = keys.find(|own| *own == Digest::of(key));
            found.map(|(scopes, _)| role_of(scopes))
        };
        let roles = ["reader-1", "writer-1", "a:1:2345"].map(role);
        assert_eq!(roles, [Some("read"), Some("write"), Some("admin")]);
        assert!(!format!("{keys:?}").contains("reader-1"));
        for wrong in [
            "boss:12345678",
            "12345678",
            "read:",
            "read:1234567",
            "read: 12345678",
            "read:1234 5678",
            "read:ключключ",
            "read:12345678,admin",
            ",",
        ] {
            assert!(wrong.parse::<ApiKeys>().is_err(), "{wrong}");
        }
        assert!(" ".parse::<ApiKeys>().unwrap().is_empty());
    }

    #[test]
    fn a_key_is_sent_as_a_bearer_token() {
        let sent = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(ToOwned::to_owned)
        };
        assert_eq!(sent("Bearer reader-1").as_deref(), Some("reader-1"));
        assert_eq!(sent("bearer  reader-1 ").as_deref(), Some("reader-1"));
        assert_eq!(sent("Basic reader-1"), None);
        assert_eq!(sent("reader-1"), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
