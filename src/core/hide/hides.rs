//! Hides members of a board, brings them back, and lists the hidden ones.

use std::sync::Arc;
use std::time::Instant;

pub use super::store::hidden::Hiding;
use super::store::hidden::{self, HIDES_READ_MAX, KEPT_MAX};
use super::store::hide_ends;
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::hide::{HIDDEN_MAX, Hide, HideId};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::runtime::join::{join_all, try_join_all};

/// Of the shards that get a hide, the one whose journal says who was hidden: results are revised by its lines.
const REFERENCE: usize = 0;

impl LiveBoard {
    /// The shard of a league whose journal says who is hidden on the board.
    pub(crate) fn reference(&self) -> &Shard {
        &self.shards[REFERENCE].shard
    }
}

impl Engine {
    /// Hides a member of a board. An existing hide keeps its `id`, `since` and `by`. When this returns, every later read
    /// from a primary leaves the member out.
    ///
    /// # Errors
    ///
    /// [`Problem::too_many_hidden`] if no more members of the board may be hidden.
    pub async fn hide(
        &self,
        id: &BoardId,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Hiding, Error> {
        self.with_board(id, async |live| {
            self.hide_on(&live.board, member, hide).await
        })
        .await
    }

    /// Like [`Self::hide`], on a board that need not be in memory.
    pub(crate) async fn hide_on(
        &self,
        board: &Arc<Board>,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Hiding, Error> {
        let (told, others) = shards_told(board, member);
        let counted = others
            .iter()
            .map(|shard| hidden::list(&self.store, shard, None, 0));
        let counted = try_join_all(counted).await?;
        let elsewhere: u64 = counted.iter().map(|part| part.total).sum();
        let hidden_max = HIDDEN_MAX.saturating_sub(elsewhere);
        // Noted before, so that it is certainly noted; and after, in case a job has handled the note meanwhile.
        self.note_end(&board.id, hide.until).await?;
        (self.hooks.begin_moderation)(self, board, &told[REFERENCE]).await?;
        let set = async |shard| {
            let hiding = hidden::hide(&self.store, shard, member, hide, hidden_max).await?;
            hiding.ok_or_else(|| Problem::too_many_hidden(&board.id).into())
        };
        let hiding = settle(&told, set, |hiding: &Hiding| hiding.before.is_some()).await?;
        self.note_end(&board.id, hide.until).await?;
        board_notes::note(&self.store, NotedFor::Revision, board).await?;
        Ok(hiding)
    }

    /// Hides erased members on a board as soon as they have data there. They are given by name (`erasures::erased_name`),
    /// since their ids are unknown. The board need not be in memory.
    pub(crate) async fn keep_hides(
        &self,
        board: &Arc<Board>,
        hides: &[(&str, &Hide)],
    ) -> Result<(), Error> {
        for hides in hides.chunks(KEPT_MAX) {
            for shard in &board.shards() {
                hidden::keep_hides(&self.store, shard, hides).await?;
            }
            for (_, hide) in hides {
                self.note_end(&board.id, hide.until).await?;
            }
        }
        Ok(())
    }

    async fn note_end(&self, id: &BoardId, until: Option<Timestamp>) -> Result<(), Error> {
        match until {
            Some(until) => Ok(hide_ends::note(&self.store, id, until).await?),
            None => Ok(()),
        }
    }

    /// Brings a member of a board back, with `ends` only from a hide with that end. Returns the hide that it had.
    pub async fn unhide(
        &self,
        id: &BoardId,
        member: &MemberId,
        ends: Option<Timestamp>,
    ) -> Result<Option<Hide>, Error> {
        self.with_board(id, async |live| {
            let (board, (told, _)) = (&live.board, shards_told(&live.board, member));
            hide_ends::note_day(&self.store, id, self.clock.now()).await?;
            (self.hooks.begin_moderation)(self, board, &told[REFERENCE]).await?;
            let set = async |shard| Ok(hidden::unhide(&self.store, shard, member, ends).await?);
            let before = settle(&told, set, Option::is_none).await?;
            if before.is_some() {
                board_notes::note(&self.store, NotedFor::Revision, board).await?;
            }
            Ok(before)
        })
        .await
    }

    /// Waits until every later read, by any instance, includes what was acknowledged at that instant: as long as the
    /// stalest replica that any of them uses may be behind.
    pub async fn wait_for_replicas(&self, acknowledged: Instant) -> Result<(), Error> {
        let greatest = self.store.greatest_staleness().await?;
        tokio::time::sleep_until((acknowledged + greatest).into()).await;
        Ok(())
    }

    /// Lists hidden members of a board with their hides, in byte order: up to `count` of them, less than
    /// [`HIDES_READ_MAX`], after `after`; and counts all.
    pub async fn hidden(
        &self,
        id: &BoardId,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<(Part<(MemberId, Hide), MemberId>, u64), Error> {
        let count = count.min(HIDES_READ_MAX - 1);
        self.with_board(id, async |live| {
            let parts = live
                .shards
                .iter()
                .map(|live| hidden::list(&self.store, &live.shard, after, count + 1));
            let parts = try_join_all(parts).await?;
            let totals = parts.iter().map(|part| part.total);
            // In a league all shards list the same members.
            let total = if live.board.is_league() {
                totals.max().unwrap_or_default()
            } else {
                totals.sum()
            };
            let mut members: Vec<_> = parts.into_iter().flat_map(|part| part.members).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            members.dedup_by(|(one, _), (other, _)| one == other);
            let part = Part::split(members, count, |(last, _)| last.clone());
            Ok((part, total))
        })
        .await
    }

    /// Which of these members of a board are hidden, with their hides.
    pub async fn hidden_among(
        &self,
        id: &BoardId,
        members: &[MemberId],
    ) -> Result<Vec<(MemberId, Hide)>, Error> {
        self.with_board(id, async |live| {
            let mut of_shard = vec![Vec::new(); live.shards.len()];
            for member in members {
                of_shard[live.board.shard_of(member)].push(member.clone());
            }
            let asked = live
                .shards
                .iter()
                .zip(&of_shard)
                .flat_map(|(shard, members)| {
                    members
                        .chunks(HIDES_READ_MAX)
                        .map(|members| hidden::among(&self.store, &shard.shard, members))
                });
            let parts = try_join_all(asked).await?;
            Ok(parts.into_iter().flat_map(|part| part.members).collect())
        })
        .await
    }

    /// The member of a board whose hide has this id, and the hide; `None` if there is none.
    pub async fn hidden_by(
        &self,
        id: &BoardId,
        hide: &HideId,
    ) -> Result<Option<(MemberId, Hide)>, Error> {
        let mut after = None;
        loop {
            let (found, _) = self.hidden(id, after.as_ref(), HIDES_READ_MAX).await?;
            let Part { items, next } = found;
            let found = items.into_iter().find(|(_, own)| own.id == *hide);
            if found.is_some() || next.is_none() {
                return Ok(found);
            }
            after = next;
        }
    }
}

/// The shards that are informed when a member is hidden or brought back, and the others. A member has one home; in a league
/// it may have entries in all shards.
fn shards_told(board: &Arc<Board>, member: &MemberId) -> (Vec<Shard>, Vec<Shard>) {
    let mut shards = board.shards();
    if board.is_league() {
        return (shards, Vec::new());
    }
    let own = shards.swap_remove(board.shard_of(member));
    (vec![own], shards)
}

/// Sets a value in some shards so that all end alike, even if another caller sets another value meanwhile: in the reference
/// shard last, and again until that one says that nothing changed. Returns its first answer.
///
/// Of two callers with different values, the one that finishes last has found its own value in that shard twice. So it has
/// set the others after the other caller did.
async fn settle<'a, T, F>(
    shards: &'a [Shard],
    set: impl Fn(&'a Shard) -> F,
    is_settled: impl Fn(&T) -> bool,
) -> Result<T, Error>
where
    T: Send,
    F: Future<Output = Result<T, Error>> + Send,
{
    let (reference, others) = shards.split_first().expect("invariant: some shard exists");
    let mut first = None;
    for _ in 0..ATTEMPTS_MAX {
        // All of these calls end before another attempt begins.
        for told in join_all(others.iter().map(&set)).await {
            told?;
        }
        let told = set(reference).await?;
        if others.is_empty() || is_settled(&told) {
            return Ok(first.unwrap_or(told));
        }
        first.get_or_insert(told);
    }
    Err(Error::busy())
}
