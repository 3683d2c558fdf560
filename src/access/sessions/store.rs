//! Stores sessions of the console under keys that expire. A failover may lose one: then its browser signs in again.

use crate::domain::secret::Digest;
use crate::domain::session::{BegunBy, LIFETIME, SESSIONS_MAX, Session};
use crate::redis::dispatch::Store;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// Stores a session under the digest of its id until it expires. If the API key has [`SESSIONS_MAX`] sessions, the oldest
/// ends.
pub async fn begin(
    store: &Store,
    id: &Digest,
    session: &Session,
    begun_by: &BegunBy,
) -> Result<(), StoreError> {
    // Doesn't wait for replicas: signing in may be needed to find out why they are down.
    let begun = store
        .call(&script::BEGIN_SESSION, keys::SESSIONS)
        .keys([keys::session(id), keys::sessions(begun_by)])
        .json(session)
        .arg(LIFETIME.ms())
        .arg(SESSIONS_MAX);
    begun.derive::<u64>().await.map(drop)
}

/// The session whose id has this digest; `None` if there is none, or it has ended.
pub async fn load(store: &Store, id: &Digest) -> Result<Option<Session>, StoreError> {
    let json: Option<String> = store.command("GET", [keys::session(id)]).await?;
    json.map(|json| read_json("a session", &json)).transpose()
}

/// Ends a session, if there is one.
pub async fn end(store: &Store, id: &Digest) -> Result<(), StoreError> {
    store.command("DEL", [keys::session(id)]).await
}
