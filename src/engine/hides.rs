//! Hides members of a board, brings them back, and lists who is hidden.

use std::sync::Arc;
use std::time::Instant;

use futures::future::{join_all, try_join_all};

use super::{ATTEMPTS_MAX, Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::hide::{HIDDEN_MAX, Hide};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::time::Timestamp;
use crate::store::Versioned;
pub use crate::store::hidden::Hiding;
use crate::store::hidden::{HIDES_READ_MAX, Hidden, HiddenMembers, KEPT_MAX};

/// Some of the hidden members of a board.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundHidden {
    /// How many members of the board are hidden.
    pub total: u64,
    /// Some of them with their hides, in the order of their bytes.
    pub members: Vec<(MemberId, Hide)>,
    /// Behind whom the next part begins; `None`: this was the last.
    pub next: Option<MemberId>,
}

impl Engine {
    /// Hides a member of a board: a hide that is there keeps its `since` and its `by`. When this returns, every read that begins
    /// later and asks a primary leaves the member out.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyHidden`] if as many members of the board are hidden as may be.
    pub async fn hide(
        &self,
        id: &BoardId,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Hiding, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(id).await?;
            if let Some(hidden) = self.hide_on(&live.board, member, hide).await? {
                return Ok(hidden);
            }
            self.reload(id).await?;
        }
        Err(Error::busy())
    }

    /// The same on a board that need not be in memory; `None` if its definition has changed.
    pub(super) async fn hide_on(
        &self,
        board: &Arc<Board>,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Option<Hiding>, Error> {
        let (shards, own) = (board.shards(), board.shard_of(member));
        let others = shards.iter().enumerate().filter(|(shard, _)| *shard != own);
        let counted = others.map(|(_, shard)| self.store.hidden_members(shard, None, 0));
        let counted = try_join_all(counted).await?.into_iter().map(current);
        let Some(counted) = counted.collect::<Option<Vec<HiddenMembers>>>() else {
            return Ok(None);
        };
        let elsewhere: u64 = counted.iter().map(|part| part.total).sum();
        // Noted before, so that it is noted at all; and after, so that no job has come to it meanwhile.
        self.note_end(&board.id, hide.until).await?;
        self.begin_moderation(board, &shards[own]).await?;
        let hidden_max = HIDDEN_MAX.saturating_sub(elsewhere);
        let done = self.store.hide(&shards[own], member, hide, hidden_max);
        match current(done.await?) {
            None => Ok(None),
            Some(Hidden::Full) => Err(Error::TooManyHidden(board.id.clone())),
            Some(Hidden::Done(hidden)) => {
                self.note_end(&board.id, hide.until).await?;
                self.store.note_moderated(board).await?;
                Ok(Some(hidden))
            }
        }
    }

    /// Hides erased members, whose ids nobody knows any more, on a board as soon as they have data there. Each has its name
    /// (`Store::erased_name`). The board need not be in memory; `None` if its definition has changed.
    pub(super) async fn keep_hides(
        &self,
        board: &Arc<Board>,
        hides: &[(&str, &Hide)],
    ) -> Result<Option<()>, Error> {
        for hides in hides.chunks(KEPT_MAX) {
            for shard in &board.shards() {
                if current(self.store.keep_hides(shard, hides).await?).is_none() {
                    return Ok(None);
                }
            }
            for (_, hide) in hides {
                self.note_end(&board.id, hide.until).await?;
            }
        }
        Ok(Some(()))
    }

    async fn note_end(&self, id: &BoardId, until: Option<Timestamp>) -> Result<(), Error> {
        match until {
            Some(until) => Ok(self.store.note_hide_end(id, until).await?),
            None => Ok(()),
        }
    }

    /// Brings a member of a board back, with `ends` only from a hide that ends then. Returns the hide that it had.
    pub async fn unhide(
        &self,
        id: &BoardId,
        member: &MemberId,
        ends: Option<Timestamp>,
    ) -> Result<Option<Hide>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(id).await?;
            let shard = &live.shard_of(member).shard;
            self.begin_moderation(&live.board, shard).await?;
            if let Some(before) = current(self.store.unhide(shard, member, ends).await?) {
                self.store.note_moderated(&live.board).await?;
                return Ok(before);
            }
            self.reload(id).await?;
        }
        Err(Error::busy())
    }

    /// Waits until what was acknowledged at that instant holds for every read that begins later, by any instance: as long
    /// as any of them believes replicas that are behind.
    pub async fn wait_for_replicas(&self, acknowledged: Instant) -> Result<(), Error> {
        let greatest = self.store.greatest_staleness().await?;
        tokio::time::sleep_until((acknowledged + greatest).into()).await;
        Ok(())
    }

    /// Lists hidden members of a board: up to `count` of them, less than [`HIDES_READ_MAX`], behind `after`.
    pub async fn hidden(
        &self,
        id: &BoardId,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<FoundHidden, Error> {
        let count = count.min(HIDES_READ_MAX - 1);
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(id).await?;
            // One more than wanted tells whether there is a next part.
            let parts = 0..live.shards.len();
            let parts = parts.map(|shard| self.part_of(&live, shard, after, count + 1));
            let parts = try_join_all(parts).await?;
            if let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() {
                return Ok(FoundHidden::of_parts(parts, count));
            }
            self.reload(id).await?;
        }
        Err(Error::busy())
    }

    /// Which of these members of a board are hidden, with their hides.
    pub async fn hidden_among(
        &self,
        id: &BoardId,
        members: &[MemberId],
    ) -> Result<Vec<(MemberId, Hide)>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(id).await?;
            let mut of_shard = vec![Vec::new(); live.shards.len()];
            for member in members {
                of_shard[live.board.shard_of(member)].push(member.clone());
            }
            let asked = live.shards.iter().zip(&of_shard);
            let asked = asked.flat_map(|(shard, members)| {
                let calls = members.chunks(HIDES_READ_MAX);
                calls.map(|members| self.store.hidden_among(&shard.shard, members))
            });
            let mut found = Vec::new();
            let mut is_stale = false;
            for part in join_all(asked).await {
                match part? {
                    Versioned::Current(part) => found.extend(part.members),
                    Versioned::Stale => is_stale = true,
                }
            }
            if !is_stale {
                return Ok(found);
            }
            self.reload(id).await?;
        }
        Err(Error::busy())
    }

    /// The hidden members of one shard, or some of them; `None` if the definition has changed.
    async fn part_of(
        &self,
        live: &LiveBoard,
        shard: usize,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<Option<HiddenMembers>, Error> {
        let shard = &live.shards[shard].shard;
        let part = self.store.hidden_members(shard, after, count);
        Ok(current(part.await?))
    }
}

/// The answer, unless the definition has changed.
fn current<T>(versioned: Versioned<T>) -> Option<T> {
    versioned.ok_or(()).ok()
}

impl FoundHidden {
    /// Merges what the shards tell, up to `count` members.
    fn of_parts(parts: Vec<HiddenMembers>, count: usize) -> Self {
        let total = parts.iter().map(|part| part.total).sum();
        let members = parts.into_iter().flat_map(|part| part.members);
        let mut members: Vec<_> = members.collect();
        members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_more = members.len() > count;
        members.truncate(count);
        let last = members.last().filter(|_| is_more);
        Self {
            total,
            next: last.map(|(member, _)| member.clone()),
            members,
        }
    }
}
