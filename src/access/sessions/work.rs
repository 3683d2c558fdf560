//! Sessions of the console by ids that only browsers have: Redis has their digests.

use super::store;
use crate::core::{Error, Service};
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
    service: &Service,
    id: &str,
    session: &Session,
    begun_by: &BegunBy,
) -> Result<(), Error> {
    let id = Digest::of(id);
    let begun = store::begin(&service.engine.store, &id, session, begun_by);
    Ok(begun.await?)
}

/// The session with this id; `None` if there is none, or it has ended.
pub async fn find(service: &Service, id: &str) -> Result<Option<Session>, Error> {
    Ok(store::load(&service.engine.store, &Digest::of(id)).await?)
}

/// Ends a session, if there is one.
pub async fn end(service: &Service, id: &str) -> Result<(), Error> {
    Ok(store::end(&service.engine.store, &Digest::of(id)).await?)
}
