//! Hides members of a board, brings them back, and lists who is hidden.

use std::sync::Arc;
use std::time::Instant;

pub use super::store::hidden::Hiding;
use super::store::hidden::{self, HIDES_READ_MAX, KEPT_MAX};
use super::store::hide_ends;
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard, LiveShard};
use crate::domain::board::Board;
use crate::domain::hide::{HIDDEN_MAX, Hide, HideId};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::runtime::join::{join_all, try_join_all};

/// Of the shards that are told of a hide, the one whose journal tells who was hidden: by its lines results are revised.
const REFERENCE: usize = 0;

impl LiveBoard {
    /// The shard of a league whose journal says who is hidden on the board.
    pub(crate) fn reference(&self) -> &Shard {
        &self.shards[REFERENCE].shard
    }
}

impl Engine {
    /// Hides a member of a board: a hide that is there keeps its `id`, its `since` and its `by`. When this returns, every read that begins
    /// later and asks a primary leaves the member out.
    ///
    /// # Errors
    ///
    /// [`Problem::too_many_hidden`] if as many members of the board are hidden as may be.
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

    /// The same on a board that need not be in memory.
    pub(crate) async fn hide_on(
        &self,
        board: &Arc<Board>,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Hiding, Error> {
        let (told, others) = shards_told(board, member);
        let counted = others.iter();
        let counted = counted.map(|shard| hidden::list(&self.store, shard, None, 0));
        let counted = try_join_all(counted).await?;
        let elsewhere: u64 = counted.iter().map(|part| part.total).sum();
        let hidden_max = HIDDEN_MAX.saturating_sub(elsewhere);
        // Noted before, so that it is noted at all; and after, so that no job has come to it meanwhile.
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

    /// Hides erased members, whose ids nobody knows any more, on a board as soon as they have data there. Each has its name
    /// (`erasures::erased_name`). The board need not be in memory.
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

    /// Brings a member of a board back, with `ends` only from a hide that ends then. Returns the hide that it had.
    pub async fn unhide(
        &self,
        id: &BoardId,
        member: &MemberId,
        ends: Option<Timestamp>,
    ) -> Result<Option<Hide>, Error> {
        self.with_board(id, async |live| {
            let (board, (told, _)) = (&live.board, shards_told(&live.board, member));
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

    /// Waits until what was acknowledged at that instant holds for every read that begins later, by any instance: as long
    /// as any of them believes replicas that are behind.
    pub async fn wait_for_replicas(&self, acknowledged: Instant) -> Result<(), Error> {
        let greatest = self.store.greatest_staleness().await?;
        tokio::time::sleep_until((acknowledged + greatest).into()).await;
        Ok(())
    }

    /// Lists hidden members of a board with their hides, in the order of their bytes: up to `count` of them, less than [`HIDES_READ_MAX`], behind `after`.
    pub async fn hidden(
        &self,
        id: &BoardId,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<Part<(MemberId, Hide), MemberId>, Error> {
        let count = count.min(HIDES_READ_MAX - 1);
        self.with_board(id, async |live| {
            let shards = live.shards.iter();
            let parts = shards.map(|live| hidden::list(&self.store, &live.shard, after, count + 1));
            let parts = try_join_all(parts).await?.into_iter();
            let mut members: Vec<_> = parts.flat_map(|part| part.members).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            // In a league all shards tell of the same members.
            members.dedup_by(|(one, _), (other, _)| one == other);
            Ok(Part::split(members, count, |(last, _)| last.clone()))
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
            let asked = live.shards.iter().zip(&of_shard);
            let asked = asked.flat_map(|(shard, members)| {
                let calls = members.chunks(HIDES_READ_MAX);
                calls.map(|members| hidden::among(&self.store, &shard.shard, members))
            });
            let parts = try_join_all(asked).await?;
            Ok(parts.into_iter().flat_map(|part| part.members).collect())
        })
        .await
    }

    /// Which member of a board has the hide with this id, and the hide; `None` if there is none.
    pub async fn hidden_by(
        &self,
        id: &BoardId,
        hide: &HideId,
    ) -> Result<Option<(MemberId, Hide)>, Error> {
        self.with_board(id, async |live| {
            for LiveShard { shard, .. } in &live.shards {
                let mut after = None;
                loop {
                    let part = hidden::list(&self.store, shard, after.as_ref(), HIDES_READ_MAX);
                    let members = part.await?.members;
                    let is_last = members.len() < HIDES_READ_MAX;
                    after = members.last().map(|(member, _)| member.clone());
                    let found = members.into_iter().find(|(_, own)| own.id == *hide);
                    if found.is_some() {
                        return Ok(found);
                    }
                    if is_last {
                        break;
                    }
                }
            }
            Ok(None)
        })
        .await
    }
}

/// The shards that are told when a member is hidden or brought back, and those that are not. A member has one home; in a league it may
/// have entries in all shards.
fn shards_told(board: &Arc<Board>, member: &MemberId) -> (Vec<Shard>, Vec<Shard>) {
    let mut shards = board.shards();
    if board.is_league() {
        return (shards, Vec::new());
    }
    let own = shards.swap_remove(board.shard_of(member));
    (vec![own], shards)
}

/// Sets something in some shards, so that they end alike, whoever else sets something else meanwhile: in the one whose journal results
/// are revised by last, and once more, until that one says that it was so already. Returns what it said first.
///
/// Of two callers that set different things the one that is settled last has found its own in that shard twice. So it has set the
/// others after the other caller did.
async fn settle<'a, T, F>(
    shards: &'a [Shard],
    set: impl Fn(&'a Shard) -> F,
    is_settled: impl Fn(&T) -> bool,
) -> Result<T, Error>
where
    T: Send,
    F: Future<Output = Result<T, Error>> + Send,
{
    let (reference, others) = shards.split_first().expect("invariant: some shard is told");
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
