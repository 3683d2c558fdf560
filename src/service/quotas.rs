//! Reads what is left of a board's quotas.

use std::sync::Arc;

use super::{Error, Service};
use crate::domain::event::Origin;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::quota::{self, QuotaUse};
use crate::domain::time::Timestamp;
use crate::engine::LiveBoard;
use crate::join::try_join_all;
use crate::store::quotas::Taken;

/// Who asks.
#[derive(Clone, Debug)]
pub struct QuotasRequest {
    /// Which board's quotas.
    pub board: BoardId,
    /// Where an event would come from.
    pub origin: Origin,
    /// For whom it would be.
    pub member: Option<MemberId>,
}

/// What was taken of those quotas that go by nothing else than the request names.
#[derive(Clone, Debug)]
pub struct FoundQuotas {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// Of what time it is.
    pub now: Timestamp,
    /// Each quota, and what was taken of it.
    pub counts: Vec<(QuotaUse, Taken)>,
}

impl Service {
    /// Reads what was taken of a board's quotas, as an event would find it now.
    pub async fn quotas(&self, request: &QuotasRequest) -> Result<FoundQuotas, Error> {
        let member = request.member.as_ref();
        self.engine
            .with_board(&request.board, async |live| {
                let now = self.engine.clock.now();
                let uses = quota::counts(&live.board, &request.origin, member, now);
                if uses.is_empty() {
                    // No shard is asked: those of a board without events need not know its definition yet.
                    self.engine.reload(&request.board).await?;
                    self.engine.require_current(&live)?;
                }
                // Where the counts lie with the members, that is one place.
                let homes = live.homes.len().max(1);
                let read = (0..homes).map(|home| self.counts_at(&live, home, &uses, now));
                let mut counts = try_join_all(read).await?.concat();
                counts.sort_by_key(|(used, _)| used.quota);
                Ok(FoundQuotas { live, now, counts })
            })
            .await
    }

    /// Reads what was taken of those uses whose counts lie in a shard.
    async fn counts_at(
        &self,
        live: &LiveBoard,
        home: usize,
        uses: &[QuotaUse],
        now: Timestamp,
    ) -> Result<Vec<(QuotaUse, Taken)>, Error> {
        let is_here = |used: &&QuotaUse| live.board.home_of(used) == home;
        let uses: Vec<QuotaUse> = uses.iter().filter(is_here).cloned().collect();
        if uses.is_empty() {
            return Ok(Vec::new());
        }
        let home = live
            .homes
            .get(home)
            .map_or(&live.shards[0].shard, |home| &home.home);
        let taken = self.engine.store.quota_counts(home, &uses, now).await?;
        Ok(uses.into_iter().zip(taken).collect())
    }
}
