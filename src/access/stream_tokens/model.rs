//! A stream token: it opens one standing of one board for an hour, and is signed, so nothing is stored.

use serde::{Deserialize, Serialize};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::domain::access::KeyName;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::secret::Digest;
use crate::domain::time::{Span, Timestamp};

/// How long a token is valid.
pub const LIFETIME: Span = Span::hours(1);

/// The caller that made a token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Maker {
    /// Anyone, since there are no keys.
    Anybody,
    /// The holder of a configured API key.
    Configuration,
    /// The holder of this stored API key.
    Key(KeyName),
    Player(MemberId),
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamToken {
    /// The caller that made it.
    pub by: Maker,
    pub board: BoardId,
    pub window: String,
    pub expires_at: Timestamp,
}

/// A token as sent: parsed, but not verified.
#[derive(Clone, Debug)]
pub struct SentToken {
    pub token: StreamToken,
    said: String,
    proof: Digest,
}

impl StreamToken {
    /// The signed token. `secret`: known only to the instances of the service. `key`: the digest of the API key's secret,
    /// if one made it; the token is invalid without it.
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
    pub fn read(text: &str) -> Option<Self> {
        let (said, proof) = text.split_once('.')?;
        let json = BASE64_URL_SAFE_NO_PAD.decode(said).ok()?;
        Some(Self {
            token: serde_json::from_slice(&json).ok()?,
            said: said.to_owned(),
            proof: Digest::from_hexadecimal(proof)?,
        })
    }

    /// Whether it was signed with this secret, for the API key with this digest.
    pub fn is_signed(&self, secret: &str, key: Option<&Digest>) -> bool {
        self.proof == proof(&self.said, secret, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_one_secret_and_key_and_keeps_its_contents() {
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
