//! Unpredictable random texts and bytes.

use ring::rand::{SecureRandom, SystemRandom};

use super::StoreError;
use super::dispatch::Store;
use crate::domain::secret;

/// `N` random bytes as hexadecimal digits, after a prefix.
///
/// # Errors
///
/// The system's random generator fails.
pub fn hexadecimal<const N: usize>(beginning: &str) -> Result<String, StoreError> {
    Ok(beginning.to_owned() + &secret::hexadecimal(&bytes::<N>()?))
}

/// A random number.
///
/// # Errors
///
/// The system's random generator fails.
pub fn number() -> Result<u64, StoreError> {
    bytes().map(u64::from_be_bytes)
}

/// `N` random bytes.
///
/// # Errors
///
/// The system's random generator fails.
pub fn bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| StoreError::Unexpected("the system gives no random bytes".to_owned()))?;
    Ok(bytes)
}

/// A secret of `N` random bytes that all instances share; created if missing.
pub(crate) async fn need_secret<const N: usize>(
    store: &Store,
    key: &str,
) -> Result<String, StoreError> {
    // Read first: that works even while Redis takes no writes.
    let stored: Option<String> = store.command("GET", [key]).await?;
    if let Some(stored) = stored {
        return Ok(stored);
    }
    let new = hexadecimal::<N>("")?;
    let before: Option<String> = store.command("SET", [key, &new, "NX", "GET"]).await?;
    Ok(before.unwrap_or(new))
}
