//! Definitions: stored with their board, and announced to all instances.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::connection::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, Versioned, keys, script};
use crate::domain::board::{Board, Definition};
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;
use crate::domain::window::Window;

/// The most keys of a deleted board that one call unlinks; unlinking is quick, the memory is freed elsewhere.
const PURGE_KEYS: u32 = 200;

/// What the field `definition` of a board's key holds.
#[derive(Deserialize, Serialize)]
struct Stored {
    generation: u64,
    revision: u64,
    #[serde(default)]
    epochs: BTreeMap<Window, u64>,
    definition: Definition,
}

/// How storing a definition ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Defined {
    /// It is stored.
    Stored,
    /// Another version was there than the caller saw.
    Changed,
    /// The board has events, and the change is allowed only without.
    Used,
}

impl Store {
    /// The stored board of that name.
    pub async fn load_board(&self, id: &BoardId) -> Result<Option<Board>, StoreError> {
        let json: Option<String> = self
            .command("HGET", vec![keys::head(id.as_str()), "definition".into()])
            .await?;
        let Some(json) = json else { return Ok(None) };
        let stored: Stored = serde_json::from_str(&json)
            .map_err(|error| StoreError::Unexpected(format!("the definition of {id}: {error}")))?;
        let Stored {
            generation,
            revision,
            epochs,
            definition,
        } = stored;
        Ok(Some(Board::new(
            id.clone(),
            definition,
            generation,
            revision,
            epochs,
        )))
    }

    /// Stores a board if its stored version is the one that was `seen`, and, with `only_unused`, if it has
    /// no events.
    pub async fn define_board(
        &self,
        board: &Board,
        seen: Option<&Board>,
        only_unused: bool,
    ) -> Result<Defined, StoreError> {
        let stored = Stored {
            generation: board.generation,
            revision: board.revision,
            epochs: board.epochs.clone(),
            definition: board.definition.clone(),
        };
        let json = serde_json::to_string(&stored)
            .map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let seen = seen.map(Board::version).unwrap_or_default();
        let only_unused = if only_unused { "1" } else { "0" };
        let args = vec![
            seen.into(),
            only_unused.into(),
            board.version().into(),
            json.into(),
        ];
        let reply = self
            .write(board, &script::DEFINE, vec![head(board)], args)
            .await?;
        match Reply::new(reply)?.text()?.as_str() {
            "OK" => Ok(Defined::Stored),
            "CHANGED" => Ok(Defined::Changed),
            "USED" => Ok(Defined::Used),
            other => unknown_code(other),
        }
    }

    /// Takes a board's definition away if its stored version is this one. Its data is marked for
    /// [`Store::purge_board`] before, so that it is never left behind. Returns whether it did.
    pub async fn delete_board(&self, board: &Board) -> Result<bool, StoreError> {
        let () = self
            .command(
                "SADD",
                vec![keys::DELETED.into(), Deleted::new(board).to_string()],
            )
            .await?;
        let args = vec![board.version().into()];
        let reply = self
            .write(board, &script::DELETE, vec![head(board)], args)
            .await?;
        match Reply::new(reply)?.text()?.as_str() {
            "OK" => Ok(true),
            "CHANGED" => Ok(false),
            other => unknown_code(other),
        }
    }

    /// A number for a new board that no other has had.
    pub async fn next_generation(&self) -> Result<u64, StoreError> {
        self.command("INCR", vec![keys::GENERATION.into()]).await
    }

    /// Tells all instances that a board has changed, come or gone.
    pub async fn announce_board(&self, board: &Board, is_live: bool) -> Result<(), StoreError> {
        let keys = vec![
            keys::LIVE.into(),
            keys::CHANGES.into(),
            keys::SEQUENCE.into(),
        ];
        let is_live = if is_live { "1" } else { "0" };
        let args = vec![board.id.as_str().into(), is_live.into()];
        self.write(board, &script::ANNOUNCE, keys, args)
            .await
            .map(drop)
    }

    /// The boards that have changed after the change with that number, with their numbers, ascending.
    pub async fn changed_boards(&self, after: u64) -> Result<Vec<(BoardId, u64)>, StoreError> {
        let range = [
            "ZRANGE",
            keys::CHANGES,
            &format!("({after}"),
            "+inf",
            "BYSCORE",
            "WITHSCORES",
        ];
        let flat: Vec<String> = self
            .command(
                "ZRANGE",
                range[1..].iter().map(ToString::to_string).collect(),
            )
            .await?;
        let pairs = flat
            .chunks_exact(2)
            .filter_map(|pair| Some((BoardId::parse(&pair[0]).ok()?, pair[1].parse().ok()?)));
        Ok(pairs.collect())
    }

    /// Up to `count` ids of boards in the order of their bytes, behind `after`.
    pub async fn board_ids(
        &self,
        after: Option<&BoardId>,
        count: usize,
    ) -> Result<Vec<BoardId>, StoreError> {
        let from = after.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
        let count = count.to_string();
        let range = [
            keys::LIVE,
            from.as_str(),
            "+",
            "BYLEX",
            "LIMIT",
            "0",
            count.as_str(),
        ];
        let ids: Vec<String> = self
            .command("ZRANGE", range.iter().map(ToString::to_string).collect())
            .await?;
        Ok(ids
            .iter()
            .filter_map(|id| BoardId::parse(id).ok())
            .collect())
    }

    /// Tells all shards of a board which version of its definition holds. What is older than they know they ignore.
    pub async fn open_shards(&self, board: &Board) -> Result<(), StoreError> {
        let shards = board.shards();
        let opened = shards.iter().map(|shard| {
            let version = [board.generation, board.revision];
            let args = version.map(|number| number.to_string().into()).to_vec();
            self.write(shard, &script::SHARD, vec![head(shard)], args)
        });
        try_join_all(opened).await.map(drop)
    }

    /// Notes that a board of several shards has events. Returns whether the definition is still this one.
    pub async fn mark_used(&self, board: &Board) -> Result<Versioned<()>, StoreError> {
        let args = vec![board.version().into()];
        let reply = self
            .write(board, &script::USE, vec![head(board)], args)
            .await?;
        Ok(match Reply::answer(reply)? {
            Versioned::Current(_) => Versioned::Current(()),
            Versioned::Stale => Versioned::Stale,
        })
    }

    /// The deleted boards whose data is not yet unlinked.
    pub async fn deleted_boards(&self) -> Result<Vec<Deleted>, StoreError> {
        let names: Vec<String> = self.command("SMEMBERS", vec![keys::DELETED.into()]).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Unlinks a bounded part of a deleted board's data; returns whether there is more. A board that is not
    /// deleted is left alone.
    pub async fn purge_board(&self, deleted: &Deleted) -> Result<bool, StoreError> {
        let stored = self.load_board(&deleted.id).await?;
        if stored.is_some_and(|board| board.generation == deleted.generation) {
            // Its deletion has not come that far yet, or has failed.
            return Ok(false);
        }
        let purged = deleted.tags().map(async |tag| {
            let keys = vec![keys::registry(&tag, deleted.generation), keys::head(&tag)];
            let generation = deleted.generation.to_string();
            let args = vec![generation.into(), PURGE_KEYS.to_string().into()];
            let reply = self.write_at(&tag, &script::PURGE, keys, args).await?;
            match Reply::new(reply)?.text()?.as_str() {
                "MORE" => Ok(true),
                "DONE" => Ok(false),
                other => unknown_code(other),
            }
        });
        let is_more = try_join_all(purged).await?.contains(&true);
        if !is_more {
            let () = self
                .command("SREM", vec![keys::DELETED.into(), deleted.to_string()])
                .await?;
        }
        Ok(is_more)
    }
}

/// A board that was deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deleted {
    /// Its generation.
    pub generation: u64,
    /// Its id, which a newer board may have by now.
    pub id: BoardId,
    /// How many shards it had.
    pub shards: u16,
}

impl Deleted {
    fn new(board: &Board) -> Self {
        Self {
            generation: board.generation,
            id: board.id.clone(),
            shards: board.definition.shards,
        }
    }

    /// What its keys have in common, shard by shard.
    fn tags(&self) -> impl Iterator<Item = String> {
        let shards = (0..self.shards).map(|index| Shard {
            index,
            of: self.shards,
        });
        shards.map(|shard| shard.tag(&self.id))
    }
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.generation, self.id, self.shards)
    }
}

impl FromStr for Deleted {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(' ');
        let mut part = || parts.next().ok_or(());
        Ok(Self {
            generation: part()?.parse().map_err(drop)?,
            id: BoardId::parse(part()?).map_err(drop)?,
            shards: part()?.parse().map_err(drop)?,
        })
    }
}

fn head(board: &Board) -> String {
    keys::head(&board.tag())
}
