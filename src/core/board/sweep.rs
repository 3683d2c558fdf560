//! Unlinks keys of deleted boards that no registry names: remembered events, counts of quotas, and others that expire.
//!
//! Registering each of those keys would make every event more expensive. So the sweep searches all keys of all servers for
//! them, a bounded part at a time, once for all boards deleted since the last sweep. It may miss a key that moves to
//! another server meanwhile; that key stays until it expires.

use std::sync::Arc;
use std::time::Duration;

use super::purge::{self, Unneeded};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::lease::Lease;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::texts::fields_as_text;
use crate::redis::connection::Call;
use crate::redis::decode::decode;
use crate::redis::dispatch::Store;
use crate::redis::leases::Leased;
use crate::redis::node::Node;
use crate::redis::{StoreError, Value, keys, script};

/// How many keys one call looks at: about half a millisecond of Redis.
const CALL_KEYS: u32 = 500;

/// A deleted board whose registries are empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deleted {
    pub generation: u64,
    /// Its id, which a newer board may have by now.
    pub id: BoardId,
}

impl Deleted {
    /// The board whose data this is.
    pub(crate) fn of(unneeded: &Unneeded) -> Self {
        Self {
            generation: unneeded.generation,
            id: unneeded.id.clone(),
        }
    }
}

fields_as_text! {
    Deleted {
        generation: |text| text.parse().ok(),
        id: |text| BoardId::parse(text).ok(),
    }
}

/// A walk over all keys of all servers.
#[derive(Debug)]
struct Walk {
    /// The boards whose keys are searched.
    deleted: Vec<Deleted>,
    /// How many keys were unlinked so far.
    unlinked: u64,
    /// The remaining servers; the one being walked is last.
    servers: Vec<Arc<Node>>,
    cursor: String,
}

/// The deleted boards whose keys must be searched.
async fn swept_boards(store: &Store) -> Result<Vec<Deleted>, StoreError> {
    let names: Vec<String> = store.command("SMEMBERS", [keys::DELETED]).await?;
    let mut deleted: Vec<Deleted> = names.iter().filter_map(|name| name.parse().ok()).collect();
    // As long as a shard has its head, events may come in there.
    for unneeded in purge::unneeded(store).await? {
        deleted.retain(|deleted| *deleted != Deleted::of(&unneeded));
    }
    Ok(deleted)
}

impl Walk {
    /// Begins a search for leftovers of these boards.
    fn new(store: &Store, deleted: Vec<Deleted>) -> Self {
        Self {
            deleted,
            unlinked: 0,
            servers: store.primaries(),
            cursor: "0".to_owned(),
        }
    }

    /// Searches the next part; returns whether there is more. A walk that is given up starts again later, on any instance.
    async fn advance(&mut self, store: &Store) -> Result<bool, StoreError> {
        let Some(server) = self.servers.last() else {
            let names = self.deleted.iter().map(ToString::to_string);
            let names = std::iter::once(keys::DELETED.to_owned()).chain(names);
            let _removed: i64 = store.command("SREM", names).await?;
            return Ok(false);
        };
        let mut args = vec![
            Value::from(self.cursor.clone()),
            CALL_KEYS.to_string().into(),
            keys::swept_pattern().into(),
            keys::swept_codes().into(),
        ];
        args.extend(self.deleted.iter().map(|board| board.to_string().into()));
        let call = Arc::new(Call::new(&script::SWEEP, Vec::new(), args));
        let unlinked: u64;
        (self.cursor, unlinked) = decode(server.write(keys::DELETED, call, 0).await?)?;
        self.unlinked += unlinked;
        if self.cursor == "0" {
            self.servers.pop();
        }
        Ok(true)
    }
}

/// Unlinks remembered events and counts of quotas of deleted boards. One instance walks over all keys of all servers, once
/// for all boards deleted by then: it takes about a minute for a million keys.
#[derive(Clone, Copy, Debug)]
pub struct Sweep;

/// The walk for boards that were deleted.
#[derive(Debug)]
pub struct Sweeping {
    walk: Walk,
    /// Once this instance has it.
    lease: Option<Lease>,
}

impl Job for Sweep {
    type Item = Sweeping;
    const KIND: JobKind = JobKind::Sweep;
    /// Redis spends at most a fortieth of its time on this.
    const PAUSE: Duration = Duration::from_millis(20);

    fn subject(&self, sweeping: &Sweeping) -> Subject {
        Subject::board(&sweeping.walk.deleted[0].id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Sweeping>, Error> {
        let deleted = swept_boards(&engine.store).await?;
        let sweeping = (!deleted.is_empty()).then(|| Sweeping {
            walk: Walk::new(&engine.store, deleted),
            lease: None,
        });
        Ok(sweeping.into_iter().collect())
    }

    async fn step(&self, engine: &Engine, sweeping: &mut Sweeping) -> Result<Progress, Error> {
        let (store, walk) = (&engine.store, &mut sweeping.walk);
        let lease = match sweeping.lease.take() {
            Some(lease) => lease,
            None => match Lease::take(store, Leased::of_all("sweep")).await? {
                Some(lease) => lease,
                None => return Ok(Progress::Done),
            },
        };
        if walk.advance(store).await? {
            let is_held = lease.renew("").await?;
            sweeping.lease = Some(lease);
            return Ok(Progress::more_if(is_held));
        }
        lease.give_back("").await?;
        let (boards, keys) = (walk.deleted.len(), walk.unlinked);
        tracing::info!(boards, keys, "data of deleted boards was unlinked");
        Ok(Progress::Done)
    }
}
