//! The secret that the tokens of streams are signed with: all instances share it. If it is lost, the tokens are void, and whoever
//! has one asks for another.

use super::dispatch::Store;
use super::{StoreError, keys, random};

/// How many random bytes it has, each as two hexadecimal digits.
const BYTES: usize = 32;

impl Store {
    /// The secret, if there is one.
    pub async fn stream_secret(&self) -> Result<Option<String>, StoreError> {
        self.command("GET", [keys::STREAM_SECRET]).await
    }

    /// The secret, which is made if there is none.
    pub async fn need_stream_secret(&self) -> Result<String, StoreError> {
        self.need_secret::<BYTES>(keys::STREAM_SECRET).await
    }

    /// A secret of `N` random bytes that all instances share, which is made if there is none.
    pub(super) async fn need_secret<const N: usize>(
        &self,
        key: &str,
    ) -> Result<String, StoreError> {
        // To ask first is no write: it works also while Redis takes none.
        let stored: Option<String> = self.command("GET", [key]).await?;
        if let Some(stored) = stored {
            return Ok(stored);
        }
        let new = random::hexadecimal::<N>("")?;
        let before: Option<String> = self.command("SET", [key, &new, "NX", "GET"]).await?;
        Ok(before.unwrap_or(new))
    }
}
