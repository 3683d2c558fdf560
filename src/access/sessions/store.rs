//! Sessions of the console: each a key that expires by itself. A failover may lose one: then its browser signs in again.

use crate::domain::secret::Digest;
use crate::domain::session::{BegunBy, LIFETIME, SESSIONS_MAX, Session};
use crate::redis::dispatch::Store;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// Stores a session under the digest of its id, for as long as a session lasts. The oldest session of the API key ends if
/// that has [`SESSIONS_MAX`].
pub async fn begin(
    store: &Store,
    id: &Digest,
    session: &Session,
    begun_by: &BegunBy,
) -> Result<(), StoreError> {
    // Signing in helps to find out why replicas are away: it waits for none.
    let begun = store
        .call(&script::BEGIN_SESSION, keys::SESSIONS)
        .keys([keys::session(id), keys::sessions(begun_by)])
        .json(session)
        .arg(LIFETIME.ms())
        .arg(SESSIONS_MAX);
    begun.derive::<u64>().await.map(drop)
}

/// The session whose id has this digest; `None` if there is none, or not any more.
pub async fn load(store: &Store, id: &Digest) -> Result<Option<Session>, StoreError> {
    let json: Option<String> = store.command("GET", [keys::session(id)]).await?;
    json.map(|json| read_json("a session", &json)).transpose()
}

/// Ends a session, if it is there.
pub async fn end(store: &Store, id: &Digest) -> Result<(), StoreError> {
    store.command("DEL", [keys::session(id)]).await
}
