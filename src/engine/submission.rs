//! The way of an event, from the request to what became of it.
//!
//! ```text
//!            plan              send             hear
//!    New ───────────▶ Planned ───────▶ Sent ───────────▶ Ended
//!     ▲                 │                │                 ▲
//!     │ attempt         │ reserve        │ hear            │ plan: it is refused at once
//!     │                 ▼                │                 │ recall: it is remembered elsewhere
//!     └───────────── Blocked ◀───────────┘                 │ any step: it fails
//! ```
//!
//! The events of a request that are for one board go through these states together. An attempt
//! - finds out, in a league, in which cohorts their members sit (`sittings.rs`), and plans them (`domain/plan.rs`);
//! - looks for events that a former shard, or an earlier cohort, remembers (`recall.rs`);
//! - reserves what they take of quotas that are counted in other slots (`reservations.rs`);
//! - sends them to the shards of their members, or of their cohorts (`applier.rs`), and hears what became of them.
//!
//! An event that is blocked has changed nothing. The attempt removes the obstacle, and the next attempt plans the event again.
//! Each event has its own result. If one event fails, the others go on.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt;

use super::applier::{self, Reply};
use super::events::{Incoming, RemainingQuota, Report, Submitted};
use super::sittings::Sitting;
use super::{ATTEMPTS_MAX, Engine, Error, LiveBoard, Outdated, reservations};
use crate::clock::Clock;
use crate::domain::board::Board;
use crate::domain::event::{Detail, Rejection};
use crate::domain::ids::BoardId;
use crate::domain::league::Section;
use crate::domain::period::{Period, Unit};
use crate::domain::plan::{Instants, Plan, Route};
use crate::domain::series::{Standing, Track};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::problems::Problem;
use crate::store::StoreError;
use crate::store::events::{Answer, Ready};

/// The pauses of events that wait for others on their way double from the one to the other, in milliseconds.
const PAUSE_MS_MIN: u64 = 5;
const PAUSE_MS_MAX: u64 = 100;
/// How many pauses there are: two seconds in all.
const PAUSES_MAX: usize = 23;
/// The same of events out of a queue, which may wait there: some hundredths of a second in all.
const QUEUED_PAUSES_MAX: usize = 3;
/// For how long what erased members have left is removed, of all of them together, before their events wait in the queue that they came
/// from: clearly less than a lease of the queue. What a removal waits for may be another event that the same worker has in hand.
const QUEUED_FORGETTING_MAX: Duration = Duration::from_secs(1);

/// An event of a request on its way.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(super) request: Arc<[Incoming]>,
    /// Which event of the request it is.
    pub(super) index: usize,
    /// Whether the history of its rolling windows is sent with it, because a standing was missing without that.
    with_history: bool,
    /// When it came in; a later time, if it had to count for one.
    arrived_at: Timestamp,
    /// How often it was blocked at this time. At first nothing that came in after it is ahead of it.
    blocked: usize,
    /// The times by which it is judged, if it waits in a queue as well.
    waiting: Option<WaitingTimes>,
    /// In a league, where its member sits in its period.
    pub(super) sitting: Sitting,
    /// In a league, whether any cohort may remember its id.
    pub(super) searches: bool,
    state: State,
}

/// When an event was queued, and what it counts for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WaitingTimes {
    /// The instant that it counts for.
    at: Timestamp,
    /// By this it is too late, or in the future.
    queued_at: Timestamp,
}

/// Where an event is on its way.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every event is planned: a box for each would cost more"
)]
enum State {
    /// It has to be planned.
    New,
    /// It is known what it writes and what it takes of quotas.
    Planned(Ready),
    /// The store has it: the instant that it counts for, and where it goes.
    Sent(Timestamp, Arc<Route>, Option<Section>),
    /// It has changed nothing, and has to be planned anew.
    Blocked(Obstacle),
    /// It is known what became of it.
    Ended(Result<Submitted, Error>),
}

/// Why an event has to be planned anew.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Obstacle {
    /// The board in memory is not the stored one.
    StaleBoard,
    /// The standing of this window that ends with the period of this instant, or of a cohort, is not complete.
    IncompleteStanding(Window, Timestamp, Option<Section>),
    /// It was sent without the history of its rolling windows, and a standing was missing.
    MissingHistory,
    /// Nothing will be applied any more with its reservation.
    VoidReservation,
    /// Whether a quota is used up depends on others that are on their way.
    Others,
    /// It counts for the time at which it came in, and that has to be this instant or a later one.
    TooEarly(Timestamp),
    /// Something is left of its member, who was erased.
    Erasing,
    /// Its member has no seat in the running period of a league.
    Unseated,
    /// Its id may be remembered by any cohort: its member was erased.
    Elsewhere,
    /// Its member has lost the seat that was in memory.
    SeatLost,
    /// It waits in a queue as well, and is to be judged by these times.
    Waiting(WaitingTimes),
}

impl Submission {
    /// An event of a request that has done nothing yet.
    pub(crate) fn new(request: &Arc<[Incoming]>, index: usize) -> Self {
        Self {
            request: Arc::clone(request),
            index,
            with_history: false,
            arrived_at: request[index].arrived_at,
            blocked: 0,
            waiting: None,
            sitting: Sitting::default(),
            searches: false,
            state: State::New,
        }
    }

    /// An event whose result is missing, by a fault of this program.
    pub(crate) fn lost(request: &Arc<[Incoming]>, index: usize) -> Self {
        let mut lost = Self::new(request, index);
        lost.fail(StoreError::Unexpected("an event without its result".into()).into());
        lost
    }

    /// Which event of its request it was, and what became of it. [`Outdated::Queue`]: that is not for this caller to tell.
    pub(crate) fn into_result(self) -> (usize, Result<Submitted, Error>) {
        match self.state {
            State::Ended(result) => (self.index, result),
            state => panic!("an event that is {state:?} has no result"),
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

    /// The same, to be completed.
    pub(crate) fn planned_mut(&mut self) -> Option<&mut Ready> {
        match &mut self.state {
            State::Planned(ready) => Some(ready),
            _ => None,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// The instant that it counts for.
    pub(crate) fn at(&self) -> Timestamp {
        self.fixed_at().unwrap_or(self.arrived_at)
    }

    /// The instant that it counts for, if nothing moves that.
    fn fixed_at(&self) -> Option<Timestamp> {
        let waiting = self.waiting.map(|waiting| waiting.at);
        waiting.or_else(|| self.incoming().fixed_at())
    }

    /// When it came in, or was queued.
    fn came_in(&self) -> Timestamp {
        let queued = self.incoming().queued.map(|queued| queued.held.queued_at);
        let waiting = self.waiting.map(|waiting| waiting.queued_at);
        waiting.or(queued).unwrap_or(self.arrived_at)
    }

    /// Whether its script may put it behind what its member has, if the time there is only a little later than its own: another
    /// instance has given that, or a record of the same time stands before this one in the log.
    fn may_follow(&self) -> bool {
        self.fixed_at().is_none() && self.blocked == 0 || self.incoming().has_time_of_record()
    }

    /// The instants by which it is planned at `now`.
    fn instants(&self, now: Timestamp) -> Instants {
        let now = self.planned_at(now);
        Instants {
            at: self.at(),
            came_in: self.came_in(),
            now,
        }
    }

    /// The time now, which is not before it came in: a clock may go back.
    fn planned_at(&self, now: Timestamp) -> Timestamp {
        now.max(self.arrived_at)
    }

    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        match self.state {
            State::Blocked(obstacle) => Some(obstacle),
            _ => None,
        }
    }

    /// It can't go on before this is removed.
    pub(crate) fn block(&mut self, obstacle: Obstacle) {
        self.with_history |= obstacle == Obstacle::MissingHistory;
        self.searches |= obstacle == Obstacle::Elsewhere;
        if let Obstacle::Waiting(times) = obstacle {
            self.waiting = Some(times);
        }
        self.state = State::Blocked(obstacle);
    }

    /// It failed: nobody may know whether it was taken.
    pub(crate) fn fail(&mut self, error: Error) {
        self.state = State::Ended(Err(error));
    }

    /// A rule refuses it, or it has to count for a later time.
    fn refuse(&mut self, board: &Board, rejection: Rejection, came_in: Timestamp) {
        match rejection.not_before() {
            Some(first) if self.fixed_at().is_none() => self.block(Obstacle::TooEarly(first)),
            _ => self.fail(Error::rejected(board, rejection, self.at(), came_in)),
        }
    }

    /// In a league, its member has no seat in its period: it gets one if that is the running one, and none any more if it is over.
    fn want_seat(&mut self, board: &Board, period: &Period, now: Timestamp) {
        let is_over = |end: &Timestamp| *end <= now;
        match period.end().filter(is_over) {
            _ if period.contains(now) => self.block(Obstacle::Unseated),
            Some(end) if self.fixed_at().is_none() => self.block(Obstacle::TooEarly(end)),
            _ => self.refuse(board, Rejection::NotSeated, now),
        }
    }

    /// It begins again, if it was blocked.
    fn begin(&mut self, clock: &Clock) {
        let Some(obstacle) = self.obstacle() else {
            return;
        };
        self.blocked += 1;
        if let Obstacle::TooEarly(first) = obstacle {
            (self.arrived_at, self.blocked) = (clock.arrival_from(first), 0);
        }
        self.state = State::New;
    }

    /// Plans it if it is new, or refuses it at once. One that has an id is never refused at once: the id may be known. Neither is one whose
    /// period may be closed: that is the reason that is told.
    fn plan(&mut self, live: &LiveBoard, report: Report, now: Timestamp) {
        if !matches!(self.state, State::New) {
            return;
        }
        let incoming = &self.request[self.index];
        let board = &live.board;
        let event = match incoming.event(board) {
            Ok(event) => event,
            Err(error) => return self.fail(error),
        };
        let instants = self.instants(now);
        let mut plan = live.plan(event, instants);
        plan.cohort = self.sitting.cohort;
        let follows_until = if self.may_follow() {
            plan.until(board)
        } else {
            None
        };
        self.state = match plan.rejection {
            Some(rejection) if incoming.id.is_none() && !board.closes_periods() => {
                let came_in = instants.came_in;
                State::Ended(Err(Error::rejected(board, rejection, plan.at, came_in)))
            }
            _ => State::Planned(Ready {
                plan,
                detail: report.detail,
                asks_quotas: report.quotas,
                follows_until,
                with_history: self.with_history,
                token: None,
                is_recalled: self.searches,
                queued: incoming.queued.map(|queued| queued.held),
            }),
        };
    }

    /// Its plan, if it is planned for a period of a league in which its member has no seat.
    fn unseated(&self) -> Option<&Plan> {
        let plan = self.planned().map(|ready| &ready.plan);
        plan.filter(|plan| plan.cohort.is_none())
    }

    /// In a league, has its id looked up in all cohorts if its member was erased, and has no seat in its period.
    fn look_for_id(&mut self) {
        let has_id = self.incoming().id.is_some();
        if has_id && self.sitting.was_erased && !self.searches && self.unseated().is_some() {
            self.block(Obstacle::Elsewhere);
        }
    }

    /// Whether it is planned for the running period of a league, in which its member has no seat yet.
    fn is_to_be_seated(&self, live: &LiveBoard, unit: Unit, now: Timestamp) -> bool {
        self.unseated().is_some_and(|plan| {
            let period = live.board.calendar.containing(unit, plan.at);
            plan.rejection.is_none() && period.contains(self.planned_at(now))
        })
    }

    /// In a league, keeps it from being sent if its member has no seat in its period: no cohort knows its id.
    fn look_for_seat(&mut self, board: &Board, unit: Unit, now: Timestamp) {
        let Some(plan) = self.unseated() else {
            return;
        };
        let period = board.calendar.containing(unit, plan.at);
        let now = self.planned_at(now);
        match plan.rejection {
            Some(rejection) => self.refuse(board, rejection, now),
            None => self.want_seat(board, &period, now),
        }
    }

    /// What goes to the store, if it is planned; from then on it is sent.
    pub(crate) fn send(&mut self) -> Option<Ready> {
        let plan = &self.planned()?.plan;
        let sent = State::Sent(plan.at, Arc::clone(&plan.route), plan.section());
        match mem::replace(&mut self.state, sent) {
            State::Planned(ready) => Some(ready),
            _ => None,
        }
    }

    /// Whether it holds up later events of its member, if these come out of a queue: it waits, or nobody knows what became of it.
    pub(crate) fn holds_up(&self) -> bool {
        matches!(
            self.state,
            State::Blocked(_) | State::Ended(Err(Error::Again(_) | Error::Store(_)))
        )
    }

    /// Takes note that this cohort remembers it, and not the one that it was planned for.
    pub(crate) fn move_to(&mut self, earlier: Section) {
        if let State::Sent(_, _, section) = &mut self.state {
            *section = Some(earlier);
        }
    }

    /// Takes note of what the store says of it.
    pub(crate) fn hear(&mut self, live: &Arc<LiveBoard>, reply: Reply<Answer>, now: Timestamp) {
        match reply {
            Ok(answer) => self.answered(live, answer, now),
            Err(StoreError::Stale) => self.block(Obstacle::StaleBoard),
            // It is not sent again, since a part of its call may have been done.
            Err(error) => self.fail(error.into()),
        }
    }

    fn answered(&mut self, live: &Arc<LiveBoard>, answer: Answer, now: Timestamp) {
        let State::Sent(at, route, section) = mem::replace(&mut self.state, State::New) else {
            panic!("an event is answered that was not sent");
        };
        let came_in = self.came_in();
        let (outcome, is_duplicate, remaining, changed) = match answer {
            Answer::Taken {
                outcome,
                remaining,
                changed,
            } => (outcome, false, remaining, changed),
            Answer::Duplicate(outcome, changed) => (outcome, true, Vec::new(), changed),
            Answer::Rejected(rejection) => return self.refuse(&live.board, rejection, came_in),
            Answer::Behind(first) => return self.block(Obstacle::TooEarly(first)),
            Answer::NeedsHistory => return self.block(Obstacle::MissingHistory),
            Answer::NeedsStanding(window) => {
                return self.block(Obstacle::IncompleteStanding(window, at, section));
            }
            Answer::Void => return self.block(Obstacle::VoidReservation),
            Answer::Erasing => return self.block(Obstacle::Erasing),
            Answer::Elsewhere => return self.block(Obstacle::Elsewhere),
            Answer::Gone => return self.fail(Error::Again(Outdated::Queue)),
            Answer::Waiting {
                at,
                queued_at,
                rejection,
            } => match rejection.filter(|_| self.waiting.is_some()) {
                Some(rejection) => {
                    return self.fail(Error::rejected(&live.board, rejection, at, came_in));
                }
                None => return self.block(Obstacle::Waiting(WaitingTimes { at, queued_at })),
            },
            Answer::Unseated => {
                let section = section.expect("invariant: only a cohort has no seat for a member");
                let member = &self.incoming().member;
                live.known_seats.forget(member, &section.period);
                if self.sitting.is_remembered {
                    return self.block(Obstacle::SeatLost);
                }
                return self.want_seat(&live.board, &section.period, self.planned_at(now));
            }
        };
        self.state = State::Ended(Ok(Submitted {
            live: Arc::clone(live),
            outcome,
            is_duplicate,
            quotas: RemainingQuota::of_board(&live.board, &remaining, at, now),
            route,
            section,
            changed,
        }));
    }
}

/// How often events are sent again. Events that wait for others are sent again for as long as some of them get on, and
/// then a little longer.
#[derive(Default)]
pub(crate) struct Attempts {
    count: usize,
    /// The pauses since some have got on.
    pauses: usize,
    pauses_max: usize,
    /// For how much longer what erased members have left is removed. The first one has half of that.
    forgetting: Duration,
    /// Whether they have waited in vain.
    is_careful: bool,
}

impl Attempts {
    /// Those of events of a request.
    pub(crate) fn of_request(engine: &Engine) -> Self {
        Self {
            pauses_max: PAUSES_MAX,
            forgetting: 2 * engine.steps_wait_max(),
            ..Self::default()
        }
    }

    /// Those of events out of a queue. If they have to wait for others, or for what an erased member has left, they fail soon.
    /// `is_careful`: they have waited in vain before.
    pub(crate) fn of_queue(is_careful: bool) -> Self {
        Self {
            pauses_max: QUEUED_PAUSES_MAX,
            forgetting: QUEUED_FORGETTING_MAX,
            is_careful,
            ..Self::default()
        }
    }

    /// Prepares the next attempt, of those of `before` events that are `open`. Fails if there is none.
    async fn next(&mut self, before: usize, open: &[Submission]) -> Result<(), Error> {
        let mut obstacles = open.iter().filter_map(Submission::obstacle);
        if !obstacles.any(|obstacle| obstacle == Obstacle::Others) {
            self.count += 1;
            return (self.count < ATTEMPTS_MAX)
                .then_some(())
                .ok_or_else(Error::busy);
        }
        if open.len() < before {
            self.pauses = 0;
            self.is_careful = false;
            return Ok(());
        }
        if self.pauses >= self.pauses_max {
            let message = "whether a quota is used up depends on events that are on their way";
            return Err(StoreError::Unavailable(message.into()).into());
        }
        let pause_ms = (PAUSE_MS_MIN << self.pauses).min(PAUSE_MS_MAX);
        self.pauses += 1;
        self.is_careful = true;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        Ok(())
    }
}

/// Keeps planned events of a league from being sent whose members have no seat in their periods.
async fn look_for_seats(
    live: &Arc<LiveBoard>,
    unit: Unit,
    open: &mut Vec<Submission>,
    now: Timestamp,
) {
    for submission in open.iter_mut() {
        submission.look_for_id();
    }
    if live.board.reserves() {
        let unseated = open.extract_if(.., |event| event.is_to_be_seated(live, unit, now));
        let unseated = unseated.collect();
        open.extend(reservations::judge(live, unseated, now).await);
    }
    for submission in open.iter_mut() {
        submission.look_for_seat(&live.board, unit, now);
    }
}

impl Engine {
    /// Takes events of one request, or out of a queue, that are of this board. All of them have ended when this returns.
    pub(crate) async fn submit(
        &self,
        board: &BoardId,
        mut open: Vec<Submission>,
        report: Report,
        mut attempts: Attempts,
    ) -> Vec<Submission> {
        let mut ended = Vec::with_capacity(open.len());
        while !open.is_empty() {
            let before = open.len();
            let attempt = self.attempt(board, &mut open, report, &mut attempts).await;
            ended.extend(open.extract_if(.., |submission| submission.has_ended()));
            let next = match attempt {
                Ok(()) if open.is_empty() => Ok(()),
                Ok(()) => attempts.next(before, &open).await,
                Err(error) => Err(error),
            };
            if let Err(error) = next {
                for submission in &mut open {
                    submission.fail(error.clone());
                }
                ended.append(&mut open);
            }
        }
        ended
    }

    /// Sends events once, and removes what blocks them.
    async fn attempt(
        &self,
        id: &BoardId,
        open: &mut Vec<Submission>,
        report: Report,
        attempts: &mut Attempts,
    ) -> Result<(), Error> {
        let live = self.live_board(id).await?;
        // A cohort lies in one shard.
        let is_spread = live.shards.len() > 1 && !live.board.is_league();
        if is_spread && report.detail == Detail::Ranks {
            let detail =
                format!("board {id} has several shards, which can't tell ranks in one step");
            return Err(Problem::invalid_parameter("ranks", detail).into());
        }
        match self.note_use(&live).await {
            Err(Error::Again(_)) => return self.reload(id).await,
            noted => noted?,
        }
        let now = self.clock.now();
        for submission in open.iter_mut() {
            submission.begin(&self.clock);
        }
        self.find_seats(&live, open).await;
        for submission in open.iter_mut() {
            submission.plan(&live, report, now);
        }
        self.recall(&live, open, now).await;
        if let Some(unit) = live.board.league_unit() {
            look_for_seats(&live, unit, open, now).await;
        }
        if live.board.reserves() {
            let is_careful = attempts.is_careful;
            *open = reservations::apply(&live, mem::take(open), is_careful, now).await;
        } else {
            applier::apply(&live, open, now).await;
        }
        self.remove_obstacles(&live, open, attempts).await
    }

    /// Notes that a board of several shards has events, before it gets the first.
    pub(crate) async fn note_use(&self, live: &LiveBoard) -> Result<(), Error> {
        if !live.is_used.load(Ordering::Relaxed) {
            self.store.mark_used(&live.board).boxed().await?;
            live.is_used.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn remove_obstacles(
        &self,
        live: &LiveBoard,
        open: &mut [Submission],
        attempts: &mut Attempts,
    ) -> Result<(), Error> {
        self.seat_all(live, open).await;
        self.forget_erased(live, open, attempts).await?;
        let obstacles = || open.iter().filter_map(Submission::obstacle);
        if obstacles().any(|obstacle| obstacle == Obstacle::StaleBoard) {
            self.reload(&live.board.id).await?;
        }
        for obstacle in obstacles() {
            if let Obstacle::IncompleteStanding(window, at, section) = obstacle {
                let series = live.board.series(window, Track::Shown);
                let period = || live.board.calendar.containing(window.unit(), at);
                let section = section.unwrap_or_else(|| period().into());
                for shard in live.shards_of(section) {
                    self.complete_from(&shard.shard, series, at.ms(), None)
                        .await?;
                    let standing = Standing::of(series, section);
                    let followed = shard.follow_hides(standing).await;
                    let followed = self.unless_again(&live.board.id, followed).await?;
                    if followed.is_some_and(|followed| followed.is_narrow) {
                        self.widen(&shard.shard, &standing).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes what erased members have left whose events are blocked by that. All events of a member fail that takes too long.
    async fn forget_erased(
        &self,
        live: &LiveBoard,
        open: &mut [Submission],
        attempts: &mut Attempts,
    ) -> Result<(), Error> {
        let erasing = open
            .iter()
            .filter(|submission| submission.obstacle() == Some(Obstacle::Erasing));
        let erasing: BTreeSet<_> = erasing
            .map(|submission| submission.incoming().member.clone())
            .collect();
        for member in erasing {
            // So one that takes long leaves some time to the others.
            let (begun, wait_max) = (Instant::now(), attempts.forgetting / 2);
            let forgotten = self.forget_within(wait_max, &live.board.id, &member).await;
            attempts.forgetting = attempts.forgetting.saturating_sub(begun.elapsed());
            match forgotten {
                Err(error) if error.is_turn_of_others() => {
                    let is_own =
                        |submission: &&mut Submission| submission.incoming().member == member;
                    for submission in open.iter_mut().filter(is_own) {
                        submission.fail(error.clone());
                    }
                }
                forgotten => forgotten?,
            }
        }
        Ok(())
    }
}
