//! The job that ends hides whose end has come, and standing orders.

use super::jobs::faults::Subject;
use super::jobs::{Job, JobKind, Progress};
use super::{Engine, Error};
use crate::domain::ids::MemberId;
use crate::store::hide_ends::HideEnd;

/// How many hides one step looks at.
const STEP_HIDES_MAX: usize = 500;

/// Ends hides when they end by themselves. It looks at all hides of a board for each instant at which some end: so nothing but
/// the hides themselves names the members.
#[derive(Clone, Copy, Debug)]
pub struct EndedHides;

/// A board at which hides have ended.
#[derive(Debug)]
pub struct Ending {
    end: HideEnd,
    /// The member that the walk over the hides has come to.
    after: Option<MemberId>,
}

impl Job for EndedHides {
    type Item = Ending;
    const KIND: JobKind = JobKind::Hides;

    fn subject(&self, ending: &Ending) -> Subject {
        Subject::part(&ending.end.board, ending.end.to_string())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Ending>, Error> {
        let now = engine.clock.now();
        while engine.store.end_orders(now).await? {}
        let ends = engine.store.ended_hides(now).await?.into_iter();
        Ok(ends.map(|end| Ending { end, after: None }).collect())
    }

    async fn step(&self, engine: &Engine, ending: &mut Ending) -> Result<Progress, Error> {
        let Ending { end, after } = ending;
        let found = engine.hidden(&end.board, after.as_ref(), STEP_HIDES_MAX);
        let found = match found.await {
            Err(Error::BoardNotFound(_)) => None,
            found => Some(found?),
        };
        let members = found.iter().flat_map(|found| &found.members);
        for (member, hide) in members {
            if let Some(until) = hide.until.filter(|until| until.ms() <= end.at_ms) {
                engine.unhide(&end.board, member, Some(until)).await?;
            }
        }
        *after = found.and_then(|found| found.next);
        if after.is_some() {
            return Ok(Progress::More);
        }
        engine.store.forget_hide_end(end).await?;
        Ok(Progress::Done)
    }
}
