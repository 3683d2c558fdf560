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
        // To ask first is no write: it works also while Redis takes none.
        if let Some(secret) = self.stream_secret().await? {
            return Ok(secret);
        }
        let new = random::hexadecimal::<BYTES>("")?;
        let args = [keys::STREAM_SECRET, &new, "NX", "GET"];
        let before: Option<String> = self.command("SET", args).await?;
        Ok(before.unwrap_or(new))
    }
}
