//! A token for streams: it opens one standing of one board for an hour, and is signed, so that nothing of it is stored.

use serde::{Deserialize, Serialize};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::domain::access::KeyName;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::secret::Digest;
use crate::domain::time::{Span, Timestamp};

/// For how long a token is good.
pub const LIFETIME: Span = Span::hours(1);

/// Who has made a token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Maker {
    /// Anybody, since there are no keys.
    Anybody,
    /// Who has an API key of the configuration.
    Configuration,
    /// Who has this stored API key.
    Key(KeyName),
    /// A player, by a token of its own.
    Player(MemberId),
}

/// What a token says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamToken {
    /// Who has made it.
    pub by: Maker,
    /// The board.
    pub board: BoardId,
    /// The window.
    pub window: String,
    /// From then on it opens nothing.
    pub expires_at: Timestamp,
}

/// A token as it was sent: read, and not verified.
#[derive(Clone, Debug)]
pub struct SentToken {
    /// What it says.
    pub token: StreamToken,
    said: String,
    proof: Digest,
}

impl StreamToken {
    /// As it is sent. `secret`: what only the instances of the service know. `key`: the digest of the API key's secret, if one has
    /// made it; the token is void without that.
    pub fn sign(&self, secret: &str, key: Option<&Digest>) -> String {
        let json = serde_json::to_vec(self).expect("invariant: a token is JSON");
        let said = BASE64_URL_SAFE_NO_PAD.encode(json);
        let proof = proof(&said, secret, key).hexadecimal();
        format!("{said}.{proof}")
    }
}

fn proof(said: &str, secret: &str, key: Option<&Digest>) -> Digest {
    let key = key.map(Digest::hexadecimal).unwrap_or_default();
    Digest::of(&format!("{said}.{key}")).under(secret)
}

impl SentToken {
    /// Reads a token.
    pub fn read(text: &str) -> Option<Self> {
        let (said, proof) = text.split_once('.')?;
        let json = BASE64_URL_SAFE_NO_PAD.decode(said).ok()?;
        Some(Self {
            token: serde_json::from_slice(&json).ok()?,
            said: said.to_owned(),
            proof: Digest::from_hexadecimal(proof)?,
        })
    }

    /// Whether it was signed with this secret, by who has the API key with this digest.
    pub fn is_signed(&self, secret: &str, key: Option<&Digest>) -> bool {
        self.proof == proof(&self.said, secret, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_secret_and_one_key_and_says_what_was_signed() {
        let token = StreamToken {
            by: Maker::Key(KeyName::parse("site").unwrap()),
            board: BoardId::parse("b").unwrap(),
            window: "day".to_owned(),
            expires_at: Timestamp::from_ms_clamped(1_000),
        };
        let key = Digest::of("a-reader");
        let sent = token.sign("secret", Some(&key));
        assert!(
            sent.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        );
        let read = SentToken::read(&sent).unwrap();
        assert_eq!(read.token, token);
        assert!(read.is_signed("secret", Some(&key)));
        assert!(!read.is_signed("secret", None));
        assert!(!read.is_signed("secret", Some(&Digest::of("a-writer"))));
        assert!(!read.is_signed("other", Some(&key)));
        let other = StreamToken {
            window: "week".to_owned(),
            ..token
        };
        let forged = other.sign("guess", Some(&key));
        let (said, _) = forged.split_once('.').unwrap();
        let (_, proof) = sent.split_once('.').unwrap();
        let forged = SentToken::read(&format!("{said}.{proof}")).unwrap();
        assert!(!forged.is_signed("secret", Some(&key)));
        for wrong in [
            "",
            ".",
            "e30.00",
            said,
            &format!("{said}.00"),
            &format!("{}.{proof}", "e30"),
        ] {
            assert!(SentToken::read(wrong).is_none(), "{wrong}");
        }
    }
}
