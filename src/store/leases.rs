//! Leases: each lets one instance at a time do some work.

use fred::types::Value;

use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::shard::Shard;

/// What a lease is for.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The tag of the slot that it lies in.
    tag: String,
    /// The hash that it lies in.
    key: String,
    /// The generation of its board, if it is one board's.
    generation: Option<u64>,
    /// The name of the work.
    name: &'static str,
}

/// A lease that was given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Given {
    /// Its number. It is greater each time that the lease goes to another holder.
    pub number: u64,
    /// How far the work had come; empty at its beginning.
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
    /// Gives a holder the lease for so many milliseconds, or for as many more; 0 gives it back. `position` says how far
    /// the holder has come. `None`: another one holds it, or the board was deleted.
    pub async fn lease(
        &self,
        leased: &Leased,
        holder: &str,
        duration_ms: u64,
        position: &str,
    ) -> Result<Option<Given>, StoreError> {
        let generation = leased.generation.map(|number| number.to_string());
        let duration = duration_ms.to_string();
        let generation = generation.unwrap_or_default();
        let args = [&generation, leased.name, holder, &duration, position];
        let args = args.map(Value::from).to_vec();
        let key = vec![leased.key.clone()];
        let reply = self
            .write_at(&leased.tag, &script::LEASE, key, args)
            .await?;
        let mut reply = Reply::new(reply)?;
        match reply.text()?.as_str() {
            "OK" => Ok(Some(Given {
                number: reply.count()?,
                position: reply.text()?,
            })),
            "HELD" | "STALE" => Ok(None),
            other => unknown_code(other),
        }
    }

    /// How far some work has come; empty before its beginning and after its end.
    pub async fn lease_position(&self, leased: &Leased) -> Result<String, StoreError> {
        let field = format!("{}:position", leased.name);
        let position: Option<String> = self
            .command("HGET", vec![leased.key.clone(), field])
            .await?;
        Ok(position.unwrap_or_default())
    }
}
