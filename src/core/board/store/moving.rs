//! The boards that are moving to other shards.

use crate::domain::ids::BoardId;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys};

/// The revision that shards get when their board has moved away: no definition has it, and none is newer.
pub const RETIRED: u64 = (1 << 53) - 1;

/// Notes that a board is moving to other shards, or not any more.
pub async fn mark_moving(store: &Store, id: &BoardId, is_moving: bool) -> Result<(), StoreError> {
    let name = if is_moving { "SADD" } else { "SREM" };
    store.command(name, [keys::MOVING, id.as_str()]).await
}

/// The boards that are moving.
pub async fn moving_boards(store: &Store) -> Result<Vec<BoardId>, StoreError> {
    let ids: Vec<String> = store.command("SMEMBERS", [keys::MOVING]).await?;
    Ok(ids.iter().flat_map(|id| BoardId::parse(id)).collect())
}
