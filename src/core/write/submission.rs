//! The steps of an event, from the request to its outcome.
//!
//! ```text
//!      ┌──────────────────────── the next attempt ◀────────────────────────┐
//!      ▼                                                                   │
//!    plan ───▶ recall ───▶ seats ───▶ reserve ───▶ send ───▶ clear obstacles
//!      │          │          │           │           │             │
//!      └──────────┴──────────┴───────────┴───────────┴─────────────┴──▶ ended
//! ```
//!
//! The events of a request for one board go through these steps together (`Engine::submit`). An attempt
//! - plans them (`domain/plan.rs`). In a league it first finds out in which cohorts their members sit (`sittings.rs`);
//! - recalls those that a former shard, or an earlier cohort, remembers (`recall.rs`);
//! - in a league, holds back those whose members have no seat;
//! - reserves what they take of quotas that are counted in other slots (`reservations.rs`);
//! - sends them to the shards of their members, or of their cohorts (`applier.rs`), and reads the answers;
//! - clears the obstacles of the others.
//!
//! Any step may end an event, or find an `Obstacle` in its way; the later steps then skip it. An event with an obstacle has
//! changed nothing, and the next attempt plans it again. Each event has its own result; a failed one stops no other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt;

use super::applier::{self, Reply};
use super::events::{Incoming, RemainingQuota, Report, Submitted};
use super::reservations;
use super::sittings::Sitting;
use super::store::events::{Answer, Ready};
use crate::core::board::store::boards;
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::event::{Detail, Outcome, Rejection};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::period::Period;
use crate::domain::plan::{Instants, Route};
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

/// The board, the time and the report that an attempt uses.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) live: Arc<LiveBoard>,
    pub(crate) now: Timestamp,
    report: Report,
}

impl Engine {
    /// Submits events of one board, from a request or a queue: those with these indexes. Returns each outcome, with its
    /// index. ([`Outdated::Queue`]: the caller must not report an outcome.)
    pub(crate) async fn submit(
        &self,
        board: &BoardId,
        request: &Arc<[Incoming]>,
        indexes: Vec<usize>,
        report: Report,
        mut budget: Budget,
    ) -> Vec<(usize, Result<Submitted, Error>)> {
        let mut ended = Vec::with_capacity(indexes.len());
        let mut open: Vec<_> = indexes
            .into_iter()
            .map(|index| Submission::new(request, index))
            .collect();
        while !open.is_empty() {
            let attempt = self.attempt(board, &mut open, report, &mut budget).await;
            for event in mem::take(&mut open) {
                match (event.state, &attempt) {
                    (State::Ended(result), _) => ended.push((event.index, result)),
                    (_, Err(error)) => ended.push((event.index, Err(error.clone()))),
                    (state, Ok(())) => open.push(Submission { state, ..event }),
                }
            }
        }
        ended
    }

    /// Takes events to their outcomes, or to obstacles, which it clears.
    async fn attempt(
        &self,
        id: &BoardId,
        open: &mut Vec<Submission>,
        report: Report,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let (live, now) = (self.with_board(id, async |live| {
            // A cohort is in one shard.
            let is_spread = live.shards.len() > 1 && !live.board.is_league();
            if is_spread && report.detail == Detail::Ranks {
                let detail =
                    format!("board {id} has several shards, so it can't return ranks with an event; read them after it");
                return Err(Problem::invalid_parameter("ranks", detail).into());
            }
            self.note_use(&live).await.map(|()| live)
        }).await?, self.clock.now());
        let attempt = &Attempt { live, now, report };
        let is_league = attempt.live.board.is_league();
        // What most events don't need is boxed: otherwise every event's future would have room for it.
        if is_league {
            self.find_seats(&attempt.live, open).boxed().await;
        }
        for event in open.iter_mut().filter(|event| event.is_new()) {
            event.state = event.plan(attempt).unwrap_or_else(State::from);
        }
        if is_league || !attempt.live.former.is_empty() {
            self.recall(attempt, open).boxed().await;
        }
        if is_league {
            keep_unseated(attempt, open).boxed().await;
        }
        if attempt.live.board.reserves() {
            let reserving = reservations::apply(attempt, mem::take(open), budget.is_careful);
            *open = reserving.boxed().await;
        } else {
            applier::apply(attempt, open).await;
        }
        if !open.iter().all(Submission::has_ended) {
            self.clear(&attempt.live, open, budget).boxed().await?;
        }
        Ok(())
    }

    /// Notes that a board of several shards has events, before the first one is written.
    pub(crate) async fn note_use(&self, live: &LiveBoard) -> Result<(), Error> {
        if !live.is_used.load(Ordering::Relaxed) {
            boards::mark_used(&self.store, &live.board).boxed().await?;
            live.is_used.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Holds back planned events of a league whose members have no seat in the events' periods.
async fn keep_unseated(attempt: &Attempt, open: &mut Vec<Submission>) {
    // So no member is seated for an event that a quota refuses.
    if attempt.live.board.reserves() {
        let is_to_be_seated = |event: &mut Submission| {
            let state = event.without_seat(attempt);
            matches!(state, Some(State::Blocked(Obstacle::Unseated)))
        };
        let unseated = open.extract_if(.., is_to_be_seated).collect();
        open.extend(reservations::judge(attempt, unseated).await);
    }
    for event in open {
        if let Some(state) = event.without_seat(attempt) {
            event.state = state;
        }
    }
}

/// What is in the way of an event, and what [`Engine::clear`] does about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Obstacle {
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
    Waiting { at: Timestamp, queued_at: Timestamp },
}

impl Engine {
    /// Clears the obstacles of events before the next attempt. Fails if there is none.
    async fn clear(
        &self,
        live: &LiveBoard,
        open: &mut [Submission],
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let mut unseated: HashMap<_, Vec<_>> = HashMap::new();
        let (mut erasing, mut incomplete) = (BTreeSet::new(), HashSet::new());
        let (mut is_stale, mut has_to_wait, mut too_early) = (false, false, Vec::new());
        for (index, event) in open.iter_mut().enumerate() {
            let State::Blocked(obstacle) = event.state else {
                continue;
            };
            event.state = State::New;
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
                Obstacle::Waiting { at, queued_at } => {
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
                    event.state = error.clone().into();
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
    /// Whether they have waited in vain.
    is_careful: bool,
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
    /// soon. `is_careful`: they have waited in vain before.
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

/// An event of a request, between its steps.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: Arc<[Incoming]>,
    /// Which event of the request it is.
    pub(crate) index: usize,
    /// The instant that it counts for, if that can't change.
    fixed_at: Option<Timestamp>,
    /// When it came in or was queued; or a later time that it got.
    came_in: Timestamp,
    /// Whether its script may move it to after its member's last change, if that is only a little later: another instance's
    /// clock made that time, or a record with the same time is before this one in the log.
    may_follow: bool,
    /// Whether the history of its rolling windows is sent with it.
    with_history: bool,
    /// In a league, where its member sits in its period.
    pub(crate) sitting: Sitting,
    /// In a league, whether any cohort may remember its id.
    pub(crate) searches: bool,
    pub(crate) state: State,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every event is planned: a box for each would cost more"
)]
pub(crate) enum State {
    /// It must be planned.
    New,
    /// What it writes and takes of quotas is known.
    Planned(Ready),
    /// It was sent: where it goes.
    Sent(Arc<Route>, Option<Section>),
    /// It has changed nothing, and must be planned again.
    Blocked(Obstacle),
    /// Its outcome is known, or can't be known.
    Ended(Result<Submitted, Error>),
}

impl<E: Into<Error>> From<E> for State {
    fn from(error: E) -> Self {
        match error.into() {
            Error::Again(Outdated::Board) => Self::Blocked(Obstacle::StaleBoard),
            error => Self::Ended(Err(error)),
        }
    }
}

impl Submission {
    /// An event of a request that has done nothing yet.
    pub(crate) fn new(request: &Arc<[Incoming]>, index: usize) -> Self {
        let incoming = &request[index];
        let fixed_at = incoming.fixed_at();
        Self {
            request: Arc::clone(request),
            index,
            fixed_at,
            came_in: incoming.arrived_at,
            may_follow: fixed_at.is_none() || incoming.has_time_of_record(),
            with_history: false,
            sitting: Sitting::default(),
            searches: false,
            state: State::New,
        }
    }

    /// The event as it came in.
    pub(crate) fn incoming(&self) -> &Incoming {
        &self.request[self.index]
    }

    /// The event with its plan, if it is planned.
    pub(crate) fn planned(&self) -> Option<&Ready> {
        match &self.state {
            State::Planned(ready) => Some(ready),
            _ => None,
        }
    }

    fn is_new(&self) -> bool {
        matches!(self.state, State::New)
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Whether later events of its member from a queue must wait for it: it waits, or its outcome can't be known.
    pub(crate) fn holds_up(&self) -> bool {
        matches!(
            self.state,
            State::Blocked(_) | State::Ended(Err(Error::Again(_) | Error::Store(_)))
        )
    }

    /// The instant that it counts for.
    pub(crate) fn at(&self) -> Timestamp {
        self.fixed_at.unwrap_or(self.came_in)
    }

    /// The event with its plan. One that has an id is never refused at once, since the id may be known; nor is one whose
    /// period may be closed, since clients get that as the reason.
    fn plan(&self, attempt: &Attempt) -> Result<State, Error> {
        let (incoming, board) = (self.incoming(), &attempt.live.board);
        let instants = Instants {
            at: self.at(),
            came_in: self.came_in,
            now: attempt.now.max(self.came_in),
        };
        let mut plan = attempt.live.plan(incoming.event(board)?, instants);
        plan.cohort = self.sitting.cohort;
        let is_sent = incoming.id.is_some() || board.closes_periods();
        if let Some(rejection) = plan.rejection.filter(|_| !is_sent) {
            return Ok(self.refused(board, rejection));
        }
        Ok(State::Planned(Ready {
            follows_until: plan.until(board).filter(|_| self.may_follow),
            plan,
            detail: attempt.report.detail,
            asks_quotas: attempt.report.quotas,
            with_history: self.with_history,
            token: None,
            is_recalled: self.searches,
            queued: incoming.queued.map(|queued| queued.held),
        }))
    }

    /// A rule refuses it, or it must count for a later time.
    fn refused(&self, board: &Board, rejection: Rejection) -> State {
        match rejection.not_before() {
            Some(first) if self.fixed_at.is_none() => State::Blocked(Obstacle::TooEarly(first)),
            _ if rejection == Rejection::ScoreBounds => self.out_of_bounds(board).into(),
            _ => Error::rejected(board, rejection, self.at(), self.came_in).into(),
        }
    }

    /// Its score is not within the bounds of the board.
    fn out_of_bounds(&self, board: &Board) -> Error {
        let event = match self.request[self.index].event(board) {
            Ok(event) => event,
            Err(error) => return error,
        };
        Error::out_of_bounds(&board.definition, event.score)
    }

    /// The next state of a planned event of a league whose member has no seat in its period: no cohort knows its id.
    fn without_seat(&self, attempt: &Attempt) -> Option<State> {
        let (board, plan) = (&attempt.live.board, &self.planned()?.plan);
        let period = board.calendar.containing(board.league_unit()?, plan.at);
        let has_id = plan.event.id.is_some();
        Some(match plan.rejection {
            _ if plan.cohort.is_some() => return None,
            _ if has_id && self.sitting.was_erased && !self.searches => {
                State::Blocked(Obstacle::Elsewhere)
            }
            Some(rejection) => self.refused(board, rejection),
            None => self.unseated(board, &period, attempt.now),
        })
    }

    /// Its member gets a seat if its period is the running one, but not if that is over.
    fn unseated(&self, board: &Board, period: &Period, now: Timestamp) -> State {
        let now = now.max(self.came_in);
        match period.end().filter(|end| *end <= now) {
            _ if period.contains(now) => State::Blocked(Obstacle::Unseated),
            Some(end) if self.fixed_at.is_none() => State::Blocked(Obstacle::TooEarly(end)),
            _ => self.refused(board, Rejection::NotSeated),
        }
    }

    /// What to send, if it is planned; from then on it counts as sent.
    pub(crate) fn send(&mut self) -> Option<Ready> {
        let plan = &self.planned()?.plan;
        let sent = State::Sent(Arc::clone(&plan.route), plan.section());
        match mem::replace(&mut self.state, sent) {
            State::Planned(ready) => Some(ready),
            _ => None,
        }
    }

    /// Its next state by the store's answer, once it was sent.
    pub(crate) fn heard(&self, attempt: &Attempt, reply: Reply<Answer>) -> State {
        let State::Sent(route, section) = &self.state else {
            panic!("there is a result for an event that was not sent");
        };
        let (live, board, at) = (&attempt.live, &attempt.live.board, self.at());
        let taken = |outcome: Outcome, is_duplicate, remaining: &[i64], changed| {
            // The first time another cohort may have applied it.
            let before = self
                .sitting
                .before
                .filter(|before| before.period.contains(outcome.at));
            State::Ended(Ok(Submitted {
                live: Arc::clone(live),
                outcome,
                is_duplicate,
                quotas: RemainingQuota::of_board(board, remaining, at, attempt.now),
                route: Arc::clone(route),
                section: before.or(*section),
                changed,
            }))
        };
        State::Blocked(match reply {
            Ok(Answer::Taken {
                outcome,
                remaining,
                changed,
            }) => return taken(outcome, false, &remaining, changed),
            Ok(Answer::Duplicate(outcome, changed)) => return taken(outcome, true, &[], changed),
            Ok(Answer::Rejected(rejection)) => return self.refused(board, rejection),
            Ok(Answer::Gone) => return Error::Again(Outdated::Queue).into(),
            // It is not sent again, since some of its call may have been done.
            Err(error) => return error.into(),
            Ok(Answer::NeedsHistory) => Obstacle::MissingHistory,
            Ok(Answer::NeedsStanding(window)) => {
                let period = board.calendar.containing(window.unit(), at);
                Obstacle::IncompleteStanding(window, section.unwrap_or(period.into()))
            }
            Ok(Answer::Void) => Obstacle::VoidReservation,
            Ok(Answer::Erasing) => Obstacle::Erasing,
            Ok(Answer::Behind(first)) => Obstacle::TooEarly(first),
            Ok(Answer::Elsewhere) => Obstacle::Elsewhere,
            Ok(Answer::Unseated) => {
                let Section { period, .. } =
                    section.expect("invariant: only a cohort has no seat for a member");
                live.known_seats.forget(&self.incoming().member, &period);
                if !self.sitting.is_remembered {
                    return self.unseated(board, &period, attempt.now);
                }
                Obstacle::SeatLost
            }
            Ok(Answer::Waiting {
                at,
                queued_at,
                rejection,
            }) => match rejection {
                Some(rejection) if (self.fixed_at, self.came_in) == (Some(at), queued_at) => {
                    return self.refused(board, rejection);
                }
                _ => Obstacle::Waiting { at, queued_at },
            },
        })
    }
}
