//! The job that carries out revocations.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::revocation::Report;
use super::round::Round;
use super::store::{self, Written};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::lease::Lease;
use crate::core::jobs::schedule::Schedule;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::history::Revoking;
use crate::domain::ids::BoardId;
use crate::domain::message::{Message, MessageKind};
use crate::history;
use crate::redis::leases::Leased;
use crate::webhooks::outbox;

/// How long the work pauses after others have changed what it depends on.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// How often a board is looked at while another instance carries its revocation out, in milliseconds.
const INTERVAL_MS: i64 = 1_000;

/// The boards that carry out revocations, by when the job looks at them next.
#[derive(Debug, Default)]
pub struct RevocationSchedule(Schedule<BoardId>);

/// The job that carries out revocations.
#[derive(Clone, Copy, Debug)]
pub struct Revocations;

/// The work on the revocation of a board.
#[derive(Debug)]
pub struct Work {
    id: BoardId,
    /// While this instance works on it.
    lease: Option<Lease>,
    round: Option<Round>,
}

/// Plans the work on a board that is new in memory.
pub fn plan(engine: &Engine, id: &BoardId) {
    let live = engine.boards.get(id);
    let is_revoking = live.is_some_and(|live| live.board.revoking().is_some());
    schedule(engine).plan(id, is_revoking);
}

fn schedule(engine: &Engine) -> &Schedule<BoardId> {
    &engine.states.get::<RevocationSchedule>().0
}

impl Job for Revocations {
    type Item = Work;
    const KIND: JobKind = JobKind::Revocations;

    fn subject(&self, work: &Work) -> Subject {
        Subject::board(&work.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Work>, Error> {
        let _planning = engine.boards.planning();
        let mut due = Vec::new();
        for id in schedule(engine).due(engine.clock.now()) {
            let live = engine.boards.get(&id);
            if live.is_some_and(|live| live.board.revoking().is_some()) {
                due.push(Work::on(id));
            } else {
                schedule(engine).remove(&id);
            }
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, work: &mut Work) -> Result<Progress, Error> {
        let stepped = work.step(engine).await?;
        if stepped == Progress::Done {
            let _planning = engine.boards.planning();
            schedule(engine).set(&work.id, engine.clock.now().ms() + INTERVAL_MS);
        }
        Ok(stepped)
    }
}

impl Work {
    pub(super) fn on(id: BoardId) -> Self {
        Self {
            id,
            lease: None,
            round: None,
        }
    }

    /// Takes a step, if no other instance works on the board. `Done`: nothing is left, or another instance does it.
    pub(super) async fn step(&mut self, engine: &Engine) -> Result<Progress, Error> {
        let Some(live) = engine.find_board(&self.id).await? else {
            return Ok(Progress::Done);
        };
        let Some(revoking) = live.board.revoking().cloned() else {
            return self.give_back().await;
        };
        if self.lease.is_none() {
            let leased = Leased::of_board(&live.board, "revocation");
            self.lease = Lease::take(&engine.store, leased).await?;
        }
        let Some(lease) = &self.lease else {
            return Ok(Progress::Done);
        };
        let step = Box::pin(step_on(engine, &mut self.round, live, revoking));
        let stepped = lease.while_held(step).await;
        let is_held = lease.renew("").await?;
        let Some(stepped) = stepped.filter(|_| is_held) else {
            (self.lease, self.round) = (None, None);
            return Ok(Progress::Done);
        };
        match engine.unless_again(&self.id, stepped).await {
            Ok(Some(progress)) => Ok(progress),
            Err(error) if !error.is_turn_of_others() => {
                self.give_back().await?;
                Err(error)
            }
            _ => {
                sleep(AGAIN_AFTER).await;
                Ok(Progress::More)
            }
        }
    }

    /// Lets other instances work on it.
    pub(super) async fn give_back(&mut self) -> Result<Progress, Error> {
        self.round = None;
        if let Some(lease) = self.lease.take() {
            lease.give_back("").await?;
        }
        Ok(Progress::Done)
    }
}

/// Takes a step of a round, which may have to begin first.
async fn step_on(
    engine: &Engine,
    held: &mut Option<Round>,
    live: Arc<LiveBoard>,
    revoking: Revoking,
) -> Result<Progress, Error> {
    match held {
        Some(round) if round.is_on(&live, &revoking) => round.live = live,
        _ => *held = begin(engine, live, revoking).await?,
    }
    if let Some(round) = held
        && round.step(engine).await? == Progress::Done
    {
        end(engine, round).await?;
    }
    // The next step finds whether anything is left.
    Ok(Progress::More)
}

/// Begins a round; `None` if the revocation is missing.
async fn begin(
    engine: &Engine,
    live: Arc<LiveBoard>,
    revoking: Revoking,
) -> Result<Option<Round>, Error> {
    let (store, board) = (&engine.store, &live.board);
    let history = board.history.clone();
    let history = history.ok_or(Error::Again(Outdated::Board))?;
    // From now on no shard takes a call that was made for an earlier definition.
    boards::open_shards(store, board).await?;
    let round = Round::begin(engine, Arc::clone(&live), revoking).await?;
    if round.is_none() {
        tracing::error!(board = %board.id, "a revocation is missing, and can't be carried out");
        history::job::change(engine, board, Some(history.revoking(None))).await?;
    }
    Ok(round)
}

/// Ends a revocation that is carried out, or restored.
async fn end(engine: &Engine, round: &mut Round) -> Result<(), Error> {
    let report = round.report(engine).await?;
    let (store, live) = (&engine.store, &round.live);
    let board = &live.board;
    let mut revocation = round.revocation.clone();
    let is_restored = round.revoking.is_restoring;
    let Report {
        events, members, ..
    } = report;
    let is_over = revocation.dry_run || is_restored && report.failed_count == 0;
    let place = if is_restored {
        &mut revocation.restored
    } else {
        &mut revocation.report
    };
    *place = Some(report);
    let [_, of_events, of_named] = store::fields_of(&revocation.token);
    let written = Written {
        revocation: Some(&revocation),
        removed: vec![of_named.clone()],
        ..Written::default()
    };
    store::write(store, board, written).await?;
    if !revocation.dry_run {
        let number = revocation.number;
        let data = json!({"revocation": number, "restored": is_restored, "events": events, "members": members});
        let (kind, now) = (MessageKind::EventsRevoked, engine.clock.now());
        let message = Message::new(kind, board, &round.revoking.run, now, &data);
        outbox::store::post(store, board, &[message]).await?;
        board_notes::note(store, NotedFor::Outbox, board).await?;
        // Until the next change of the board nobody revises.
        board_notes::note(store, NotedFor::Revision, board).await?;
    }
    let history = board.history.as_ref();
    let history = history.ok_or(Error::Again(Outdated::Board))?;
    let ended = history.revoking(None);
    if !history::job::change(engine, board, Some(ended)).await? {
        return Err(Error::Again(Outdated::Board));
    }
    // Nothing asks any more which events it names.
    let events = is_over.then_some(of_events);
    let written = Written {
        removed: events.into_iter().chain([of_named]).collect(),
        ..Written::default()
    };
    let live = engine.live_board(&board.id).await?;
    Ok(store::write(store, &live.board, written).await?)
}
