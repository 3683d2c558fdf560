//! Sessions of the console by ids that only browsers have: Redis has their digests.

use super::store;
use crate::core::{Engine, Error};
use crate::domain::secret::Digest;
use crate::domain::session::{BegunBy, Session};
use crate::redis::random;

/// How many random bytes an id has, each as two hexadecimal digits.
pub const ID_BYTES: usize = 32;

/// Creates an unguessable id.
pub fn new_id() -> Result<String, Error> {
    Ok(random::hexadecimal::<ID_BYTES>("")?)
}

/// Begins a session with this id.
pub async fn begin(
    engine: &Engine,
    id: &str,
    session: &Session,
    begun_by: &BegunBy,
) -> Result<(), Error> {
    let id = Digest::of(id);
    Ok(store::begin(&engine.store, &id, session, begun_by).await?)
}

/// The session with this id; `None` if there is none, or it has ended.
pub async fn find(engine: &Engine, id: &str) -> Result<Option<Session>, Error> {
    Ok(store::load(&engine.store, &Digest::of(id)).await?)
}

/// Ends a session, if there is one.
pub async fn end(engine: &Engine, id: &str) -> Result<(), Error> {
    Ok(store::end(&engine.store, &Digest::of(id)).await?)
}
