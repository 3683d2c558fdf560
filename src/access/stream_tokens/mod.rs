//! Tokens for streams, for clients that can't send headers. They are signed, and nothing of them is stored.
//!
//! The proof is an HMAC of what a token says and of the digest of the API key's secret, under a secret that all instances
//! share. So a token ends with its key, and whoever has a token can't try secrets of short keys on it. If Redis loses the
//! shared secret, all tokens are void.

pub mod model;
pub mod store;
pub mod work;
