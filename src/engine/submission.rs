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
//! - plans them (`domain/plan.rs`);
//! - looks for events that a former shard remembers (`recall.rs`);
//! - reserves what they take of quotas that are counted in other slots (`reservations.rs`);
//! - sends them to the shards of their members (`applier.rs`), and hears what became of them.
//!
//! An event that is blocked has changed nothing. The attempt removes the obstacle, and the next attempt plans the event again.
//! Each event has its own result. If one event fails, the others go on.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::applier::{self, Reply};
use super::events::{Incoming, RemainingQuota, Report, Submitted};
use super::{ATTEMPTS_MAX, Engine, Error, LiveBoard, reservations};
use crate::domain::event::Detail;
use crate::domain::ids::BoardId;
use crate::domain::plan::Route;
use crate::domain::series::{Standing, Track};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::store::events::{Answer, Ready};
use crate::store::{StoreError, Versioned};

/// The pauses of events that wait for others on their way double from the one to the other, in milliseconds.
const PAUSE_MS_MIN: u64 = 5;
const PAUSE_MS_MAX: u64 = 100;
/// How many pauses there are: two seconds in all.
const PAUSES_MAX: usize = 23;

/// An event of a request on its way.
#[derive(Debug)]
pub(crate) struct Submission {
    request: Arc<[Incoming]>,
    /// Which event of the request it is.
    index: usize,
    /// Whether the history of its rolling windows is sent with it, because a standing was missing without that.
    with_history: bool,
    /// The first instant that it may count for, if it counts for the time at which it comes in, and that was refused.
    not_before: Option<Timestamp>,
    state: State,
}

/// Where an event is on its way.
#[derive(Debug)]
enum State {
    /// It has to be planned.
    New,
    /// It is known what it writes and what it takes of quotas.
    Planned(Ready),
    /// The store has it: the instant that it counts for, and where it goes.
    Sent(Timestamp, Arc<Route>),
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
    /// The standing of this window that ends with the period of this instant is not complete.
    IncompleteStanding(Window, Timestamp),
    /// It was sent without the history of its rolling windows, and a standing was missing.
    MissingHistory,
    /// Nothing will be applied any more with its reservation.
    VoidReservation,
    /// Whether a quota is used up depends on others that are on their way.
    Others,
    /// It counts for the time at which it comes in, and that has to be this instant or a later one.
    TooEarly(Timestamp),
    /// Something is left of its member, who was erased.
    Erasing,
}

impl Submission {
    /// An event of a request that has done nothing yet.
    pub(crate) fn new(request: &Arc<[Incoming]>, index: usize) -> Self {
        Self {
            request: Arc::clone(request),
            index,
            with_history: false,
            not_before: None,
            state: State::New,
        }
    }

    /// Which event of its request it was, and what became of it.
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

    fn obstacle(&self) -> Option<Obstacle> {
        match self.state {
            State::Blocked(obstacle) => Some(obstacle),
            _ => None,
        }
    }

    /// It can't go on before this is removed.
    pub(crate) fn block(&mut self, obstacle: Obstacle) {
        self.with_history |= obstacle == Obstacle::MissingHistory;
        if let Obstacle::TooEarly(first) = obstacle {
            self.not_before = self.not_before.max(Some(first));
        }
        self.state = State::Blocked(obstacle);
    }

    /// It failed: nobody may know whether it was taken.
    pub(crate) fn fail(&mut self, error: Error) {
        self.state = State::Ended(Err(error));
    }

    /// Plans it, or refuses it at once. One that has an id is never refused at once: the id may be known. Neither is one whose
    /// period may be closed: that is the reason that is told.
    fn plan(&mut self, live: &LiveBoard, report: Report, now: Timestamp) {
        let incoming = &self.request[self.index];
        let board = &live.board;
        let event = match incoming.event(board) {
            Ok(event) => event,
            Err(error) => return self.fail(error),
        };
        let now = self.not_before.map_or(now, |first| now.max(first));
        let plan = live.routes.plan(board, event, now);
        self.state = match plan.rejection {
            Some(rejection) if incoming.id.is_none() && !board.closes_periods() => {
                State::Ended(Err(Error::rejected(board, rejection, plan.at, now)))
            }
            _ => State::Planned(Ready {
                plan,
                detail: report.detail,
                asks_quotas: report.quotas,
                with_history: self.with_history,
                token: None,
            }),
        };
    }

    /// What goes to the store, if it is planned; from then on it is sent.
    pub(crate) fn send(&mut self) -> Option<Ready> {
        let plan = &self.planned()?.plan;
        let sent = State::Sent(plan.at, Arc::clone(&plan.route));
        match mem::replace(&mut self.state, sent) {
            State::Planned(ready) => Some(ready),
            _ => None,
        }
    }

    /// Takes note of what the store says of it.
    pub(crate) fn hear(&mut self, live: &Arc<LiveBoard>, reply: Reply<Answer>, now: Timestamp) {
        match reply {
            Ok(Versioned::Current(answer)) => self.answered(live, answer, now),
            Ok(Versioned::Stale) => self.block(Obstacle::StaleBoard),
            // It is not sent again, since a part of its call may have been done.
            Err(error) => self.fail(error.into()),
        }
    }

    fn answered(&mut self, live: &Arc<LiveBoard>, answer: Answer, now: Timestamp) {
        let State::Sent(at, route) = mem::replace(&mut self.state, State::New) else {
            panic!("an event is answered that was not sent");
        };
        let submitted = |outcome, is_duplicate, remaining: &[i64]| {
            State::Ended(Ok(Submitted {
                live: Arc::clone(live),
                outcome,
                is_duplicate,
                quotas: RemainingQuota::of_board(&live.board, remaining, at, now),
                route,
            }))
        };
        self.state = match answer {
            Answer::Taken(outcome, remaining) => submitted(outcome, false, &remaining),
            Answer::Duplicate(outcome) => submitted(outcome, true, &[]),
            Answer::Rejected(rejection) => match rejection.not_before() {
                Some(first) if self.incoming().at.is_none() => {
                    return self.block(Obstacle::TooEarly(first));
                }
                _ => State::Ended(Err(Error::rejected(&live.board, rejection, at, now))),
            },
            Answer::NeedsHistory => return self.block(Obstacle::MissingHistory),
            Answer::NeedsStanding(window) => {
                return self.block(Obstacle::IncompleteStanding(window, at));
            }
            Answer::Void => return self.block(Obstacle::VoidReservation),
            Answer::Erasing => return self.block(Obstacle::Erasing),
        };
    }
}

/// How often events are sent again. Events that wait for others are sent again for as long as some of them get on, and
/// then a little longer.
#[derive(Default)]
struct Attempts {
    count: usize,
    /// The pauses since some have got on.
    pauses: usize,
}

impl Attempts {
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
            return Ok(());
        }
        if self.pauses == PAUSES_MAX {
            let message = "whether a quota is used up depends on events that are on their way";
            return Err(StoreError::Unavailable(message.into()).into());
        }
        let pause_ms = (PAUSE_MS_MIN << self.pauses).min(PAUSE_MS_MAX);
        self.pauses += 1;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        Ok(())
    }
}

impl Engine {
    /// Takes events of one request that are of this board. All of them have ended when this returns, but for those that a
    /// fault of this program has lost.
    pub(crate) async fn submit(
        &self,
        board: &BoardId,
        mut open: Vec<Submission>,
        report: Report,
    ) -> Vec<Submission> {
        let mut ended = Vec::with_capacity(open.len());
        let mut attempts = Attempts::default();
        while !open.is_empty() {
            let before = open.len();
            let is_careful = attempts.pauses > 0;
            let attempt = self.attempt(board, &mut open, report, is_careful).await;
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
        is_careful: bool,
    ) -> Result<(), Error> {
        let live = self.live_board(id).await?;
        if live.shards.len() > 1 && report.detail == Detail::Ranks {
            return Err(Error::InvalidParameter {
                name: "ranks",
                detail: format!(
                    "board {id} has several shards, which can't tell ranks in one step"
                ),
            });
        }
        if !self.note_use(&live).await? {
            return Ok(());
        }
        let now = self.clock.now();
        for submission in open.iter_mut() {
            submission.plan(&live, report, now);
        }
        self.recall(&live, open, now).await;
        if live.board.reserves() {
            *open = reservations::apply(&live, mem::take(open), is_careful, now).await;
        } else {
            applier::apply(&live, open, now).await;
        }
        self.remove_obstacles(&live, open).await
    }

    /// Notes that a board of several shards has events, before it gets the first. Returns whether that is done, or
    /// the definition has changed.
    pub(crate) async fn note_use(&self, live: &LiveBoard) -> Result<bool, Error> {
        if live.is_used.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let is_current = self.store.mark_used(&live.board).await? != Versioned::Stale;
        if is_current {
            live.is_used.store(true, Ordering::Relaxed);
        } else {
            self.reload(&live.board.id).await?;
        }
        Ok(is_current)
    }

    async fn remove_obstacles(&self, live: &LiveBoard, open: &[Submission]) -> Result<(), Error> {
        for submission in open {
            if submission.obstacle() == Some(Obstacle::Erasing) {
                let member = &submission.incoming().member;
                self.forget(&live.board.id, member).await?;
            }
        }
        let obstacles = || open.iter().filter_map(Submission::obstacle);
        if obstacles().any(|obstacle| obstacle == Obstacle::StaleBoard) {
            self.reload(&live.board.id).await?;
        }
        for obstacle in obstacles() {
            if let Obstacle::IncompleteStanding(window, at) = obstacle {
                let series = live.board.series(window, Track::Shown);
                let period = live.board.calendar.containing(window.unit(), at);
                for shard in &live.shards {
                    self.complete_from(&shard.shard, series, at.ms()).await?;
                    let standing = Standing { series, period };
                    let followed = self.follow_hides(shard, standing).await?;
                    if followed.is_some_and(|followed| followed.is_narrow) {
                        self.widen(&shard.shard, &standing).await?;
                    }
                }
            }
        }
        Ok(())
    }
}
