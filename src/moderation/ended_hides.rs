//! The job that ends hides and standing orders at their `until`, and then forgets the members that were brought back.

use std::sync::Arc;

use super::orders;
use crate::core::hide::erasures::{ALL_HIDES, Revised};
use crate::core::hide::store::hidden::{self, WALK_BEGINS};
use crate::core::hide::store::hide_ends::{self, HideEnd};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::time::Timestamp;
use crate::periods::revisions::work::revise;

/// How many hides one step checks.
const STEP_HIDES_MAX: usize = 500;

/// Ends hides at their `until`. It scans all hides of a board for each instant at which some end, so only the hides
/// themselves name the members.
#[derive(Clone, Copy, Debug)]
pub struct EndedHides;

/// Progress of the scan over the hides of a board. Those kept with erasures come first: if one of them is given back to its
/// member meanwhile, the scan meets it among the hidden members.
#[derive(Debug)]
pub enum Walk {
    /// Not begun.
    Beginning,
    /// Over the hides kept with erasures, shard by shard.
    Kept {
        /// The board; the progress is only valid for its shards.
        live: Arc<LiveBoard>,
        shard: usize,
        /// The place in that shard.
        cursor: String,
    },
    /// Over the hidden members, up to this one; `None`: before the first.
    Hidden(Option<MemberId>),
    /// Over the journals, shard by shard.
    Journals {
        /// The board; the progress is only valid for its shards.
        live: Arc<LiveBoard>,
        /// Which lines are in all results.
        revised: Revised,
        shard: usize,
        /// The last line of that shard that was looked at.
        after: u64,
    },
}

impl Job for EndedHides {
    /// A board on which hides have ended.
    type Item = (HideEnd, Walk);
    const KIND: JobKind = JobKind::Hides;

    fn subject(&self, (end, _): &Self::Item) -> Subject {
        Subject::part(&end.board, end.to_string())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Self::Item>, Error> {
        let now = engine.clock.now();
        while orders::store::end_some(&engine.store, now).await? {}
        Ok(hide_ends::reached(&engine.store, now)
            .await?
            .into_iter()
            .map(|end| (end, Walk::Beginning))
            .collect())
    }

    async fn step(&self, engine: &Engine, (end, walk): &mut Self::Item) -> Result<Progress, Error> {
        let next = match walk {
            Walk::Beginning => walk_kept(engine, &end.board).await.map(Some),
            Walk::Kept {
                live,
                shard,
                cursor,
            } => end_some_kept(engine, end, live, *shard, cursor)
                .await
                .map(Some),
            Walk::Hidden(after) => end_some_hides(engine, end, after.as_ref()).await,
            Walk::Journals {
                live,
                revised,
                shard,
                after,
            } => prune_some(engine, end, live, revised, (*shard, *after)).await,
        };
        match next {
            Ok(Some(next)) => {
                *walk = next;
                return Ok(Progress::More);
            }
            Ok(None) | Err(Error::BoardNotFound(_)) => {}
            Err(error) => return Err(error),
        }
        hide_ends::forget(&engine.store, end).await?;
        Ok(Progress::Done)
    }
}

/// Begins the scan over the hides of a board that are kept with erasures.
async fn walk_kept(engine: &Engine, id: &BoardId) -> Result<Walk, Error> {
    Ok(Walk::Kept {
        live: engine.live_board(id).await?,
        shard: 0,
        cursor: WALK_BEGINS.to_owned(),
    })
}

/// Ends some of the hides kept with erasures in a shard. Returns where the scan continues.
async fn end_some_kept(
    engine: &Engine,
    end: &HideEnd,
    live: &Arc<LiveBoard>,
    shard: usize,
    cursor: &str,
) -> Result<Walk, Error> {
    let Some(of_shard) = live.shards.get(shard) else {
        return Ok(Walk::Hidden(None));
    };
    let now = Timestamp::from_ms_clamped(end.at_ms);
    let ended = hidden::end_kept_hides(&engine.store, &of_shard.shard, now, cursor);
    let Some(next) = engine.unless_again(&end.board, ended.await).await? else {
        return walk_kept(engine, &end.board).await;
    };
    Ok(Walk::Kept {
        live: Arc::clone(live),
        shard: shard + usize::from(next.is_none()),
        cursor: next.unwrap_or_else(|| WALK_BEGINS.to_owned()),
    })
}

/// Brings back some members whose hides have ended. Returns where the scan continues; `None` at its end.
async fn end_some_hides(
    engine: &Engine,
    end: &HideEnd,
    after: Option<&MemberId>,
) -> Result<Option<Walk>, Error> {
    let found = engine.hidden(&end.board, after, STEP_HIDES_MAX).await?;
    for (member, hide) in found.items {
        if let Some(until) = hide.until.filter(|until| until.ms() <= end.at_ms) {
            engine.unhide(&end.board, &member, Some(until)).await?;
        }
    }
    match found.next {
        Some(next) => Ok(Some(Walk::Hidden(Some(next)))),
        None if end.is_end_of_day() => walk_journals(engine, &end.board).await.map(Some),
        None => Ok(None),
    }
}

/// Begins the scan over the journals of a board.
async fn walk_journals(engine: &Engine, id: &BoardId) -> Result<Walk, Error> {
    Ok(Walk::Journals {
        revised: revise(engine, id).await?,
        live: engine.live_board(id).await?,
        shard: 0,
        after: 0,
    })
}

/// Forgets some members that were brought back. Returns where the scan continues; `None` at its end.
async fn prune_some(
    engine: &Engine,
    end: &HideEnd,
    live: &Arc<LiveBoard>,
    revised: &Revised,
    (shard, after): (usize, u64),
) -> Result<Option<Walk>, Error> {
    let Some(of_shard) = live.shards.get(shard) else {
        return Ok(None);
    };
    let of_shard = &of_shard.shard;
    let up_to = revised.up_to(of_shard.tag()).unwrap_or(ALL_HIDES);
    let pruned = hidden::prune_journal(&engine.store, of_shard, after, up_to).await;
    let Some(next) = engine.unless_again(&end.board, pruned).await? else {
        return walk_journals(engine, &end.board).await.map(Some);
    };
    Ok(Some(Walk::Journals {
        live: Arc::clone(live),
        revised: revised.clone(),
        shard: shard + usize::from(next.is_none()),
        after: next.unwrap_or_default(),
    }))
}
