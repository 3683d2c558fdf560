//! Signs and verifies stream tokens, with a secret that all instances share and keep in memory. If it is lost, the tokens
//! become invalid, and clients ask for new ones.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::model::StreamToken;
use crate::core::{Engine, Error};
use crate::domain::secret::Digest;
use crate::redis::{keys, random};

/// How many random bytes the secret has, each as two hexadecimal digits.
const SECRET_BYTES: usize = 32;
/// The pause between two reads of the secret: forged tokens must not keep Redis busy.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// An instance's copy of the secret.
#[derive(Default)]
pub(crate) struct StreamSecret(Mutex<KnownSecret>);

#[derive(Default)]
struct KnownSecret {
    secret: Option<String>,
    looked_at: Option<Instant>,
}

impl fmt::Debug for StreamSecret {
    /// Secrets are never written anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamSecret(…)")
    }
}

/// Signs a token. `key`: the digest of the API key's secret, if one makes it.
pub async fn sign(
    engine: &Engine,
    token: &StreamToken,
    key: Option<&Digest>,
) -> Result<String, Error> {
    let secret = random::need_secret::<SECRET_BYTES>(&engine.store, keys::STREAM_SECRET).await?;
    let signed = token.sign(&secret, key);
    engine.states.get::<StreamSecret>().0.lock().await.secret = Some(secret);
    Ok(signed)
}

/// The secret of tokens. If it is the one that was `tried`, reads it again from Redis, but not too often.
pub async fn secret(engine: &Engine, tried: Option<&str>) -> Result<Option<String>, Error> {
    let mut known = engine.states.get::<StreamSecret>().0.lock().await;
    let is_untried = |secret: &String| Some(secret.as_str()) != tried;
    if let Some(secret) = known.secret.clone().filter(is_untried) {
        return Ok(Some(secret));
    }
    if known
        .looked_at
        .is_some_and(|at| at.elapsed() < LOOK_INTERVAL)
    {
        return Ok(None);
    }
    known.secret = engine.store.command("GET", [keys::STREAM_SECRET]).await?;
    known.looked_at = Some(Instant::now());
    Ok(known.secret.clone().filter(is_untried))
}
