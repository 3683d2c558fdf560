//! Reads what is left of a board's quotas.

use std::sync::Arc;

use crate::core::write::store::quotas::{self, Taken};
use crate::core::{Error, LiveBoard, Service};
use crate::domain::event::Origin;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::quota::{self, QuotaUse};
use crate::domain::time::Timestamp;
use crate::runtime::join::try_join_all;

/// Reads what was taken of those quotas of a board that go by nothing else than where an event would come from, and for whom it would
/// be, as such an event would find it now. With the board, and the time that it is of.
pub async fn read(
    service: &Service,
    board: &BoardId,
    origin: &Origin,
    member: Option<&MemberId>,
) -> Result<(Arc<LiveBoard>, Timestamp, Vec<(QuotaUse, Taken)>), Error> {
    service
        .engine
        .with_board(board, async |live| {
            let now = service.engine.clock.now();
            let uses = quota::counts(&live.board, origin, member, now);
            if uses.is_empty() {
                // No shard is asked: those of a board without events need not know its definition yet.
                service.engine.reload(board).await?;
                service.engine.require_current(&live)?;
            }
            // Where the counts lie with the members, that is one place.
            let homes = live.homes.len().max(1);
            let read = (0..homes).map(async |index| {
                let uses = uses.iter().filter(|used| live.board.home_of(used) == index);
                let uses: Vec<QuotaUse> = uses.cloned().collect();
                if uses.is_empty() {
                    return Ok(Vec::new());
                }
                let home = live.homes.get(index);
                let home = home.map_or(&live.shards[0].shard, |home| &home.home);
                let taken = quotas::counts(&service.engine.store, home, &uses, now).await?;
                Ok::<_, Error>(uses.into_iter().zip(taken).collect())
            });
            let mut counts = try_join_all(read).await?.concat();
            counts.sort_by_key(|(used, _)| used.quota);
            Ok((live, now, counts))
        })
        .await
}
