//! Definitions: stored with their board, and announced to all instances.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, Versioned, keys, script};
use crate::domain::board::{Board, Definition};
use crate::domain::ids::BoardId;
use crate::domain::placement::Placement;
use crate::domain::shard::Sharding;
use crate::domain::window::Window;

/// What the field `definition` of a board's key holds.
#[derive(Deserialize, Serialize)]
struct Stored {
    generation: u64,
    revision: u64,
    #[serde(default)]
    epochs: BTreeMap<Window, u64>,
    placement: Placement,
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
        read_definition(id, &json).map(Some)
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
            placement: board.placement.clone(),
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
    /// [`Store::purge`] before, so that it is never left behind. Returns whether it did.
    pub async fn delete_board(&self, board: &Board) -> Result<bool, StoreError> {
        for sharding in board.placement.all() {
            self.mark_unneeded(board, sharding).await?;
        }
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
        self.announce(&board.id, is_live).await
    }

    /// The same by its id.
    pub async fn announce(&self, id: &BoardId, is_live: bool) -> Result<(), StoreError> {
        let keys = vec![
            keys::LIVE.into(),
            keys::CHANGES.into(),
            keys::SEQUENCE.into(),
        ];
        let is_live = if is_live { "1" } else { "0" };
        let args = vec![id.as_str().into(), is_live.into()];
        self.write_at(id.as_str(), &script::ANNOUNCE, keys, args)
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

    /// Tells all shards of a board, and where the counts of its quotas lie, which version of its definition holds. What is older than they know they ignore.
    pub async fn open_shards(&self, board: &Board) -> Result<(), StoreError> {
        self.tell_version(board, board.placement.current, board.revision)
            .await?;
        if !board.reserves() || board.placement.home().is_together() {
            return Ok(());
        }
        let homes = board.homes();
        let told = homes.iter().map(|home| {
            self.tell(
                home,
                keys::counts_head(&home.tag(), home.placement.home()),
                board.revision,
            )
        });
        try_join_all(told).await.map(drop)
    }

    /// The same for shards of another sharding, or another revision.
    pub(super) async fn tell_version(
        &self,
        board: &Board,
        sharding: Sharding,
        revision: u64,
    ) -> Result<(), StoreError> {
        let shards = board.shards_of(sharding);
        let told = shards
            .iter()
            .map(|shard| self.tell(shard, head(shard), revision));
        try_join_all(told).await.map(drop)
    }

    async fn tell(&self, shard: &Board, head: String, revision: u64) -> Result<(), StoreError> {
        let version = [shard.generation, revision];
        let args = version.map(|number| number.to_string().into()).to_vec();
        let told = self.write(shard, &script::SHARD, vec![head], args);
        told.await.map(drop)
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
}

/// A board as the field `definition` of its key holds it.
pub(super) fn read_definition(id: &BoardId, json: &str) -> Result<Board, StoreError> {
    let stored: Stored = serde_json::from_str(json)
        .map_err(|error| StoreError::Unexpected(format!("the definition of {id}: {error}")))?;
    let Stored {
        generation,
        revision,
        epochs,
        placement,
        definition,
    } = stored;
    Ok(Board {
        placement,
        ..Board::new(id.clone(), definition, generation, revision, epochs)
    })
}

fn head(board: &Board) -> String {
    keys::head(&board.tag())
}
