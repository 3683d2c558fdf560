//! Secrets, of which only digests are stored.

use std::fmt::{self, Write};

use ring::digest::{SHA256, digest};
use ring::hmac;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes with these hexadecimal digits; `None` if they are invalid.
pub fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let byte = |index: usize| u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok();
    (0..text.len().div_ceil(2)).map(byte).collect()
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of this secret.
    pub fn of(secret: &str) -> Self {
        Self::read(digest(&SHA256, secret.as_bytes()).as_ref())
    }

    /// Its HMAC-SHA256 under a key: only those who know the digest and the key can make it.
    #[must_use]
    pub fn under(&self, key: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        Self::read(hmac::sign(&key, &self.0).as_ref())
    }

    fn read(bytes: &[u8]) -> Self {
        let mut own = [0; 32];
        own.copy_from_slice(bytes);
        Self(own)
    }

    /// Its 64 hexadecimal digits.
    pub fn hexadecimal(&self) -> String {
        hexadecimal(&self.0)
    }

    /// The digest with these digits; `None` if they are invalid.
    pub fn from_hexadecimal(text: &str) -> Option<Self> {
        from_hexadecimal(text)?.try_into().ok().map(Self)
    }

    /// Its first half, for look-ups: their timing reveals nothing about the secret.
    pub fn half(&self) -> u128 {
        let half: [u8; 16] = std::array::from_fn(|index| self.0[index]);
        u128::from_be_bytes(half)
    }
}

/// Compares in constant time.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

/// Serialized as hexadecimal text.
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hexadecimal())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digest = Self::from_hexadecimal(&text);
        digest.ok_or_else(|| serde::de::Error::custom("a digest has 64 hexadecimal digits"))
    }
}

/// Keeps digests out of the log, too.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_sha_256_and_is_parsed_back() {
        let digest = Digest::of("abc");
        let text = serde_json::to_string(&digest).unwrap();
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text, format!("\"{of_abc}\""));
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert_ne!(Digest::of("abd"), digest);
        assert_eq!(format!("{digest:?}"), "Digest(…)");
        // As `openssl dgst -sha256 -mac HMAC -macopt key:k` prints for the 32 bytes.
        assert_eq!(
            digest.under("k").hexadecimal(),
            "eca0a0faa11e8a16281dd49a201342ab003c869d9bac12bee2f1363dada06064"
        );
        for wrong in [
            "",
            &of_abc[1..],
            &of_abc.replace('b', "g"),
            &format!("{of_abc}0"),
        ] {
            assert!(
                serde_json::from_value::<Digest>(wrong.into()).is_err(),
                "{wrong}"
            );
        }
    }
}
