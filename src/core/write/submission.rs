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
//! changed nothing, and the next attempt plans it again. Each event has its own result; a failed one doesn't stop the others.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;

use super::events::{AcceptedEvent, IncomingEvent, RemainingQuota, Report};
use super::obstacles::{Budget, Obstacle};
use super::sittings::Sitting;
use super::store::events::{EventReply, PlannedEvent};
use super::{applier, reservations};
use crate::core::board::store::boards;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::event::{Detail, Event, Outcome, Rejection};
use crate::domain::ids::{BoardId, EventId};
use crate::domain::league::Section;
use crate::domain::period::Period;
use crate::domain::plan::{Instants, Route};
use crate::domain::problems::Problem;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;

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
        request: &Arc<[IncomingEvent]>,
        indexes: Vec<usize>,
        report: Report,
        mut budget: Budget,
    ) -> Vec<(usize, Result<AcceptedEvent, Error>)> {
        let mut ended = Vec::with_capacity(indexes.len());
        let mut open: Vec<_> = indexes
            .into_iter()
            .map(|index| Submission::new(request, index))
            .collect();
        while !open.is_empty() {
            let attempt = self.attempt(board, &mut open, report, &mut budget).await;
            for event in mem::take(&mut open) {
                match (event.stage, &attempt) {
                    (Stage::Ended(result), _) => ended.push((event.index, result)),
                    (_, Err(error)) => ended.push((event.index, Err(error.clone()))),
                    (stage, Ok(())) => open.push(Submission { stage, ..event }),
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
        for event in &mut *open {
            if matches!(event.stage, Stage::New) {
                event.stage = event.plan(attempt).unwrap_or_else(Stage::from);
            }
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
            let stage = event.without_seat(attempt);
            matches!(stage, Some(Stage::Blocked(Obstacle::Unseated)))
        };
        let unseated = open.extract_if(.., is_to_be_seated).collect();
        open.extend(reservations::judge(attempt, unseated).await);
    }
    for event in open {
        if let Some(stage) = event.without_seat(attempt) {
            event.stage = stage;
        }
    }
}

/// An event of a request, between its steps.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: Arc<[IncomingEvent]>,
    /// Which event of the request it is.
    pub(crate) index: usize,
    /// The instant that it counts for, if that can't change.
    pub(super) fixed_at: Option<Timestamp>,
    /// The id that the service has given it, on a board that keeps events.
    pub(super) made_id: Option<EventId>,
    /// When it came in or was queued; or a later time that it got.
    pub(super) came_in: Timestamp,
    /// Whether its script may move it to after its member's last change, if that is only a little later: another instance's
    /// clock made that time, or a record with the same time is before this one in the log.
    pub(super) may_follow: bool,
    /// Whether the history of its rolling windows is sent with it.
    pub(super) with_history: bool,
    /// In a league, where its member sits in its period.
    pub(crate) sitting: Sitting,
    /// In a league, whether any cohort may remember its id.
    pub(crate) searches: bool,
    pub(crate) stage: Stage,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every event is planned: a box for each would cost more"
)]
pub(crate) enum Stage {
    /// It must be planned.
    New,
    /// What it writes and takes of quotas is known.
    Planned(PlannedEvent),
    /// It was sent: where it goes.
    Sent(Arc<Route>, Option<Section>),
    /// It has changed nothing, and must be planned again.
    Blocked(Obstacle),
    /// Its outcome is known, or can't be known.
    Ended(Result<AcceptedEvent, Error>),
}

impl<E: Into<Error>> From<E> for Stage {
    fn from(error: E) -> Self {
        match error.into() {
            Error::Again(Outdated::Board) => Self::Blocked(Obstacle::StaleBoard),
            error => Self::Ended(Err(error)),
        }
    }
}

impl Submission {
    /// An event of a request that has done nothing yet.
    pub(crate) fn new(request: &Arc<[IncomingEvent]>, index: usize) -> Self {
        let incoming = &request[index];
        let fixed_at = incoming.fixed_at();
        Self {
            request: Arc::clone(request),
            index,
            fixed_at,
            made_id: None,
            came_in: incoming.arrived_at,
            may_follow: fixed_at.is_none() || incoming.has_time_of_record(),
            with_history: false,
            sitting: Sitting::default(),
            searches: false,
            stage: Stage::New,
        }
    }

    /// The event as it came in.
    pub(crate) fn incoming(&self) -> &IncomingEvent {
        &self.request[self.index]
    }

    /// The event with its plan, if it is planned.
    pub(crate) fn planned(&self) -> Option<&PlannedEvent> {
        match &self.stage {
            Stage::Planned(planned) => Some(planned),
            _ => None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    /// Whether later events of its member from a queue must wait for it: it waits, or its outcome can't be known.
    pub(crate) fn holds_up(&self) -> bool {
        matches!(
            self.stage,
            Stage::Blocked(_) | Stage::Ended(Err(Error::Again(_) | Error::Store(_)))
        )
    }

    /// The instant that it counts for.
    pub(crate) fn at(&self) -> Timestamp {
        self.fixed_at.unwrap_or(self.came_in)
    }

    /// The event with its plan. One that has an id is never refused at once, since the id may be known; nor is one whose
    /// period may be closed, since clients get that as the reason.
    fn plan(&mut self, attempt: &Attempt) -> Result<Stage, Error> {
        let board = &attempt.live.board;
        if board.keeps_events() && self.incoming().id.is_none() && self.made_id.is_none() {
            self.made_id = Some(self.incoming().new_id()?);
        }
        let incoming = self.incoming();
        let instants = Instants {
            at: self.at(),
            came_in: self.came_in,
            now: attempt.now.max(self.came_in),
        };
        let event = Event {
            id: incoming.id.as_ref().or(self.made_id.as_ref()).cloned(),
            ..incoming.event(board)?
        };
        let mut plan = attempt.live.plan(event, instants);
        plan.cohort = self.sitting.cohort;
        let is_sent = incoming.id.is_some() || board.closes_periods();
        if let Some(rejection) = plan.rejection.filter(|_| !is_sent) {
            return Ok(self.refused(board, rejection));
        }
        Ok(Stage::Planned(PlannedEvent {
            follows_until: plan.until(board).filter(|_| self.may_follow),
            plan,
            detail: attempt.report.detail,
            asks_quotas: attempt.report.quotas,
            with_history: self.with_history,
            token: None,
            is_recalled: self.searches,
            queued: incoming.queued,
        }))
    }

    /// A rule refuses it, or it must count for a later time.
    fn refused(&self, board: &Board, rejection: Rejection) -> Stage {
        match rejection.not_before() {
            Some(first) if self.fixed_at.is_none() => Stage::Blocked(Obstacle::TooEarly(first)),
            _ if rejection == Rejection::ScoreBounds => match self.incoming().event(board) {
                Ok(event) => Error::out_of_bounds(&board.definition, event.score).into(),
                Err(error) => error.into(),
            },
            _ => Error::rejected(board, rejection, self.at(), self.came_in).into(),
        }
    }

    /// The next stage of a planned event of a league whose member has no seat in its period: no cohort knows its id.
    fn without_seat(&self, attempt: &Attempt) -> Option<Stage> {
        let (board, plan) = (&attempt.live.board, &self.planned()?.plan);
        let period = board.calendar.containing(board.league_unit()?, plan.at);
        let has_id = plan.event.id.is_some();
        Some(match plan.rejection {
            _ if plan.cohort.is_some() => return None,
            _ if has_id && self.sitting.was_erased && !self.searches => {
                Stage::Blocked(Obstacle::Elsewhere)
            }
            Some(rejection) => self.refused(board, rejection),
            None => self.unseated(board, &period, attempt.now),
        })
    }

    /// Its member gets a seat if its period is the running one, but not if that is over.
    fn unseated(&self, board: &Board, period: &Period, now: Timestamp) -> Stage {
        let now = now.max(self.came_in);
        match period.end().filter(|end| *end <= now) {
            _ if period.contains(now) => Stage::Blocked(Obstacle::Unseated),
            Some(end) if self.fixed_at.is_none() => Stage::Blocked(Obstacle::TooEarly(end)),
            _ => self.refused(board, Rejection::NotSeated),
        }
    }

    /// What to send, if it is planned; from then on it counts as sent.
    pub(crate) fn send(&mut self) -> Option<PlannedEvent> {
        let plan = &self.planned()?.plan;
        let sent = Stage::Sent(Arc::clone(&plan.route), plan.section());
        match mem::replace(&mut self.stage, sent) {
            Stage::Planned(planned) => Some(planned),
            _ => None,
        }
    }

    /// Its stage after the reply of a script, once it was sent.
    pub(crate) fn stage_after(
        &self,
        attempt: &Attempt,
        reply: Result<EventReply, StoreError>,
    ) -> Stage {
        let Stage::Sent(route, section) = &self.stage else {
            panic!("there is a result for an event that was not sent");
        };
        let (live, board) = (&attempt.live, &attempt.live.board);
        let accepted = |outcome: Outcome, is_duplicate, remaining: &[i64], changed| {
            // The first time another cohort may have applied it.
            let before = self
                .sitting
                .before
                .filter(|before| before.period.contains(outcome.at));
            Stage::Ended(Ok(AcceptedEvent {
                live: Arc::clone(live),
                id: self
                    .incoming()
                    .id
                    .as_ref()
                    .or(self.made_id.as_ref())
                    .cloned(),
                outcome,
                is_duplicate,
                quotas: RemainingQuota::of_board(board, remaining, self.at(), attempt.now),
                route: Arc::clone(route),
                section: before.or(*section),
                changed,
            }))
        };
        match reply {
            Ok(EventReply::Taken {
                outcome,
                remaining,
                changed,
            }) => accepted(outcome, false, &remaining, changed),
            Ok(EventReply::Duplicate(outcome, changed)) => accepted(outcome, true, &[], changed),
            Ok(EventReply::Rejected(rejection)) => self.refused(board, rejection),
            Ok(EventReply::Gone) => Error::Again(Outdated::Queue).into(),
            Ok(EventReply::Prevented(Obstacle::SeatLost)) => {
                let Section { period, .. } =
                    section.expect("invariant: only a cohort has no seat for a member");
                live.known_seats.forget(&self.incoming().member, &period);
                if self.sitting.is_remembered {
                    Stage::Blocked(Obstacle::SeatLost)
                } else {
                    self.unseated(board, &period, attempt.now)
                }
            }
            Ok(EventReply::Prevented(Obstacle::Waiting {
                at,
                queued_at,
                rejection: Some(rejection),
            })) if (self.fixed_at, self.came_in) == (Some(at), queued_at) => {
                self.refused(board, rejection)
            }
            Ok(EventReply::Prevented(obstacle)) => Stage::Blocked(obstacle),
            // It is not sent again, since some of its call may have been done.
            Err(error) => error.into(),
        }
    }
}
