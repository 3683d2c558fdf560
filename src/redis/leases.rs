//! Leases: each lets one instance at a time do some work.

use serde::Deserialize;

use super::decode::Coded;
use super::dispatch::Store;
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::shard::Shard;

/// The work that a lease is for.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The tag of the slot in which it is stored.
    tag: String,
    /// The hash in which it is stored.
    key: String,
    /// The generation of its board, if it is for one board.
    generation: Option<u64>,
    name: &'static str,
}

/// A granted lease.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Given {
    /// Its number, which grows each time that the lease goes to another holder.
    pub number: u64,
    /// The progress of the work; empty at its beginning.
    pub position: String,
}

impl Leased {
    /// Some work on a board.
    pub fn of_board(board: &Board, name: &'static str) -> Self {
        Self {
            tag: board.id.to_string(),
            key: keys::head(board.id.as_str()),
            generation: Some(board.generation),
            name,
        }
    }

    /// Some work on a shard of a board.
    pub fn of_shard(shard: &Shard, name: &'static str) -> Self {
        Self {
            tag: shard.tag().to_owned(),
            key: keys::head(shard.tag()),
            generation: Some(shard.generation),
            name,
        }
    }

    /// Some work on what all boards share.
    pub fn of_all(name: &'static str) -> Self {
        Self {
            tag: keys::LEASES.to_owned(),
            key: keys::LEASES.to_owned(),
            generation: None,
            name,
        }
    }
}

impl Store {
    /// Grants a lease to a holder, or extends it, for this many milliseconds; 0 releases it. `position` is the holder's
    /// progress. `None`: another instance holds it, or the board was deleted.
    pub async fn lease(
        &self,
        leased: &Leased,
        holder: &str,
        duration_ms: u64,
        position: &str,
    ) -> Result<Option<Given>, StoreError> {
        let given = self
            .call(&script::LEASE, &leased.tag)
            .key(&leased.key)
            .arg(leased.generation)
            .arg(leased.name)
            .arg(holder)
            .arg(duration_ms)
            .arg(position)
            .write::<Coded<Given>>();
        match given.await?.after("OK", "HELD") {
            Err(StoreError::Stale) => Ok(None),
            given => given,
        }
    }

    /// The progress of some work; empty before its beginning and after its end.
    pub async fn lease_position(&self, leased: &Leased) -> Result<String, StoreError> {
        let field = format!("{}:position", leased.name);
        let position: Option<String> = self.command("HGET", [&leased.key, &field]).await?;
        Ok(position.unwrap_or_default())
    }
}
