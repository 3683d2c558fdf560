//! Sessions of the console, from signing in to signing out. The browser has the id, Redis its digest under a key that
//! expires. A session ends with its API key, since each request looks the key up again. A failover may lose one: then its
//! browser signs in again.

use crate::core::{Engine, Error};
use crate::domain::secret::Digest;
use crate::domain::session::{BegunBy, LIFETIME, SESSIONS_MAX, Session};
use crate::redis::stored::read_json;
use crate::redis::{keys, random, script};

/// How many random bytes an id has, each as two hexadecimal digits.
pub const ID_BYTES: usize = 32;

/// Creates an unguessable id.
pub fn new_id() -> Result<String, Error> {
    Ok(random::hexadecimal::<ID_BYTES>("")?)
}

/// Begins a session with this id. If the API key has [`SESSIONS_MAX`] sessions, the oldest ends.
pub async fn begin(
    engine: &Engine,
    id: &str,
    session: &Session,
    begun_by: &BegunBy,
) -> Result<(), Error> {
    // Doesn't wait for replicas: signing in may be needed to find out why they are down.
    let begun = engine
        .store
        .call(&script::BEGIN_SESSION, keys::SESSIONS)
        .keys([keys::session(&Digest::of(id)), keys::sessions(begun_by)])
        .json(session)
        .arg(LIFETIME.ms())
        .arg(SESSIONS_MAX);
    Ok(begun.derive::<u64>().await.map(drop)?)
}

/// The session with this id; `None` if there is none, or it has ended.
pub async fn find(engine: &Engine, id: &str) -> Result<Option<Session>, Error> {
    let key = keys::session(&Digest::of(id));
    let json: Option<String> = engine.store.command("GET", [key]).await?;
    let session = json.map(|json| read_json("a session", &json));
    Ok(session.transpose()?)
}

/// Ends a session, if there is one.
pub async fn end(engine: &Engine, id: &str) -> Result<(), Error> {
    let key = keys::session(&Digest::of(id));
    Ok(engine.store.command("DEL", [key]).await?)
}
