//! Secrets, of which only digests are kept.

use std::fmt;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

/// The SHA-256 of a secret.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of this secret.
    pub fn of(secret: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
        Self(bytes)
    }

    /// Its first half, by which it can be looked up. How long that takes tells nothing of the secret.
    pub fn half(&self) -> u128 {
        let half: [u8; 16] = std::array::from_fn(|index| self.0[index]);
        u128::from_be_bytes(half)
    }
}

/// In constant time.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

/// Not even this is written anywhere.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}
