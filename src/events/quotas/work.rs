//! Reads the remaining quotas of a board.

use std::sync::Arc;

use crate::core::write::store::quotas::{self, QuotaCount};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::event::Origin;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::quota::{self, QuotaUse};
use crate::domain::time::Timestamp;
use crate::runtime::join::try_join_all;

/// The board, and what is used of those of its quotas that depend only on an event's origin and member, as an event with
/// these would find it now; and the time of that.
pub async fn read(
    engine: &Engine,
    board: &BoardId,
    origin: &Origin,
    member: Option<&MemberId>,
) -> Result<(Arc<LiveBoard>, Timestamp, Vec<(QuotaUse, QuotaCount)>), Error> {
    engine
        .with_board(board, async |live| {
            let now = engine.clock.now();
            let uses = quota::counts(&live.board, origin, member, now);
            if uses.is_empty() {
                // No shard is asked, because shards of a board without events may not know its definition yet.
                engine.reload(board).await?;
                engine.require_current(&live)?;
            }
            // Where counts are stored with the members, that is a single place.
            let homes = live.homes.len().max(1);
            let read = (0..homes).map(async |index| {
                let uses: Vec<QuotaUse> = uses
                    .iter()
                    .filter(|used| live.board.home_of(used) == index)
                    .cloned()
                    .collect();
                if uses.is_empty() {
                    return Ok(Vec::new());
                }
                let home = live
                    .homes
                    .get(index)
                    .map_or(&live.shards[0].shard, |home| &home.home);
                let taken = quotas::counts(&engine.store, home, &uses, now).await?;
                Ok::<_, Error>(uses.into_iter().zip(taken).collect())
            });
            let mut counts = try_join_all(read).await?.concat();
            counts.sort_by_key(|(used, _)| used.quota);
            Ok((live, now, counts))
        })
        .await
}
