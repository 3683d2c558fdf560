//! Copies data to the new shards of a board.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::try_join;

use super::job::Position;
use super::store::{self, CHANGES_MAX, Change, Changed, CopyIn, Notes, StoredMember};
use crate::core::jobs::lease::Lease;
use crate::core::write::store::events::member_of_row;
use crate::core::{Error, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::intake::KnownOffsets;
use crate::domain::shard::{Shard, Sharding};
use crate::periods::closings;
use crate::queue::{dead_letters, intake};
use crate::redis::kinds::{Copying, Form, Kind};
use crate::redis::{Store, StoreError, keys};
use crate::runtime::join::try_join_all;

/// How many calls for changes are made in a row: enough to catch up with what changes while other boards are moved.
const CHANGES_CALLS_MAX: usize = 16;

/// How many dead letters one call copies.
const LETTERS_MAX: usize = 200;
/// How many partitions of the log one call covers.
const PARTITIONS_MAX: usize = 200;

/// The new shards of a board, and the lease under which data is copied.
pub(super) struct Copier {
    pub(super) store: Arc<Store>,
    pub(super) lease: Lease,
    pub(super) to: Sharding,
    /// The progress of the move at the beginning of this step.
    pub(super) position: String,
    pub(super) new: Vec<Shard>,
    /// The number of entries copied, including repeated copies.
    pub(super) copied: AtomicU64,
}

impl Copier {
    pub(super) fn new(store: &Arc<Store>, lease: Lease, board: &Arc<Board>, to: Sharding) -> Self {
        Self {
            store: Arc::clone(store),
            to,
            position: lease.position.clone(),
            new: board.shards_of(to),
            copied: AtomicU64::new(Position::parse(&lease.position).copied),
            lease,
        }
    }

    /// Ensures that the lease is held, and that the new shards refuse calls of an earlier holder.
    pub(super) async fn hold(&self) -> Result<(), Error> {
        self.copy_in_all(self.copies(), true).await
    }

    /// Raises the barriers of the new shards to the greatest of the old ones. Those are not raised any more: the old shards
    /// take no calls. Also ensures that the lease is held.
    pub(super) async fn hand_over_barrier(&self, old: &[Shard]) -> Result<(), Error> {
        let barriers = old
            .iter()
            .map(|old| closings::store::barriers(&self.store, old));
        let barriers = try_join_all(barriers).await?;
        let raised = barriers.iter().filter_map(|[raised, _]| *raised).max();
        // A closing that waits for the log continues with the new shards.
        let seen = barriers.iter().map(|[_, seen]| *seen).min().flatten();
        let mut copies = self.copies();
        let from = old
            .iter()
            .filter(|old| old.history.is_some())
            .map(|old| store::events_from(&self.store, old));
        let from = try_join_all(from).await?.into_iter().flatten().max();
        for copy in &mut copies {
            copy.barriers(raised, seen);
            copy.events_from(from);
        }
        self.copy_in_all(copies, true).await
    }

    /// Gives the new shards the offsets that the old ones have taken from the log, once those take nothing more.
    pub(super) async fn hand_over_intake(
        &self,
        from: Sharding,
        old: &[Shard],
    ) -> Result<(), Error> {
        let known = old
            .iter()
            .map(|old| intake::store::all_known_offsets(&self.store, old));
        let known = try_join_all(known).await?;
        let partitions: BTreeSet<&String> = known.iter().flat_map(|known| known.keys()).collect();
        for partitions in Vec::from_iter(partitions).chunks(PARTITIONS_MAX) {
            let mut copies = self.copies();
            for partition in partitions {
                let of_shards: Vec<_> = known
                    .iter()
                    .map(|known| known.get(*partition).cloned())
                    .map(Option::unwrap_or_default)
                    .collect();
                let former = KnownOffsets::hand_over(from, &of_shards);
                if former.is_empty() {
                    continue;
                }
                for copy in &mut copies {
                    copy.intake(partition, &former)?;
                }
            }
            self.copy_in_all(copies, false).await?;
        }
        Ok(())
    }

    /// Copies a part of a standing, or of lines, and returns the next cursor, `0` at the end.
    pub(super) async fn copy_part(
        &self,
        old: &Shard,
        kind: Kind,
        zset: &str,
        cursor: &str,
    ) -> Result<String, Error> {
        if !kind.is_standing() {
            return self.copy_lines(old, kind, zset, cursor).await;
        }
        let expires_at_ms = store::expires_at_ms(&self.store, zset);
        let members = store::scan_members(&self.store, old, zset, cursor);
        let (expires_at_ms, (next, members)) = try_join(expires_at_ms, members).await?;
        let mut of_new = vec![Vec::new(); self.new.len()];
        for member in members {
            of_new[self.index_of(&member.id)?].push(member);
        }
        let mut copies = self.copies();
        for (index, members) in of_new.into_iter().enumerate() {
            if !members.is_empty() {
                let zset = self.moved(zset, old, index)?;
                copies[index].members(kind, zset, expires_at_ms, members);
            }
        }
        self.copy_in_all(copies, false).await?;
        Ok(next)
    }

    /// Copies a part of the lines of a kind, and returns the next cursor, `0` at the end.
    async fn copy_lines(
        &self,
        old: &Shard,
        kind: Kind,
        key: &str,
        cursor: &str,
    ) -> Result<String, Error> {
        let (next, lines) = store::scan_lines(&self.store, key.to_owned(), cursor).await?;
        let expires_at_ms = match kind.form() {
            Form::Part => store::expires_at_ms(&self.store, key).await?,
            _ => 0,
        };
        let mut copies = self.copies();
        for (name, line) in lines {
            let of = (kind, key, expires_at_ms);
            self.add_line(&mut copies, old, of, &name, Some(&line))?;
        }
        self.copy_in_all(copies, false).await?;
        Ok(next)
    }

    fn add_line(
        &self,
        copies: &mut [CopyIn<'_>],
        old: &Shard,
        (kind, key, expires_at_ms): (Kind, &str, i64),
        name: &str,
        line: Option<&Bytes>,
    ) -> Result<(), Error> {
        let index = match kind.copying() {
            Copying::Everywhere => None,
            // A row that is removed may be in any shard.
            Copying::Rows => line
                .map(|row| member_of_row(row))
                .transpose()?
                .flatten()
                .map(|member| self.to.index_of(&member)),
            _ => Some(self.index_of(name)?),
        };
        for index in index.map_or(0..copies.len(), |index| index..index + 1) {
            let key = match kind.form() {
                Form::Named | Form::Part => Some((self.moved(key, old, index)?, expires_at_ms)),
                _ => None,
            };
            copies[index].line(kind, key, name.to_owned(), line.cloned());
        }
        Ok(())
    }

    /// Copies a bounded number of a shard's changes. Returns whether at most `remaining` are left.
    pub(super) async fn copy_changes(&self, old: &Shard, remaining: u64) -> Result<bool, Error> {
        let (mut calls, mut done) = (0, Vec::new());
        loop {
            let notes = Notes {
                done: &done,
                ..Notes::default()
            };
            let (count, changes) = store::changes(&self.store, old, notes, CHANGES_MAX).await?;
            if count <= remaining || calls == CHANGES_CALLS_MAX {
                return Ok(count <= remaining);
            }
            let mut copies = self.copies();
            for change in &changes {
                self.add_change(&mut copies, old, change)?;
            }
            self.copy_in_all(copies, false).await?;
            done = changes.into_iter().map(|change| change.noted).collect();
            calls += 1;
        }
    }

    fn add_change(
        &self,
        copies: &mut [CopyIn<'_>],
        old: &Shard,
        change: &Change,
    ) -> Result<(), Error> {
        let index = match &change.now {
            Changed::Line(name, line) => {
                let of = (change.kind, change.key.as_str(), change.expires_at_ms);
                return self.add_line(copies, old, of, name, line.as_ref());
            }
            Changed::Member(StoredMember { id, .. }) | Changed::Voters(Some(id), _) => {
                self.index_of(id)?
            }
            Changed::Counts(_) | Changed::Voters(None, _) => self.index_of_shard(old),
        };
        let (copy, at) = (&mut copies[index], change.expires_at_ms);
        let key = self.moved(&change.key, old, index)?;
        match &change.now {
            Changed::Member(member) => copy.members(change.kind, key, at, vec![member.clone()]),
            Changed::Counts(counts) => {
                for (tag, count) in counts {
                    copy.turnout(key.clone(), at, tag.clone(), *count);
                }
            }
            Changed::Voters(_, Some(voters)) => copy.voters(key, at, voters.clone()),
            // The member was erased, or the voters have expired.
            Changed::Voters(Some(_), None) => copy.drop_key(key),
            Changed::Voters(None, None) | Changed::Line(..) => {}
        }
        Ok(())
    }

    /// An empty copy for each new shard.
    pub(super) fn copies(&self) -> Vec<CopyIn<'_>> {
        self.new
            .iter()
            .map(|shard| CopyIn::new(shard, self.lease.number))
            .collect()
    }

    /// Sends copies to the new shards, if any have data, and renews the lease. `all`: empty ones, too.
    pub(super) async fn copy_in_all(
        &self,
        copies: Vec<CopyIn<'_>>,
        all: bool,
    ) -> Result<(), Error> {
        let entries: usize = copies.iter().map(|copy| copy.entries).sum();
        let copies = copies.into_iter().filter(|copy| all || copy.entries > 0);
        let copied_in = try_join_all(copies.map(|copy| store::copy_in(&self.store, copy)));
        if copied_in.await?.contains(&false) || !self.lease.renew(&self.position).await? {
            return Err(Error::Again(Outdated::Board));
        }
        self.copied.fetch_add(entries as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Copies the dead letters, once there will be no more. Unreadable ones are assigned by their shard (`index_of_shard`).
    pub(super) async fn hand_over_letters(&self, old: &[Shard]) -> Result<(), Error> {
        let read = old
            .iter()
            .map(|old| dead_letters::store::all(&self.store, old));
        let read = try_join_all(read).await?;
        let mut letters = Vec::new();
        for (old, of_old) in old.iter().zip(read) {
            letters.extend(of_old.into_iter().map(|letter| match letter.event() {
                Ok(event) => (self.to.index_of(&event.member), letter),
                Err(_) => (self.index_of_shard(old), letter),
            }));
        }
        if letters.is_empty() {
            return Ok(());
        }
        letters.sort_by_key(|(_, letter)| letter.place);
        let mut copies = self.copies();
        for copy in &mut copies {
            // An earlier holder of the lease may have copied some.
            copy.drop_letters();
        }
        self.copy_in_all(copies, true).await?;
        for (part, letters) in letters.chunks(LETTERS_MAX).enumerate() {
            let mut copies = self.copies();
            for (place, (index, letter)) in letters.iter().enumerate() {
                // Letters of different shards may have the same place.
                let number = (part * LETTERS_MAX + place + 1) as u64;
                let place = letter.place.numbered(number);
                copies[*index].letter(letter.moved_to(place));
            }
            self.copy_in_all(copies, false).await?;
        }
        Ok(())
    }

    /// The new shard of a member.
    fn index_of(&self, member: &str) -> Result<usize, Error> {
        let member = MemberId::stored(member).map_err(|error| {
            StoreError::Unexpected(format!("a stored member can't be read: {error}"))
        })?;
        Ok(self.to.index_of(&member))
    }

    /// The new shard for data that an old one has for all of its members together.
    fn index_of_shard(&self, old: &Shard) -> usize {
        usize::from(old.shard_id.index) % self.new.len()
    }

    fn moved(&self, key: &str, old: &Shard, index: usize) -> Result<String, Error> {
        keys::moved(key, old, &self.new[index]).ok_or_else(unexpected_key)
    }
}

pub(super) fn unexpected_key() -> Error {
    StoreError::Unexpected("a key is of another shard".into()).into()
}
