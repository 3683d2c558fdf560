//! A session of the console, and the API key that began it.

use serde::{Deserialize, Serialize};

use super::access::KeyName;
use super::secret::Digest;
use super::time::Span;

/// The maximum length of a session.
pub const LIFETIME: Span = Span::hours(12);
/// How many sessions an API key may have. If it begins another one, the oldest ends.
pub const SESSIONS_MAX: usize = 100;

/// The API key that began a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BegunBy {
    /// The stored one of this name.
    Key(KeyName),
    /// The configured one with this index, from 0.
    Configuration(usize),
}

/// A stored session, under the digest of its id. Only the browser has the id. Without it the proof can't be used to guess
/// the key's secret, which may be short for a configured key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The name of the API key; `None` for one of the configuration.
    pub key: Option<KeyName>,
    /// The digest of its secret under the session's id.
    pub proof: Digest,
}

impl Session {
    /// The session of a key with this digest.
    pub fn new(id: &str, key: Option<KeyName>, secret: &Digest) -> Self {
        let proof = secret.under(id);
        Self { key, proof }
    }

    /// Whether a secret with this digest has begun it.
    pub fn is_of(&self, id: &str, secret: &Digest) -> bool {
        self.proof == secret.under(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_secret_and_never_shows_it() {
        let secret = Digest::of("a-reader");
        let session = Session::new("id", None, &secret);
        assert!(session.is_of("id", &secret));
        assert!(!session.is_of("other", &secret));
        assert!(!session.is_of("id", &Digest::of("a-writer")));
        let json = serde_json::to_string(&session).unwrap();
        assert!(!json.contains(&secret.hexadecimal()), "{json}");
        assert_eq!(serde_json::from_str::<Session>(&json).unwrap(), session);
    }
}
