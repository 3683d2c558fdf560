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
pub enum EndedHidesWalk {
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
    type Item = (HideEnd, EndedHidesWalk);
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
            .map(|end| (end, EndedHidesWalk::Beginning))
            .collect())
    }

    async fn step(&self, engine: &Engine, (end, walk): &mut Self::Item) -> Result<Progress, Error> {
        match walk.step(engine, end).await {
            Ok(Progress::Done) | Err(Error::BoardNotFound(_)) => {}
            more => return more,
        }
        hide_ends::forget(&engine.store, end).await?;
        Ok(Progress::Done)
    }
}

impl EndedHidesWalk {
    async fn step(&mut self, engine: &Engine, end: &HideEnd) -> Result<Progress, Error> {
        match self {
            Self::Beginning => *self = Self::over_kept(engine, &end.board).await?,
            Self::Kept {
                live,
                shard,
                cursor,
            } => {
                let Some(of_shard) = live.shards.get(*shard) else {
                    *self = Self::Hidden(None);
                    return Ok(Progress::More);
                };
                let now = Timestamp::from_ms_clamped(end.at_ms);
                let ended =
                    hidden::end_kept_hides(&engine.store, &of_shard.shard, now, cursor).await;
                match engine.unless_again(&end.board, ended).await? {
                    Some(next) => {
                        *shard += usize::from(next.is_none());
                        *cursor = next.unwrap_or_else(|| WALK_BEGINS.to_owned());
                    }
                    None => *self = Self::over_kept(engine, &end.board).await?,
                }
            }
            Self::Hidden(after) => {
                let next = end_some_hides(engine, end, after.as_ref()).await?;
                *self = match next {
                    Some(next) => Self::Hidden(Some(next)),
                    None if end.is_end_of_day() => Self::over_journals(engine, &end.board).await?,
                    None => return Ok(Progress::Done),
                };
            }
            Self::Journals {
                live,
                revised,
                shard,
                after,
            } => {
                let Some(of_shard) = live.shards.get(*shard) else {
                    return Ok(Progress::Done);
                };
                let of_shard = &of_shard.shard;
                let up_to = revised.up_to(of_shard.tag()).unwrap_or(ALL_HIDES);
                let pruned = hidden::prune_journal(&engine.store, of_shard, *after, up_to).await;
                match engine.unless_again(&end.board, pruned).await? {
                    Some(next) => {
                        *shard += usize::from(next.is_none());
                        *after = next.unwrap_or_default();
                    }
                    None => *self = Self::over_journals(engine, &end.board).await?,
                }
            }
        }
        Ok(Progress::More)
    }

    /// Begins over the hides of a board that are kept with erasures.
    async fn over_kept(engine: &Engine, id: &BoardId) -> Result<Self, Error> {
        Ok(Self::Kept {
            live: engine.live_board(id).await?,
            shard: 0,
            cursor: WALK_BEGINS.to_owned(),
        })
    }

    /// Begins over the journals of a board.
    async fn over_journals(engine: &Engine, id: &BoardId) -> Result<Self, Error> {
        Ok(Self::Journals {
            revised: revise(engine, id).await?,
            live: engine.live_board(id).await?,
            shard: 0,
            after: 0,
        })
    }
}

/// Brings back some members whose hides have ended. Returns the member after which the scan continues; `None` at its end.
async fn end_some_hides(
    engine: &Engine,
    end: &HideEnd,
    after: Option<&MemberId>,
) -> Result<Option<MemberId>, Error> {
    let (found, _) = engine.hidden(&end.board, after, STEP_HIDES_MAX).await?;
    for (member, hide) in found.items {
        if let Some(until) = hide.until.filter(|until| until.ms() <= end.at_ms) {
            engine.unhide(&end.board, &member, Some(until)).await?;
        }
    }
    Ok(found.next)
}
