//! Hides members of a board, brings them back, and lists who is hidden.

use futures::future::{join_all, try_join_all};

use super::{Error, Service};
use crate::domain::hide::{HIDDEN_MAX, Hide};
use crate::domain::ids::{BoardId, MemberId};
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::Versioned;
use crate::store::hidden::{HIDES_READ_MAX, Hidden, HiddenMembers};

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

impl Service {
    /// Hides a member of a board. When this returns, every read that begins later and asks a primary leaves the member out.
    pub async fn hide(
        &self,
        id: &BoardId,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Hidden, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(id).await?;
            let own = live.board.shard_of(member);
            let others = (0..live.shards.len()).filter(|shard| *shard != own);
            let counted = others.map(|shard| self.part_of(&live, shard, None, 0));
            let counted = try_join_all(counted).await?;
            if let Some(counted) = counted.into_iter().collect::<Option<Vec<_>>>() {
                let elsewhere: u64 = counted.iter().map(|part| part.total).sum();
                let hidden_max = HIDDEN_MAX.saturating_sub(elsewhere);
                let shard = &live.shards[own].shard;
                let done = self.engine.store.hide(shard, member, hide, hidden_max);
                if let Versioned::Current(hidden) = done.await? {
                    return Ok(hidden);
                }
            }
            self.engine.reload(id).await?;
        }
        Err(Error::busy())
    }

    /// Brings a member of a board back. Returns whether it was hidden.
    pub async fn unhide(&self, id: &BoardId, member: &MemberId) -> Result<bool, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(id).await?;
            let shard = &live.shard_of(member).shard;
            if let Versioned::Current(was_hidden) =
                self.engine.store.unhide(shard, member, None).await?
            {
                return Ok(was_hidden);
            }
            self.engine.reload(id).await?;
        }
        Err(Error::busy())
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
            let live = self.engine.live_board(id).await?;
            // One more than wanted tells whether there is a next part.
            let parts =
                (0..live.shards.len()).map(|shard| self.part_of(&live, shard, after, count + 1));
            let parts = try_join_all(parts).await?;
            if let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() {
                return Ok(FoundHidden::of_parts(parts, count));
            }
            self.engine.reload(id).await?;
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
            let live = self.engine.live_board(id).await?;
            let mut of_shard = vec![Vec::new(); live.shards.len()];
            for member in members {
                of_shard[live.board.shard_of(member)].push(member.clone());
            }
            let asked = live.shards.iter().zip(&of_shard);
            let asked = asked.filter(|(_, members)| !members.is_empty());
            let asked =
                asked.map(|(shard, members)| self.engine.store.hidden_among(&shard.shard, members));
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
            self.engine.reload(id).await?;
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
        let part = self.engine.store.hidden_members(shard, after, count);
        Ok(part.await?.ok_or(()).ok())
    }
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
