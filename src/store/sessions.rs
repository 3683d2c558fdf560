//! Sessions of the console: each a key that expires by itself. A failover may lose one: then its browser signs in again.

use super::dispatch::Store;
use super::stored::{read_json, to_json};
use super::{StoreError, keys};
use crate::domain::secret::Digest;
use crate::domain::session::{LIFETIME, Session};

impl Store {
    /// Stores a session under the digest of its id, for as long as a session lasts.
    pub async fn begin_session(&self, id: &Digest, session: &Session) -> Result<(), StoreError> {
        let lifetime_ms = LIFETIME.ms().to_string();
        let args = [
            keys::session(id),
            to_json(session)?,
            "PX".to_owned(),
            lifetime_ms,
        ];
        self.command("SET", args.to_vec()).await
    }

    /// The session whose id has this digest; `None` if there is none, or not any more.
    pub async fn session(&self, id: &Digest) -> Result<Option<Session>, StoreError> {
        let json: Option<String> = self.command("GET", vec![keys::session(id)]).await?;
        json.map(|json| read_json("a session", &json)).transpose()
    }

    /// Ends a session, if it is there.
    pub async fn end_session(&self, id: &Digest) -> Result<(), StoreError> {
        self.command("DEL", vec![keys::session(id)]).await
    }
}
