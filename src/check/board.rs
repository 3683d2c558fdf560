//! Checks one board: its definition, its shards' registries and queues, and its place in the list of boards.

use std::collections::HashSet;
use std::sync::Arc;

use super::store::{self, Head};
use super::{Check, LOOK_AGAIN_AFTER, Place, RepairOutcome};
use crate::core::ATTEMPTS_MAX;
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards::RETIRED;
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;
use crate::moves;
use crate::queue::store::queues::{self, QueueName};
use crate::redis::kinds::{Copying, Kind};
use crate::redis::{StoreError, keys};

impl Check<'_> {
    /// Checks one board by its current definition.
    pub(super) async fn check_board(&mut self, id: &BoardId) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let before = self.report.clone();
            match self.check_defined(id).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Stale) => {}
                Err(error) => return Err(error),
            }
            if !self.repair.writes() {
                self.report = before;
            }
        }
        self.report
            .note(format!("board {id} was not checked: it keeps changing"));
        Ok(())
    }

    async fn check_defined(&mut self, id: &BoardId) -> Result<(), StoreError> {
        let place = Place::of_board(id);
        let head = self.head(id.as_str()).await?;
        if !self.is_of_type(&place, "its key", &head.found, "hash") {
            return Ok(());
        }
        let Some(defined) = head.board(id) else {
            // A lost definition is reported with the list of boards.
            return Ok(());
        };
        let Some(board) = self.unless_damaged(&place, defined)?.map(Arc::new) else {
            return Ok(());
        };
        if !self.check_version(&board, &head).await? {
            return Ok(());
        }
        self.report.boards += 1;
        if let Some(next) = board.placement.next {
            let shards = next.to.shards;
            self.report.note(format!(
                "board {id} is moving to {shards} shards: the new shards were not checked, and the board was not repaired"
            ));
            self.check_moving(&board).await?;
            if next.is_closing {
                return Ok(());
            }
        }
        self.report.unsure = 0;
        for shard in board.shards() {
            self.check_shard(&shard).await?;
        }
        let unsure = self.report.unsure;
        if unsure > 0 {
            self.report.note(format!(
                "the totals of {unsure} standings of board {id} were not checked: they keep changing"
            ));
        }
        Ok(())
    }

    /// Checks the version stored next to a definition; returns whether it is right now. It follows from the definition,
    /// unless that has gone back to an older one.
    async fn check_version(&mut self, board: &Arc<Board>, head: &Head) -> Result<bool, StoreError> {
        if head.version.as_deref() == Some(&board.version()) {
            return Ok(true);
        }
        let known = head.version.as_deref().unwrap_or("none");
        let place = Place::of_board(&board.id);
        if let Some(newer) = self.newer_version(board, head).await? {
            let detail = format!(
                "its definition is an older one ({}; stored version: {known}; in use before: {newer}). Restore {} \
                 from a backup",
                board.version(),
                keys::head(board.id.as_str())
            );
            self.report
                .add(&place, "went_back", RepairOutcome::Left, detail);
            return Ok(false);
        }
        let is_repaired =
            self.repair.writes() && store::restore_version(self.store, board, head).await?;
        let detail = format!(
            "stored version: {known}; version of its definition: {}",
            board.version()
        );
        self.report
            .add(&place, "version", is_repaired.into(), detail);
        Ok(is_repaired)
    }

    /// A later version of a board than its definition has, if events or shards knew one.
    async fn newer_version(
        &self,
        board: &Arc<Board>,
        head: &Head,
    ) -> Result<Option<String>, StoreError> {
        let mut versions: Vec<String> = head.used.iter().cloned().collect();
        for shard in board.shards() {
            if !shard.shard_id.of.is_together() {
                let head = self.head(shard.tag()).await?;
                versions.extend(head.version);
            }
        }
        let amendment_of = |version: &String| {
            let (generation, amendment) = version.rsplit_once('-')?;
            let amendment: u64 = amendment.parse().ok()?;
            (generation == board.generation.to_string()).then_some(amendment)
        };
        let newest = versions.into_iter().max_by_key(amendment_of);
        Ok(newest.filter(|version| {
            let amendment = amendment_of(version);
            amendment > Some(board.amendment) && amendment != Some(RETIRED)
        }))
    }

    /// A board that is to move has to be registered, or it never moves.
    async fn check_moving(&mut self, board: &Board) -> Result<(), StoreError> {
        if board_notes::is_noted(self.store, NotedFor::Move, board).await? {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        if self.is_changed(board).await? {
            return Err(StoreError::Stale);
        }
        if board_notes::is_noted(self.store, NotedFor::Move, board).await? {
            return Ok(());
        }
        if self.repair.writes() {
            board_notes::note(self.store, NotedFor::Move, board).await?;
        }
        let detail = "it has to move to other shards, but is missing from the list of moves";
        let outcome = self.repair.writing();
        self.report
            .add(&Place::of_board(&board.id), "not_moving", outcome, detail);
        Ok(())
    }

    /// Whether a board's definition has changed.
    async fn is_changed(&self, board: &Board) -> Result<bool, StoreError> {
        let head = self.head(board.id.as_str()).await?;
        Ok(head.version != Some(board.version()))
    }

    async fn check_shard(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let tag = shard.tag();
        let registry = keys::registry(tag, shard.generation);
        let found = store::type_of(self.store, &registry).await?;
        if !shard.shard_id.of.is_together() {
            let head = self.head(tag).await?;
            if !self.check_head(shard, &head, found != "none").await? {
                return Ok(());
            }
        }
        let is_sound = self.is_of_type(&Place::of_shard(shard), "its registry", &found, "set");
        if !is_sound || found == "none" {
            return Ok(());
        }
        // First, because standings are compared with what it says.
        self.check_hides(shard).await?;
        self.doubtful.clear();
        self.damaged.clear();
        self.check_registered(shard, |_| true).await?;
        self.check_all_derived(shard).await?;
        // While a history ends, events that come have no rows any more.
        if shard.keeps_events() {
            self.check_events(shard).await?;
        }
        self.check_queue(shard).await
    }

    /// Checks what a shard knows of the definition. One that knows an older one gets the current one with the next call.
    /// Returns whether the shard is in use.
    async fn check_head(
        &mut self,
        shard: &Shard,
        head: &Head,
        has_data: bool,
    ) -> Result<bool, StoreError> {
        let known = head.version.as_deref().unwrap_or_default();
        let (generation, amendment) = known.rsplit_once('-').unwrap_or_default();
        let is_own = generation == shard.generation.to_string();
        let is_older = amendment
            .parse()
            .is_ok_and(|amendment: u64| amendment <= shard.amendment);
        if is_own && is_older {
            return Ok(true);
        }
        if self.is_changed(shard).await? {
            return Err(StoreError::Stale);
        }
        if is_own || has_data || !head.is_sound() {
            let known = match head.found.as_str() {
                "hash" => format!("has version {known:?}"),
                "none" => "has no version".to_owned(),
                found => format!("is of type {found}"),
            };
            let detail = format!(
                "its head {known}; the version of the definition is {}",
                shard.version()
            );
            self.report
                .add(&Place::of_shard(shard), "head", RepairOutcome::Left, detail);
        }
        Ok(false)
    }

    /// Checks everything in the registry of a shard that is of some kinds.
    pub(super) async fn check_registered(
        &mut self,
        shard: &Shard,
        is_wanted: fn(Kind) -> bool,
    ) -> Result<(), StoreError> {
        let (mut cursor, mut seen) = ("0".to_owned(), HashSet::new());
        let place = Place::of_shard(shard);
        loop {
            let names = moves::store::names(self.store, shard, &cursor).await;
            let Some((next, names)) = self.unless_damaged(&place, names)? else {
                return Ok(());
            };
            for name in names {
                let Some(kind) = keys::kind_of(shard, &name) else {
                    continue;
                };
                if !is_wanted(kind) {
                    continue;
                }
                match kind.copying() {
                    Copying::Whole => self.check_turnout(shard, &name, "hash").await?,
                    Copying::Merged => self.check_turnout(shard, &name, "string").await?,
                    Copying::Members | Copying::Rebuilt => {
                        let zset = keys::sorted_set_of(&name);
                        if let Some(kind) = keys::kind_of(shard, zset)
                            && kind.is_standing()
                            && is_wanted(kind)
                            && seen.insert(zset.to_owned())
                        {
                            self.check_standing(shard, kind, zset).await?;
                        }
                    }
                    Copying::Lines | Copying::Rows | Copying::Everywhere | Copying::Not => {}
                }
            }
            cursor = next;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Checks the form of counts of events or voters: they are stored once, so there is nothing to compare.
    async fn check_turnout(
        &mut self,
        shard: &Shard,
        key: &str,
        expected: &str,
    ) -> Result<(), StoreError> {
        const HYPERLOGLOG: &[u8] = b"HYLL";
        let found = store::type_of(self.store, key).await?;
        let place = Place::of_key(shard, key);
        if self.is_of_type(&place, "it", &found, expected) && found == "string" {
            let beginning = store::beginning_of(self.store, key, 4).await?;
            // It may have expired by now.
            if !beginning.is_empty() && beginning != HYPERLOGLOG {
                let detail = "it is not a HyperLogLog";
                self.report.add(&place, "type", RepairOutcome::Left, detail);
            }
        }
        Ok(())
    }

    async fn check_queue(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let key = keys::single(shard, Kind::Queue);
        let place = Place::of_key(shard, &key);
        let look = self.comparer(shard).queue().await;
        let Some(part) = self.compared(&place, look)? else {
            return Ok(());
        };
        self.report.add_all(shard, &place, part.differences);
        let (count, is_whole) = part.progress;
        if !is_whole {
            let id = &shard.id;
            self.report.note(format!(
                "a queue of board {id} was not checked: {count} events wait in it"
            ));
        }
        if count > 0 && self.is_unlisted(shard).await? {
            // Events of a queue wait while the index lacks it.
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            if self.is_unlisted(shard).await? {
                if self.is_changed(shard).await? {
                    return Err(StoreError::Stale);
                }
                let may_repair = self.comparer(shard).repair.writes();
                let is_repaired = may_repair && queues::relist(self.store, shard).await?;
                let detail = "events wait in it, but it is missing from the index of queues";
                self.report
                    .add(&place, "not_indexed", is_repaired.into(), detail);
            }
        }
        Ok(())
    }

    /// Whether a queue has events, but the index lacks it. Its size is read last, so one emptied meanwhile is not reported.
    async fn is_unlisted(&self, shard: &Shard) -> Result<bool, StoreError> {
        let name = QueueName::of(shard);
        let is_listed = queues::listed(self.store).await?.contains(&name);
        Ok(!is_listed && queues::size(self.store, &name).await?.events > 0)
    }
}
