//! Random texts and bytes that nobody can guess.

use std::fmt::Write;

use ring::rand::{SecureRandom, SystemRandom};

use super::StoreError;

/// `N` random bytes as hexadecimal digits, behind this beginning.
///
/// # Errors
///
/// The system gives no random bytes.
pub fn hexadecimal<const N: usize>(beginning: &str) -> Result<String, StoreError> {
    let mut text = beginning.to_owned();
    for byte in bytes::<N>()? {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// A random number.
///
/// # Errors
///
/// The system gives no random bytes.
pub fn number() -> Result<u64, StoreError> {
    bytes().map(u64::from_be_bytes)
}

/// `N` random bytes.
///
/// # Errors
///
/// The system gives no random bytes.
pub fn bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| StoreError::Unexpected("no random bytes from the system".to_owned()))?;
    Ok(bytes)
}
