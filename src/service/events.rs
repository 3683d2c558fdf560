//! Taking events.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use metrics::counter;

use super::{Error, Service};
use crate::domain::ids::BoardId;
pub use crate::engine::events::{BATCH_MAX, Incoming, RemainingQuota, Report, Submitted};
use crate::engine::submission::Submission;
use crate::store::StoreError;

impl Service {
    /// Takes the events of one request; the results are in their order.
    pub async fn submit(
        &self,
        request: &Arc<[Incoming]>,
        report: Report,
    ) -> Vec<Result<Submitted, Error>> {
        let mut by_board: HashMap<&BoardId, Vec<Submission>> = HashMap::new();
        for (index, incoming) in request.iter().enumerate() {
            let submissions = by_board.entry(&incoming.board).or_default();
            submissions.push(Submission::new(request, index));
        }
        let boards = by_board
            .into_iter()
            .map(|(board, submissions)| self.engine.submit(board, submissions, report));
        let mut results: Vec<_> = request.iter().map(|_| None).collect();
        for submission in join_all(boards).await.into_iter().flatten() {
            let (index, result) = submission.into_result();
            results[index] = Some(result);
        }
        let lost = || Err(StoreError::Unexpected("an event without its result".into()).into());
        let results = results
            .into_iter()
            .map(|result| result.unwrap_or_else(lost));
        results.inspect(count).collect()
    }
}

fn count(result: &Result<Submitted, Error>) {
    let status = match result {
        Ok(submitted) if submitted.is_duplicate => "duplicate",
        Ok(_) => "taken",
        Err(_) => "rejected",
    };
    counter!("standings_events_total", "status" => status).increment(1);
}
