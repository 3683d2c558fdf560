//! Unlinks keys of deleted boards that no registry names: remembered events, counts of quotas, and others that expire.
//!
//! Registering each of those keys would make every event more expensive. So the sweep searches all keys of all servers for
//! them, a bounded part at a time, once for all boards deleted since the last sweep. It may miss a key that moves to
//! another server meanwhile; that key stays until it expires.

use std::sync::Arc;

use crate::redis::Value;

use super::purge::{self, Unneeded};
use crate::domain::ids::BoardId;
use crate::domain::texts::fields_as_text;
use crate::redis::connection::Call;
use crate::redis::decode::decode;
use crate::redis::dispatch::Store;
use crate::redis::node::Node;
use crate::redis::{StoreError, keys, script};

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
pub struct Sweep {
    /// The boards whose keys are searched.
    pub deleted: Vec<Deleted>,
    /// How many keys were unlinked so far.
    pub unlinked: u64,
    /// The remaining servers; the one being walked is last.
    servers: Vec<Arc<Node>>,
    cursor: String,
}

/// The deleted boards whose keys must be searched.
pub async fn swept_boards(store: &Store) -> Result<Vec<Deleted>, StoreError> {
    let names: Vec<String> = store.command("SMEMBERS", [keys::DELETED]).await?;
    let mut deleted: Vec<Deleted> = names.iter().filter_map(|name| name.parse().ok()).collect();
    // As long as a shard has its head, events may come in there.
    for unneeded in purge::unneeded(store).await? {
        deleted.retain(|deleted| *deleted != Deleted::of(&unneeded));
    }
    Ok(deleted)
}

/// Begins a search for leftovers of these boards.
pub fn begin(store: &Store, deleted: Vec<Deleted>) -> Sweep {
    Sweep {
        deleted,
        unlinked: 0,
        servers: store.primaries(),
        cursor: "0".to_owned(),
    }
}

/// Searches the next part; returns whether there is more. A walk that is given up starts again later, on any instance.
pub async fn advance(store: &Store, sweep: &mut Sweep) -> Result<bool, StoreError> {
    let Some(server) = sweep.servers.last() else {
        let names = sweep.deleted.iter().map(ToString::to_string);
        let names = std::iter::once(keys::DELETED.to_owned()).chain(names);
        let _removed: i64 = store.command("SREM", names).await?;
        return Ok(false);
    };
    let mut args = vec![
        Value::from(sweep.cursor.clone()),
        CALL_KEYS.to_string().into(),
        keys::swept_pattern().into(),
        keys::swept_codes().into(),
    ];
    args.extend(sweep.deleted.iter().map(|board| board.to_string().into()));
    let call = Arc::new(Call::new(&script::SWEEP, Vec::new(), args));
    let unlinked: u64;
    (sweep.cursor, unlinked) = decode(server.write(keys::DELETED, call, 0).await?)?;
    sweep.unlinked += unlinked;
    if sweep.cursor == "0" {
        sweep.servers.pop();
    }
    Ok(true)
}
