//! The secret that signs stream tokens, shared by all instances. If it is lost, the tokens become invalid, and clients ask
//! for new ones.

use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, random};

/// How many random bytes it has, each as two hexadecimal digits.
const BYTES: usize = 32;

/// The secret, if there is one.
pub async fn load(store: &Store) -> Result<Option<String>, StoreError> {
    store.command("GET", [keys::STREAM_SECRET]).await
}

/// The secret, created if there is none.
pub async fn need(store: &Store) -> Result<String, StoreError> {
    random::need_secret::<BYTES>(store, keys::STREAM_SECRET).await
}
