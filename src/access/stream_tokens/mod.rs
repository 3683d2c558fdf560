//! Stream tokens, for clients that can't send headers. They are signed and not stored.
//!
//! The signature is an HMAC over the token's content and the digest of the API key's secret, under a secret that all
//! instances share. So a token ends with its key, and can't be used to guess short secrets. If Redis loses the shared
//! secret, all tokens become invalid.

pub mod model;
pub mod work;
