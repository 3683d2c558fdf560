//! Takes events.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use metrics::counter;

use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::queued::QueuedEvent;
pub use crate::engine::events::{BATCH_MAX, Incoming, RemainingQuota, Report, Submitted};
use crate::engine::submission::Submission;
use crate::store::StoreError;

/// How the events of a request are to be taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner<'a> {
    /// What the results tell.
    pub report: Report,
    /// Whether events may be queued, also on boards that apply them before they answer.
    pub prefers_async: bool,
    /// The player who has sent them, if it was one.
    pub player: Option<&'a MemberId>,
}

/// What became of an event that was not refused.
#[derive(Debug)]
pub enum Received {
    /// It was taken, now or before.
    Taken(Submitted),
    /// It waits to be applied.
    Queued(Box<QueuedEvent>),
}

/// Events of a board that have ended: those that were queued or could not be, and the others.
type Ended = (Vec<(usize, Result<QueuedEvent, Error>)>, Vec<Submission>);

impl Service {
    /// Takes the events of one request; the results are in their order.
    pub async fn submit(
        &self,
        request: &Arc<[Incoming]>,
        manner: Manner<'_>,
    ) -> Vec<Result<Received, Error>> {
        let mut by_board: HashMap<&BoardId, Vec<Submission>> = HashMap::new();
        for (index, incoming) in request.iter().enumerate() {
            let submissions = by_board.entry(&incoming.board).or_default();
            submissions.push(Submission::new(request, index));
        }
        let boards = by_board
            .into_iter()
            .map(|(board, submissions)| self.submit_to(board, submissions, manner));
        let mut results: Vec<_> = request.iter().map(|_| None).collect();
        for (queued, submitted) in join_all(boards).await {
            for (index, result) in queued {
                let queued = |event| Received::Queued(Box::new(event));
                results[index] = Some(result.map(queued));
            }
            for submission in submitted {
                let (index, result) = submission.into_result();
                results[index] = Some(result.map(Received::Taken));
            }
        }
        let lost = || Err(StoreError::Unexpected("an event without its result".into()).into());
        let results = results
            .into_iter()
            .map(|result| result.unwrap_or_else(lost));
        results.inspect(count).collect()
    }

    /// Takes those that are of one board.
    async fn submit_to(
        &self,
        board: &BoardId,
        mut submissions: Vec<Submission>,
        manner: Manner<'_>,
    ) -> Ended {
        let (mut queued, report) = (Vec::new(), manner.report);
        match self.engine.live_board(board).await {
            Ok(live) if live.board.queues(manner.prefers_async) => {
                let batch = self.engine.queue(board, submissions, manner.player).await;
                (queued, submissions) = (batch.ended, batch.left);
            }
            Ok(_) => {}
            Err(error) => {
                for submission in &mut submissions {
                    submission.fail(error.clone());
                }
                return (queued, submissions);
            }
        }
        let submitted = self.engine.submit(board, submissions, report).await;
        (queued, submitted)
    }
}

fn count(result: &Result<Received, Error>) {
    let status = match result {
        Ok(Received::Queued(_)) => "queued",
        Ok(Received::Taken(submitted)) if submitted.is_duplicate => "duplicate",
        Ok(Received::Taken(_)) => "taken",
        Err(_) => "rejected",
    };
    counter!("standings_events_total", "status" => status).increment(1);
}
