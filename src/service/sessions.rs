//! Sessions of the console, each by an id that only the browser has: what is stored is the digest of the id.

use super::{Error, Service};
use crate::domain::secret::Digest;
use crate::domain::session::{BegunBy, Session};
use crate::store::random;
use crate::store::sessions;

/// How many random bytes an id has, each as two hexadecimal digits.
pub const ID_BYTES: usize = 32;

/// Makes an id that nobody can guess.
pub fn new_id() -> Result<String, Error> {
    Ok(random::hexadecimal::<ID_BYTES>("")?)
}

impl Service {
    /// Begins a session with this id.
    pub async fn begin_session(
        &self,
        id: &str,
        session: &Session,
        begun_by: &BegunBy,
    ) -> Result<(), Error> {
        let id = Digest::of(id);
        let begun = sessions::begin(&self.engine.store, &id, session, begun_by);
        Ok(begun.await?)
    }

    /// The session with this id; `None` if there is none, or not any more.
    pub async fn session(&self, id: &str) -> Result<Option<Session>, Error> {
        Ok(sessions::load(&self.engine.store, &Digest::of(id)).await?)
    }

    /// Ends a session, if it is there.
    pub async fn end_session(&self, id: &str) -> Result<(), Error> {
        Ok(sessions::end(&self.engine.store, &Digest::of(id)).await?)
    }
}
