//! Spreading a board over another number of shards, while events and reads go on.
//!
//! ```text
//! capture ─▶ copy every standing ─▶ copy what has changed ─▶ close ─▶ copy the rest ─▶ open, flip ─▶ unlink
//!            └──────── again, while there is much ────────┘
//! ```
//!
//! - Until the flip the old shards are in use. From the first step on they note each change in the step that makes it
//!   (`scripts/lib/capture.lua`), so that the job copies a changed entry again. An entry is set as it is, never added, so
//!   copying it twice does no harm.
//! - When little is left the job *closes* the board by a new version of its definition. Events and reads wait for
//!   some hundredths of a second, and then go to the new shards.
//! - The whole progress lies in Redis. One instance at a time works on a move (`scripts/lease.lua`). If it dies, another
//!   one goes on. New shards refuse late calls of the earlier one.
//! - Remembered event ids are not copied. They stay where they are until they expire, and are looked up there
//!   (`engine/recall.rs`). The counts of quotas, which do not belong to members, stay for good. `store/kinds.rs` says for
//!   each kind how it is copied.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::jobs::faults::Subject;
use super::jobs::lease::Lease;
use super::jobs::{Job, JobKind, Progress};
use super::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::{Derived, Series};
use crate::domain::shard::{Shard, Sharding};
use crate::store::boards::Defined;
use crate::store::events::remember_ms;
use crate::store::keys;
use crate::store::kinds::{Copying, Kind};
use crate::store::leases::Leased;
use crate::store::reshard::{
    CHANGES_MAX, Change, Changed, CopiedIn, CopyIn, DerivedEntry, Notes, StoredMember,
};
use crate::store::{Store, StoreError, Versioned};

/// How many changes may be left when the board is closed, in each shard: some milliseconds of work.
const LEFT_MAX: u64 = 300;
/// How many old shards are read side by side.
const SHARDS_AT_ONCE: usize = 4;

/// Whether a step was done; otherwise another instance has taken over, and this one stops.
enum Step {
    Done,
    Lost,
}

/// Goes on if a step was done.
macro_rules! done {
    ($step:expr) => {
        if let Step::Lost = $step {
            return Ok(Step::Lost);
        }
    };
}

/// The job: moves the boards that are to be spread anew.
#[derive(Clone, Copy, Debug)]
pub struct Moves;

impl Job for Moves {
    type Item = BoardId;
    const KIND: JobKind = JobKind::Reshard;

    fn subject(&self, id: &BoardId) -> Subject {
        Subject::board(id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<BoardId>, Error> {
        Ok(engine.store.moving_boards().await?)
    }

    async fn step(&self, engine: &Engine, id: &BoardId) -> Result<Progress, Error> {
        engine.move_board(id).await?;
        Ok(Progress::Done)
    }
}

/// The lease of whoever moves a board. Its position is the number of entries that were copied, some of them again.
pub fn lease_of(board: &Board) -> Leased {
    Leased::of_board(board, "move")
}

impl Engine {
    async fn move_board(&self, id: &BoardId) -> Result<(), Error> {
        // A definition is noted as moving before it is stored as such, and again after it.
        let stored = self.store.load_board(id).await?.transpose()?;
        let moving = stored.and_then(|board| Some((board.placement.next?, board)));
        let Some((next, board)) = moving else {
            return Ok(self.store.mark_moving(id, false).await?);
        };
        let Some(lease) = Lease::take(&self.store, lease_of(&board)).await? else {
            return Ok(());
        };
        let mover = Mover {
            engine: self,
            store: &self.store,
            from: board.placement.current,
            to: next.to,
            old: board.shards(),
            new: board.shards_of(next.to),
            copied: AtomicU64::new(lease.position.parse().unwrap_or(0)),
            lease,
        };
        let ended = mover.run(board).await;
        let copied = mover.copied.into_inner();
        let position = match ended {
            Ok(Step::Done) => String::new(),
            _ => copied.to_string(),
        };
        let given_back = mover.lease.give_back(&position).await;
        ended?;
        Ok(given_back?)
    }
}

/// A move under way.
struct Mover<'a> {
    engine: &'a Engine,
    store: &'a Store,
    from: Sharding,
    to: Sharding,
    old: Vec<Shard>,
    new: Vec<Shard>,
    copied: AtomicU64,
    lease: Lease<'a>,
}

impl Mover<'_> {
    async fn run(&self, board: Arc<Board>) -> Result<Step, Error> {
        self.store.announce_shards(&board, self.to).await?;
        // From now on what an earlier holder of the lease has under way is refused.
        done!(self.copy_in_all(self.copies(), true).await?);
        let board = if board.placement.is_closing() {
            // Whoever has closed it had copied nearly all, unless something has gone since.
            self.store.retire_shards(&board, self.from).await?;
            done!(self.copy(&board).await?);
            board
        } else {
            done!(self.copy(&board).await?);
            let stamp = self.store.begin_change(&board.id).await?;
            let closed = Arc::new(board.placed(board.placement.closing(), stamp));
            self.store.mark_unneeded(&board, self.from).await?;
            let defined = self.store.define_board(&closed, Some(&board), None).await?;
            // Who meets that it is closed waits: there is nothing to announce.
            self.store.end_change(&board.id, stamp).await?;
            match defined {
                Defined::Stored => closed,
                // The definition has changed meanwhile: the next run closes that one.
                Defined::Changed | Defined::Used => return Ok(Step::Lost),
            }
        };
        self.finish(&board).await
    }

    /// Copies all that there is, and what has changed meanwhile, until little is left.
    async fn copy(&self, board: &Board) -> Result<Step, Error> {
        try_join_all(self.old.iter().map(|old| self.store.capture(old))).await?;
        loop {
            let copied: Vec<_> = self
                .old
                .iter()
                .map(|old| self.copy_shard(board, old))
                .collect();
            let copied = stream::iter(copied).buffer_unordered(SHARDS_AT_ONCE);
            let copied: Vec<Option<u64>> = copied.try_collect().await?;
            let Some(fresh) = copied.into_iter().sum::<Option<u64>>() else {
                return Ok(Step::Lost);
            };
            if fresh == 0 {
                return Ok(Step::Done);
            }
        }
    }

    /// Copies what of a shard has not been copied yet, and most of what has changed. Returns how many standings there
    /// were; `None` if the lease is lost.
    async fn copy_shard(&self, board: &Board, old: &Shard) -> Result<Option<u64>, Error> {
        let mut known = self.store.copied(old).await?;
        let complete = self.complete_standings(board, old).await?;
        let mut turnouts = Vec::new();
        let (mut cursor, mut fresh) = ("0".to_owned(), 0);
        loop {
            let (next, names) = self.store.names(old, &cursor).await?;
            for name in names {
                if known.contains_key(&name) {
                    continue;
                }
                let Some(kind) = keys::kind_of(old, &name) else {
                    continue;
                };
                match kind.copying() {
                    Copying::Members => {
                        if kind == Kind::Derived && !complete.contains(&name) {
                            continue;
                        }
                        if let Step::Lost = self.copy_standing(old, kind, &name).await? {
                            return Ok(None);
                        }
                        if let Step::Lost =
                            self.mark_copied(old, std::slice::from_ref(&name)).await?
                        {
                            return Ok(None);
                        }
                        fresh += 1;
                    }
                    Copying::Whole | Copying::Merged => turnouts.push((kind, name.clone())),
                    Copying::Rebuilt | Copying::Not => continue,
                }
                known.insert(name, true);
            }
            // They are noted as changes first: so they are not lost if this ends here.
            let captured = turnouts
                .iter()
                .map(|(kind, name)| keys::captured(*kind, name));
            let captured: Vec<String> = captured.collect();
            if let Step::Lost = self.copy_changes(old, &captured, LEFT_MAX).await? {
                return Ok(None);
            }
            let copied: Vec<String> = turnouts.drain(..).map(|(_, name)| name).collect();
            if let Step::Lost = self.mark_copied(old, &copied).await? {
                return Ok(None);
            }
            cursor = next;
            if cursor == "0" {
                return Ok(Some(fresh));
            }
        }
    }

    /// The sorted sets of a shard's derived standings that are complete.
    async fn complete_standings(
        &self,
        board: &Board,
        old: &Shard,
    ) -> Result<HashSet<String>, Error> {
        let mut complete = HashSet::new();
        for derived in board.derived() {
            let entries = self.store.derived_entries(old, derived.series).await?;
            let done = entries.iter().filter(|entry| entry.done);
            complete.extend(done.map(|entry| entry.zset().to_owned()));
        }
        Ok(complete)
    }

    async fn copy_standing(&self, old: &Shard, kind: Kind, zset: &str) -> Result<Step, Error> {
        let expires_at_ms = self.store.expires_at_ms(zset).await?;
        let mut cursor = "0".to_owned();
        loop {
            let (next, members) = self.store.scan_members(old, zset, &cursor).await?;
            let mut of_new = vec![Vec::new(); self.new.len()];
            for member in members {
                of_new[self.place_of(&member.id)?].push(member);
            }
            let mut copies = self.copies();
            for (place, members) in of_new.into_iter().enumerate() {
                if !members.is_empty() {
                    let zset = self.moved(zset, old, place)?;
                    copies[place].members(kind, zset, expires_at_ms, members);
                }
            }
            done!(self.copy_in_all(copies, false).await?);
            cursor = next;
            if cursor == "0" {
                return Ok(Step::Done);
            }
        }
    }

    /// Notes that these things were copied, so that the next who moves the board does not copy them again.
    async fn mark_copied(&self, old: &Shard, copied: &[String]) -> Result<Step, Error> {
        let notes = Notes {
            copied,
            ..Notes::default()
        };
        let is_noted = copied.is_empty() || self.changes(old, notes, 0).await?.is_some();
        Ok(if is_noted { Step::Done } else { Step::Lost })
    }

    /// Copies what has changed in a shard, and these things too, until no more than so much is left.
    async fn copy_changes(&self, old: &Shard, also: &[String], left: u64) -> Result<Step, Error> {
        let mut done = Vec::new();
        let mut also = also;
        loop {
            let notes = Notes {
                changed: also,
                done: &done,
                ..Notes::default()
            };
            let Some((count, changes)) = self.changes(old, notes, CHANGES_MAX).await? else {
                return Ok(Step::Lost);
            };
            if count <= left {
                return Ok(Step::Done);
            }
            let mut copies = self.copies();
            for change in &changes {
                self.add_change(&mut copies, old, change)?;
            }
            done!(self.copy_in_all(copies, false).await?);
            done = changes.into_iter().map(|change| change.noted).collect();
            also = &[];
        }
    }

    /// Notes something of a shard, and returns what has changed there; `None` if it is not being copied any more.
    async fn changes(
        &self,
        old: &Shard,
        notes: Notes<'_>,
        count: u32,
    ) -> Result<Option<(u64, Vec<Change>)>, Error> {
        Ok(match self.store.changes(old, notes, count).await? {
            Versioned::Current(changes) => Some(changes),
            Versioned::Stale => None,
        })
    }

    fn add_change(
        &self,
        copies: &mut [CopyIn<'_>],
        old: &Shard,
        change: &Change,
    ) -> Result<(), Error> {
        let place = match &change.now {
            Changed::Member(StoredMember { id, .. }) | Changed::Voters(Some(id), _) => {
                self.place_of(id)?
            }
            Changed::Counts(_) | Changed::Voters(None, _) => self.place_of_shard(old),
        };
        let (copy, at) = (&mut copies[place], change.expires_at_ms);
        let key = self.moved(&change.key, old, place)?;
        match &change.now {
            Changed::Member(member) => copy.members(change.kind, key, at, vec![member.clone()]),
            Changed::Counts(counts) => {
                for (tag, count) in counts {
                    copy.turnout(key.clone(), at, tag.clone(), *count);
                }
            }
            Changed::Voters(_, Some(voters)) => copy.voters(key, at, voters.clone()),
            Changed::Voters(_, None) => {}
        }
        Ok(())
    }

    /// With events and reads waiting: copies the rest, and lets them go to the new shards.
    async fn finish(&self, board: &Arc<Board>) -> Result<Step, Error> {
        self.store.retire_shards(board, self.from).await?;
        let rest = self.old.iter().map(|old| self.copy_changes(old, &[], 0));
        for step in try_join_all(rest).await? {
            done!(step);
        }
        done!(self.hand_over_derived(board).await?);
        // Whoever opens the shards has to hold the lease still.
        done!(self.copy_in_all(self.copies(), true).await?);
        let remembered = remember_ms(board);
        let ids_until_ms = self
            .engine
            .clock
            .redis_now()
            .ms()
            .saturating_add_unsigned(remembered);
        let stamp = self.store.begin_change(&board.id).await?;
        let moved = Arc::new(board.placed(board.placement.moved(ids_until_ms), stamp));
        self.store.open_shards(&moved).await?;
        if self.store.define_board(&moved, Some(board), None).await? != Defined::Stored {
            self.store.end_change(&board.id, stamp).await?;
            return Ok(Step::Lost);
        }
        self.engine.reload(&moved.id).await?;
        self.store
            .announce_board(&moved.id, true, Some(stamp))
            .await?;
        Ok(Step::Done)
    }

    /// Makes the derived standings known in the new shards that are complete in all old ones; what there is of others
    /// goes.
    async fn hand_over_derived(&self, board: &Board) -> Result<Step, Error> {
        let mut of_new: Vec<(CopyIn<'_>, HashSet<String>)> = self
            .copies()
            .into_iter()
            .map(|copy| (copy, HashSet::new()))
            .collect();
        for derived in board.derived() {
            let Some((first, complete)) = self.complete_everywhere(&derived).await? else {
                continue;
            };
            for (new, (copy, kept)) in self.new.iter().zip(&mut of_new) {
                let entries = complete.iter().map(|entry| entry.moved(first, new));
                let entries: Option<Vec<DerivedEntry>> = entries.collect();
                let entries = entries.ok_or_else(unexpected_key)?;
                kept.extend(entries.iter().map(|entry| entry.zset().to_owned()));
                copy.state(derived.series, &entries)?;
            }
        }
        for (new, (copy, kept)) in self.new.iter().zip(&mut of_new) {
            for zset in self.derived_names(new).await? {
                if !kept.contains(&zset) {
                    copy.drop_standing(zset);
                }
            }
        }
        let copies = of_new.into_iter().map(|(copy, _)| copy).collect();
        self.copy_in_all(copies, false).await
    }

    /// The standings of a derived series that are complete in all old shards and copied from there, as they are in one
    /// of these.
    async fn complete_everywhere(
        &self,
        derived: &Derived,
    ) -> Result<Option<(&Shard, Vec<DerivedEntry>)>, Error> {
        let mut common: Option<(&Shard, Vec<DerivedEntry>)> = None;
        for old in &self.old {
            let complete = self.copied_entries(old, derived.series).await?;
            match &mut common {
                None => common = Some((old, complete.into_values().collect())),
                Some((_, entries)) => entries.retain(|entry| complete.contains_key(&entry.start)),
            }
        }
        Ok(common)
    }

    async fn copied_entries(
        &self,
        old: &Shard,
        series: Series,
    ) -> Result<BTreeMap<i64, DerivedEntry>, Error> {
        let copied = self.store.copied(old).await?;
        let entries = self.store.derived_entries(old, series).await?;
        let is_whole = |entry: &DerivedEntry| entry.done && copied.get(entry.zset()) == Some(&true);
        let entries = entries.into_iter().filter(is_whole);
        Ok(entries.map(|entry| (entry.start, entry)).collect())
    }

    /// The sorted sets of the derived standings of which a new shard has something.
    async fn derived_names(&self, new: &Shard) -> Result<Vec<String>, Error> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let (next, names) = self.store.names(new, &cursor).await?;
            let is_derived = |name: &String| keys::kind_of(new, name) == Some(Kind::Derived);
            found.extend(names.into_iter().filter(is_derived));
            cursor = next;
            if cursor == "0" {
                return Ok(found);
            }
        }
    }

    /// Nothing yet for each new shard.
    fn copies(&self) -> Vec<CopyIn<'_>> {
        let new = self.new.iter();
        new.map(|shard| CopyIn::new(shard, self.lease.number))
            .collect()
    }

    /// Has the new shards take data over, those for which there is something or all, and keeps the lease.
    async fn copy_in_all(&self, copies: Vec<CopyIn<'_>>, all: bool) -> Result<Step, Error> {
        let entries: usize = copies.iter().map(CopyIn::entries).sum();
        let so_far = self.copied.fetch_add(entries as u64, Ordering::Relaxed);
        let copies = copies.into_iter().filter(|copy| all || copy.entries() > 0);
        let copied_in = copies.map(|copy| self.store.copy_in(copy));
        if try_join_all(copied_in)
            .await?
            .contains(&CopiedIn::Superseded)
        {
            return Ok(Step::Lost);
        }
        Ok(if self.lease.renew(&so_far.to_string()).await? {
            Step::Done
        } else {
            Step::Lost
        })
    }

    /// The new shard of a member.
    fn place_of(&self, member: &str) -> Result<usize, Error> {
        let member = MemberId::parse(member)
            .map_err(|error| StoreError::Unexpected(format!("a member that is stored: {error}")))?;
        Ok(self.to.index_of(&member))
    }

    /// The new shard of what an old one has for all of its members together.
    fn place_of_shard(&self, old: &Shard) -> usize {
        usize::from(old.shard_id.index) % self.new.len()
    }

    fn moved(&self, key: &str, old: &Shard, place: usize) -> Result<String, Error> {
        keys::moved(key, old, &self.new[place]).ok_or_else(unexpected_key)
    }
}

fn unexpected_key() -> Error {
    StoreError::Unexpected("a key of another shard".into()).into()
}
