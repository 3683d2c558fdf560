//! Unlinking data that nothing needs any more: of deleted boards, and of shards that a board has moved away from.

use std::fmt;
use std::str::FromStr;

use futures::future::try_join_all;

use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::shard::Sharding;

/// The most keys that one call unlinks; unlinking is quick, the memory is freed elsewhere.
const CALL_KEYS_MAX: u32 = 200;

/// Data that is to be unlinked as soon as nothing needs it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Unneeded {
    /// The generation of its board.
    pub generation: u64,
    /// The board's id, which a newer board may have by now.
    pub id: BoardId,
    /// In which shards it lies.
    pub sharding: Sharding,
}

impl fmt::Display for Unneeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.generation, self.id, self.sharding)
    }
}

impl FromStr for Unneeded {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(' ');
        let mut part = || parts.next().ok_or(());
        Ok(Self {
            generation: part()?.parse().map_err(drop)?,
            id: BoardId::parse(part()?).map_err(drop)?,
            sharding: part()?.parse().map_err(drop)?,
        })
    }
}

impl Store {
    /// Marks the data of one of a board's shardings, so that it is unlinked once nothing needs it.
    pub async fn mark_unneeded(&self, board: &Board, sharding: Sharding) -> Result<(), StoreError> {
        let unneeded = Unneeded {
            generation: board.generation,
            id: board.id.clone(),
            sharding,
        };
        self.mark(&unneeded).await
    }

    /// The same for what is known by its keys alone.
    pub async fn mark(&self, unneeded: &Unneeded) -> Result<(), StoreError> {
        self.command("SADD", vec![keys::UNNEEDED.into(), unneeded.to_string()])
            .await
    }

    /// What has been marked.
    pub async fn unneeded(&self) -> Result<Vec<Unneeded>, StoreError> {
        let names: Vec<String> = self
            .command("SMEMBERS", vec![keys::UNNEEDED.into()])
            .await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Unlinks a bounded part of data that was marked; returns whether there is more. What its board needs is left
    /// alone: its deletion, or its move, has not come that far yet, or has failed.
    pub async fn purge(&self, unneeded: &Unneeded) -> Result<bool, StoreError> {
        let Unneeded {
            generation,
            id,
            sharding,
        } = unneeded;
        let stored = self.load_board(id).await?;
        let board = stored.filter(|board| board.generation == *generation);
        if board
            .as_ref()
            .is_some_and(|board| board.placement.needs(*sharding))
        {
            return Ok(false);
        }
        let purged = sharding.all().map(async |shard| {
            let tag = shard.tag(id);
            let mut keys = vec![keys::registry(&tag, *generation)];
            if board.is_some() {
                // The head stays, and refuses what comes in late; so do the counts of quotas.
                return self.unlink(&tag, keys, *generation).await;
            }
            keys.push(keys::head(&tag));
            let quotas = vec![
                keys::quotas_registry(&tag, *generation),
                keys::counts_head(&tag, *sharding),
            ];
            let is_more = self.unlink(&tag, keys, *generation).await?;
            Ok(self.unlink(&tag, quotas, *generation).await? || is_more)
        });
        let is_more = try_join_all(purged).await?.contains(&true);
        if !is_more {
            let () = self
                .command("SREM", vec![keys::UNNEEDED.into(), unneeded.to_string()])
                .await?;
        }
        Ok(is_more)
    }

    async fn unlink(
        &self,
        tag: &str,
        keys: Vec<String>,
        generation: u64,
    ) -> Result<bool, StoreError> {
        let args = vec![
            generation.to_string().into(),
            CALL_KEYS_MAX.to_string().into(),
        ];
        let reply = self.write_at(tag, &script::PURGE, keys, args).await?;
        match Reply::new(reply)?.text()?.as_str() {
            "MORE" => Ok(true),
            "DONE" => Ok(false),
            other => unknown_code(other),
        }
    }
}
