//! Accepts events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;

pub use crate::core::write::events::{
    AcceptedEvent, BATCH_MAX, IncomingEvent, RemainingQuota, Report,
};
use crate::core::write::obstacles::Budget;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::event::Detail;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::problems::Problem;
use crate::domain::queued::QueuedEvent;
use crate::queue::putting;
use crate::runtime::join::join_all;

/// How to take the events of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubmitOptions<'a> {
    /// What to report in the results.
    pub report: Report,
    /// Whether events may be queued, even on boards that apply them before responding.
    pub prefers_async: bool,
    /// The player that sent them, if any.
    pub player: Option<&'a MemberId>,
    /// Whether the caller may read boards that are not public.
    pub reads: bool,
}

impl SubmitOptions<'_> {
    /// Whether the results show scores, ranks and counts of a board.
    fn may_read(&self, board: &Board) -> bool {
        self.reads || board.definition.public
    }

    /// Checks that the caller may see what it asks for.
    fn check(&self, board: &Board) -> Result<(), Error> {
        if self.report.detail == Detail::Ranks && !self.may_read(board) {
            return Err(Problem::ranks_not_told().into());
        }
        Ok(())
    }
}

/// The outcome of an event that was not refused.
#[derive(Debug)]
pub enum Receipt {
    /// It was taken, now or before.
    Accepted(AcceptedEvent),
    /// It waits to be applied.
    Queued(Arc<QueuedEvent>),
}

/// The outcomes of events, by their indexes in the request.
type Results = Vec<(usize, Result<Receipt, Error>)>;

/// Removes what only callers that may read the board see: scores, ranks, quotas, and the revision, which counts events.
fn withhold(result: &mut Result<Receipt, Error>) {
    match result {
        Ok(Receipt::Accepted(accepted)) => {
            accepted.outcome.changes.clear();
            accepted.quotas.clear();
            accepted.changed = None;
        }
        Ok(Receipt::Queued(_)) => {}
        Err(error) => error.withhold_counts(),
    }
}

/// Takes the event of a request for one.
pub async fn submit_one(
    engine: &Engine,
    request: &Arc<[IncomingEvent]>,
    options: SubmitOptions<'_>,
) -> Result<Receipt, Error> {
    submit_to(engine, &request[0].board, request, vec![0], options)
        .await
        .remove(0)
        .1
}

/// Takes the events of one request; returns results in the same order.
pub async fn submit(
    engine: &Engine,
    request: &Arc<[IncomingEvent]>,
    options: SubmitOptions<'_>,
) -> Vec<Result<Receipt, Error>> {
    let mut by_board: BTreeMap<&BoardId, Vec<usize>> = BTreeMap::new();
    for (index, incoming) in request.iter().enumerate() {
        by_board.entry(&incoming.board).or_default().push(index);
    }
    let boards = by_board
        .into_iter()
        .map(|(board, indexes)| submit_to(engine, board, request, indexes, options));
    let mut results: Vec<_> = request.iter().map(|_| None).collect();
    for (index, result) in join_all(boards).await.into_iter().flatten() {
        results[index] = Some(result);
    }
    results.into_iter().flatten().collect()
}

/// Takes the events with these indexes, which are all for one board.
async fn submit_to(
    engine: &Engine,
    board: &BoardId,
    request: &Arc<[IncomingEvent]>,
    mut indexes: Vec<usize>,
    options: SubmitOptions<'_>,
) -> Results {
    let live = engine
        .live_board(board)
        .await
        .and_then(|live| options.check(&live.board).map(|()| live));
    let live = match live {
        Ok(live) => live,
        Err(error) => {
            let failed = indexes.into_iter().map(|index| (index, Err(error.clone())));
            return counted(engine, failed.collect());
        }
    };
    let mut results = Vec::with_capacity(indexes.len());
    if live.board.queues(options.prefers_async) {
        let player = options.player;
        let queued = putting::queue_events(engine, live, request, indexes, player);
        indexes = Vec::new();
        for (index, outcome) in queued.boxed().await {
            match outcome.transpose() {
                Some(result) => results.push((index, result.map(Receipt::Queued))),
                None => indexes.push(index),
            }
        }
    }
    if !indexes.is_empty() {
        let budget = Budget::of_request(engine);
        let submitted = engine
            .submit(board, request, indexes, options.report, budget)
            .boxed()
            .await
            .into_iter();
        results.extend(submitted.map(|(index, result)| (index, result.map(Receipt::Accepted))));
    }
    if !options.reads {
        // An attempt under an older definition is refused, and reads this one.
        let live = engine.live_board(board).await;
        if !live.is_ok_and(|live| options.may_read(&live.board)) {
            for (_, result) in &mut results {
                withhold(result);
            }
        }
    }
    counted(engine, results)
}

/// Counts results in the metrics, and accepted events for their board, and returns them.
fn counted(engine: &Engine, results: Results) -> Results {
    for (_, result) in &results {
        let counters = &engine.event_counts;
        let counter = match result {
            Ok(Receipt::Queued(_)) => &counters.queued,
            Ok(Receipt::Accepted(accepted)) if accepted.is_duplicate => &counters.duplicate,
            Ok(Receipt::Accepted(accepted)) => {
                accepted.live.accepted.fetch_add(1, Ordering::Relaxed);
                &counters.taken
            }
            Err(_) => &counters.rejected,
        };
        counter.increment(1);
    }
    results
}
