//! What prevents events for a moment, and how that is cleared before their next attempt.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::submission::{Stage, Submission};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard};
use crate::domain::event::Rejection;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::problems::Problem;
use crate::domain::series::{Standing, Track};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;

/// Back-off while events wait for each other, in milliseconds; doubles from MIN to MAX.
const PAUSE_MS_MIN: u64 = 5;
const PAUSE_MS_MAX: u64 = 100;
/// How many pauses a request makes: two seconds in all.
const PAUSES_MAX: usize = 23;
/// How many pauses events from a queue make, since they can wait there: some hundredths of a second in all.
const QUEUED_PAUSES_MAX: usize = 3;
/// How long the data of erased members is removed, for all of them together, before their events wait in the queue again:
/// clearly less than a lease of the queue. The removal may wait for another event that the same worker holds.
const QUEUED_FORGETTING_MAX: Duration = Duration::from_secs(1);

/// What is in the way of an event, and what `Engine::clear` does about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Obstacle {
    /// The board in memory is not the stored one, which is read.
    StaleBoard,
    /// The standing of this window that ends with a period, or of a cohort, is incomplete: it is completed.
    IncompleteStanding(Window, Section),
    /// It was sent without the history of its rolling windows, and a standing was missing: it is sent with the history.
    MissingHistory,
    /// Its reservation is void: it gets another one.
    VoidReservation,
    /// Whether a quota is used up depends on other events in flight: it waits for them.
    Others,
    /// It counts for the time at which it came in, which must not be before this instant: it gets a later one.
    TooEarly(Timestamp),
    /// Some data of its erased member is left: that is removed.
    Erasing,
    /// Its member has no seat in the running period of a league: it gets one.
    Unseated,
    /// Its member has lost the seat that was in memory: it is looked up again.
    SeatLost,
    /// Any cohort may remember its id, since its member was erased: all are asked.
    Elsewhere,
    /// It also waits in a queue, where it counts for the instant `at`: that and the time of queuing decide.
    Waiting {
        at: Timestamp,
        queued_at: Timestamp,
        /// Why it would be refused in any case, if so.
        rejection: Option<Rejection>,
    },
}

impl Engine {
    /// Clears the obstacles of events before the next attempt. Fails if there is none.
    pub(super) async fn clear(
        &self,
        live: &LiveBoard,
        open: &mut [Submission],
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let mut unseated: HashMap<_, Vec<_>> = HashMap::new();
        let (mut erasing, mut incomplete) = (BTreeSet::new(), HashSet::new());
        let (mut is_stale, mut has_to_wait, mut too_early) = (false, false, Vec::new());
        for (index, event) in open.iter_mut().enumerate() {
            let Stage::Blocked(obstacle) = event.stage else {
                continue;
            };
            event.stage = Stage::New;
            // Events that came in later may be before it from now on.
            event.may_follow &= event.incoming().has_time_of_record();
            let member = || event.incoming().member.clone();
            match obstacle {
                Obstacle::StaleBoard => is_stale = true,
                Obstacle::IncompleteStanding(window, section) => {
                    incomplete.insert((window, section));
                }
                Obstacle::MissingHistory => event.with_history = true,
                // Each attempt makes reservations, and looks up what is not in memory.
                Obstacle::VoidReservation | Obstacle::SeatLost => {}
                Obstacle::Others => has_to_wait = true,
                Obstacle::TooEarly(first) => too_early.push((index, first)),
                Obstacle::Erasing => _ = erasing.insert(member()),
                Obstacle::Unseated => unseated.entry(member()).or_default().push(index),
                Obstacle::Elsewhere => event.searches = true,
                Obstacle::Waiting { at, queued_at, .. } => {
                    (event.fixed_at, event.came_in) = (Some(at), queued_at);
                }
            }
        }
        self.seat_all(&live.board.id, open, unseated).await;
        for member in erasing {
            self.forget_erased(&live.board.id, &member, open, budget)
                .await?;
        }
        if is_stale {
            self.reload(&live.board.id).await?;
        }
        for (window, section) in incomplete {
            self.complete(live, window, section).await?;
        }
        let some_got_on = open.iter().any(Submission::has_ended);
        budget
            .next(&live.board.id, has_to_wait, some_got_on)
            .await?;
        // Last, so that nothing that comes in meanwhile is before them.
        for (index, first) in too_early {
            let event = &mut open[index];
            event.may_follow = event.fixed_at.is_none();
            if event.may_follow {
                event.came_in = self.clock.arrival_from(first);
            }
        }
        Ok(())
    }

    /// Removes the data of an erased member. If that takes too long, all events of the member fail.
    async fn forget_erased(
        &self,
        id: &BoardId,
        member: &MemberId,
        open: &mut [Submission],
        budget: &mut Budget,
    ) -> Result<(), Error> {
        // So a long removal leaves some time to the others.
        let (begun, wait_max) = (Instant::now(), budget.forgetting / 2);
        let forgotten = self.forget_within(wait_max, id, member).await;
        budget.forgetting = budget.forgetting.saturating_sub(begun.elapsed());
        match forgotten {
            Err(error) if error.is_turn_of_others() => {
                let events = open.iter_mut().filter(|event| !event.has_ended());
                for event in events.filter(|event| event.incoming().member == *member) {
                    event.stage = error.clone().into();
                }
                Ok(())
            }
            forgotten => forgotten,
        }
    }

    /// Completes the standing of a window that ends with a period, or of a cohort.
    async fn complete(
        &self,
        live: &LiveBoard,
        window: Window,
        section: Section,
    ) -> Result<(), Error> {
        let series = live.board.series(window, Track::Shown);
        let standing = Standing::of(series, section);
        for live_shard in live.shards_of(section) {
            let shard = &live_shard.shard;
            let until = Instant::now() + self.steps_wait_max();
            self.complete_from(shard, (series, section.period.start_ms), until, None)
                .await?;
            let followed = live_shard.follow_hides(standing).await;
            let followed = self.unless_again(&live.board.id, followed).await?;
            if followed.is_some_and(|followed| followed.is_narrow) {
                self.widen(shard, &standing).await?;
            }
        }
        Ok(())
    }
}

/// How often events are sent again. Those that wait for others are sent again while some make progress, and a bit longer.
#[derive(Default)]
pub(crate) struct Budget {
    attempts: usize,
    /// The pauses since some event made progress.
    pauses: usize,
    pauses_max: usize,
    /// The time left for removing data of erased members. The first one gets half of it.
    forgetting: Duration,
    /// Whether they have waited without success.
    pub(super) is_careful: bool,
}

impl Budget {
    /// For the events of a request.
    pub(crate) fn of_request(engine: &Engine) -> Self {
        Self {
            pauses_max: PAUSES_MAX,
            forgetting: 2 * engine.steps_wait_max(),
            ..Self::default()
        }
    }

    /// For events from a queue. If they must wait for others, or for the removal of an erased member's data, they fail
    /// soon. `is_careful`: they have waited without success before.
    pub(crate) fn of_queue(is_careful: bool) -> Self {
        Self {
            pauses_max: QUEUED_PAUSES_MAX,
            forgetting: QUEUED_FORGETTING_MAX,
            is_careful,
            ..Self::default()
        }
    }

    /// Waits for the next attempt, if events must wait for others. Fails if there is none.
    async fn next(
        &mut self,
        id: &BoardId,
        has_to_wait: bool,
        some_got_on: bool,
    ) -> Result<(), Error> {
        match (has_to_wait, some_got_on) {
            (false, _) if self.attempts + 1 < ATTEMPTS_MAX => self.attempts += 1,
            (false, _) => return Err(Error::try_again(Problem::board_changes(id))),
            (true, true) => (self.pauses, self.is_careful) = (0, false),
            (true, false) if self.pauses < self.pauses_max => {
                let pause_ms = (PAUSE_MS_MIN << self.pauses).min(PAUSE_MS_MAX);
                (self.pauses, self.is_careful) = (self.pauses + 1, true);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            (true, false) => return Err(Error::try_again(Problem::quota_pending(id))),
        }
        Ok(())
    }
}
