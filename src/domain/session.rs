//! A session of the console: which API key has begun it.

use serde::{Deserialize, Serialize};

use super::access::KeyName;
use super::secret::Digest;
use super::time::Span;

/// For how long a session lasts at the most.
pub const LIFETIME: Span = Span::hours(12);
/// How many sessions an API key may have. If it begins another one, the oldest ends.
pub const SESSIONS_MAX: usize = 100;

/// Which API key has begun a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BegunBy {
    /// The stored one of this name.
    Key(KeyName),
    /// The one at this place in the configuration, from 0.
    Configuration(usize),
}

/// What is stored of a session, under the digest of its id. Only the browser has the id, and without it nobody can find
/// out by the proof which secret the key has: one of the configuration may be short.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The name of the API key; `None` for one of the configuration.
    pub key: Option<KeyName>,
    /// The digest of its secret under the session's id.
    pub proof: Digest,
}

impl Session {
    /// That of a key with this digest.
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
    fn a_session_is_of_one_secret_and_shows_it_to_nobody() {
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
