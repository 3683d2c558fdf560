//! Raises the barriers of a board's shards. Once they are raised, nothing changes what earlier events made of the standings.

use super::store::{self, BarrierProgress, LogEnds, QueueWait};
use crate::core::jobs::Progress;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::queue::store::queues::QueueName;
use crate::queue::{self, intake};

/// Closes the periods of a board that end up to an instant, which must be in the past by a trusted clock. Their results are
/// recorded later. Returns false if results of the previous closing are missing, or queued events wait.
pub(crate) async fn decide_and_raise(
    engine: &Engine,
    id: &BoardId,
    until: Timestamp,
) -> Result<bool, Error> {
    engine
        .with_board(id, async |live| {
            let is_decided = store::decide(&engine.store, &live.board, until).await?;
            Ok(is_decided
                && raise_barriers(engine, &live.board, until, None).await? == Progress::Done)
        })
        .await
}

/// Raises the barriers of all shards of a board to an instant for which a closing is decided. [`Error::Again`]: the board
/// was deleted meanwhile. `More`: see [`close_shards`].
pub(crate) async fn raise_barriers(
    engine: &Engine,
    board: &Board,
    until: Timestamp,
    wait: Option<QueueWait>,
) -> Result<Progress, Error> {
    store::confirm(&engine.store, board).await?;
    close_shards(engine, &board.id, until, wait).await
}

/// Raises the barriers of all shards of a board to this instant. Once this returns `Done`, nothing changes what events
/// before it made of the standings, whatever is in flight. `More`: events that were queued, or in the log, when the
/// barriers were raised must be applied first; call it again. `wait` limits how long it waits for them. The closing must be
/// decided before.
///
/// On failure, some of the barriers may be raised. Calling it again is safe, also on other instances.
pub async fn close_shards(
    engine: &Engine,
    id: &BoardId,
    until: Timestamp,
    wait: Option<QueueWait>,
) -> Result<Progress, Error> {
    // It waits while the board moves from one sharding to another.
    engine
        .with_board(id, async |live| {
            let log = queue::of(engine)
                .log
                .as_ref()
                .filter(|_| !live.board.is_league());
            let unasked = log.map_or(LogEnds::NoLog, |_| LogEnds::Unasked);
            let shards: Vec<&Shard> = live.shards.iter().map(|live| &live.shard).collect();
            let mut raised = raise(engine, &shards, until, wait, unasked).await?;
            let asking: Vec<&Shard> = raised
                .extract_if(.., |(_, raised)| *raised == BarrierProgress::WantsEnds)
                .map(|(shard, _)| shard)
                .collect();
            if let Some(log) = log.filter(|_| !asking.is_empty()) {
                // The barriers are raised, so any event that counts and is not in the queues is before these ends.
                let ends = log.ends().await?;
                let known = LogEnds::Known(&ends);
                raised.extend(raise(engine, &asking, until, wait, known).await?);
            }
            if log.is_some() {
                for waits in [true, false] {
                    let of_log =
                        |(_, raised): &&(_, _)| (*raised == BarrierProgress::WaitsForLog) == waits;
                    let names = raised
                        .iter()
                        .filter(of_log)
                        .map(|(shard, _)| QueueName::of(shard))
                        .collect();
                    intake::store::want(&engine.store, names, waits).await?;
                }
            }
            let waits = raised
                .iter()
                .any(|(_, raised)| *raised != BarrierProgress::Seen);
            Ok(Progress::more_if(waits))
        })
        .await
}

/// Like [`close_shards`], for the removal of an erased member, which repeats the call while queued events must be applied
/// first. They are given some time.
pub(crate) async fn close_for_erasure(
    engine: &Engine,
    id: &BoardId,
    until: Timestamp,
) -> Result<Progress, Error> {
    let closed = close_shards(engine, id, until, None).await?;
    if closed == Progress::More {
        queue::give_time().await;
    }
    Ok(closed)
}

/// Raises the barriers of some shards.
async fn raise<'a>(
    engine: &Engine,
    shards: &[&'a Shard],
    until: Timestamp,
    wait: Option<QueueWait>,
    ends: LogEnds<'_>,
) -> Result<Vec<(&'a Shard, BarrierProgress)>, Error> {
    let mut raised = Vec::with_capacity(shards.len());
    for shard in shards {
        let of_shard = store::raise_barrier(&engine.store, shard, until, wait, ends).await?;
        raised.push((*shard, of_shard));
    }
    Ok(raised)
}
