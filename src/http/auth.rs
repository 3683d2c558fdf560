//! API keys and roles.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, header};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;
use tower_http::validate_request::ValidateRequest;

use super::problem::{FORBIDDEN, INTERNAL, Problem, UNAUTHENTICATED};
use crate::domain::series::Track;

/// The shortest key, in bytes. A key that is this short has to be random at least.
const KEY_BYTES_MIN: usize = 8;

/// What a key allows; each role includes those before it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Reading standings and definitions.
    Read,
    /// Sending events.
    Write,
    /// Defining and deleting boards.
    Admin,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// The keys that the service accepts: `role:key,role:key`. Without any it is open.
#[derive(Clone, Default)]
pub struct ApiKeys(Arc<[(Role, String)]>);

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
            .map(|part| {
                let (role, key) = part.split_once(':').unwrap_or((part, ""));
                let role = match role {
                    "read" => Role::Read,
                    "write" => Role::Write,
                    "admin" => Role::Admin,
                    // The text may be a key without a role: it isn't repeated.
                    _ => {
                        return Err(
                            "each API key is `role:key`, with the role read, write or admin"
                                .to_owned(),
                        );
                    }
                };
                let is_sound =
                    key.len() >= KEY_BYTES_MIN && key.bytes().all(|byte| byte.is_ascii_graphic());
                let sound = is_sound.then(|| (role, key.to_owned()));
                sound.ok_or_else(|| {
                    format!("an API key has visible ASCII characters, at least {KEY_BYTES_MIN}")
                })
            });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err("there is no key in it".to_owned());
        }
        Ok(Self(keys.into()))
    }
}

impl ApiKeys {
    /// Whether anybody may do anything.
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// The guard of routes that need this role.
    pub fn guard(&self, needed: Role) -> Guard {
        Guard {
            keys: self.clone(),
            needed,
        }
    }

    /// Checks that a request may do what needs this role; returns the one it has. Takes the same time for every
    /// wrong key.
    fn check(&self, headers: &HeaderMap, needed: Role) -> Result<Role, Problem> {
        if self.is_open() {
            return Ok(Role::Admin);
        }
        let sent = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map_or("", |(_, key)| key.trim());
        let mut role = None;
        for (granted, key) in self.0.iter() {
            if bool::from(key.as_bytes().ct_eq(sent.as_bytes())) {
                role = role.max(Some(*granted));
            }
        }
        match role {
            Some(role) if role >= needed => Ok(role),
            Some(role) => Err(too_low(role, needed)),
            None => Err(Problem::new(
                UNAUTHENTICATED,
                "send a valid API key: `Authorization: Bearer <key>`",
            )),
        }
    }
}

fn too_low(role: Role, needed: Role) -> Problem {
    let detail = format!(
        "this needs the role {}; the key has {}",
        needed.name(),
        role.name()
    );
    Problem::new(FORBIDDEN, detail)
}

/// The role that a request has, for what needs more than its route.
#[derive(Clone, Copy, Debug)]
pub struct Granted(Role);

impl Granted {
    /// The track that is asked for: the raw one is for those who may write.
    pub fn track(self, is_raw: bool) -> Result<Track, Problem> {
        match (is_raw, self.0 >= Role::Write) {
            (false, _) => Ok(Track::Shown),
            (true, true) => Ok(Track::Raw),
            (true, false) => Err(too_low(self.0, Role::Write)),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Granted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let granted = parts.extensions.get::<Self>().copied();
        granted.ok_or_else(|| Problem::new(INTERNAL, "a route without its guard"))
    }
}

/// What stands before routes that need a role.
#[derive(Clone)]
pub struct Guard {
    keys: ApiKeys,
    needed: Role,
}

impl<B> ValidateRequest<B> for Guard {
    type ResponseBody = Body;

    fn validate(&mut self, request: &mut Request<B>) -> Result<(), Response> {
        let checked = self.keys.check(request.headers(), self.needed);
        let role = checked.map_err(Problem::into_response)?;
        request.extensions_mut().insert(Granted(role));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_and_keys_are_exact() {
        let keys: ApiKeys = "read:reader-1, admin:a:1:2345,".parse().unwrap();
        let check = |value: &str, role| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            keys.check(&headers, role)
                .map_err(|problem| problem.kind.name)
        };
        assert_eq!(check("Bearer reader-1", Role::Read), Ok(Role::Read));
        assert_eq!(check("bearer reader-1", Role::Read), Ok(Role::Read));
        assert_eq!(check("Bearer reader-1", Role::Write), Err("forbidden"));
        assert_eq!(check("Bearer a:1:2345", Role::Read), Ok(Role::Admin));
        for wrong in [
            "Bearer r",
            "Bearer reader-11",
            "Bearer ",
            "Basic reader-1",
            "reader-1",
        ] {
            assert_eq!(check(wrong, Role::Read), Err("unauthenticated"), "{wrong}");
        }
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
        assert!(" ".parse::<ApiKeys>().unwrap().is_open());
    }
}
