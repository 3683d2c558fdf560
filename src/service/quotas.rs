//! Reading what is left of a board's quotas.

use std::sync::Arc;

use super::{ATTEMPTS_MAX, Error, LiveBoard, Service};
use crate::domain::event::Origin;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::quota::{self, QuotaUse};
use crate::domain::time::Timestamp;
use crate::store::Versioned;
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
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(&request.board).await?;
            let now = self.clock.now();
            let uses = quota::counts(&live.board, &request.origin, member, now);
            let read = self.store.quota_counts(&live.board, &uses, now).await?;
            let Versioned::Current(taken) = read else {
                self.reload(&live.board.id).await?;
                continue;
            };
            let counts = uses.into_iter().zip(taken).collect();
            return Ok(FoundQuotas { live, now, counts });
        }
        Err(Error::busy())
    }
}
