//! Takes events.

use std::collections::HashMap;

use futures::future::join_all;
use metrics::counter;

use super::{Error, Service};
use crate::domain::ids::BoardId;
pub use crate::engine::submission::{Asked, BATCH_MAX, Incoming, QuotaLeft, Submitted};
use crate::engine::submission::{Pending, Results};

impl Service {
    /// Takes events; the results are in their order.
    pub async fn submit(&self, events: &[Incoming], asked: Asked) -> Vec<Result<Submitted, Error>> {
        let mut by_board: HashMap<&BoardId, Vec<Pending<'_>>> = HashMap::new();
        for (index, incoming) in events.iter().enumerate() {
            let pending = Pending {
                index,
                incoming,
                with_history: false,
                is_waiting: false,
            };
            by_board.entry(&incoming.board).or_default().push(pending);
        }
        let boards = by_board
            .into_iter()
            .map(|(id, pending)| self.engine.submit_to(id, pending, asked));
        let mut results: Results = join_all(boards).await.into_iter().flatten().collect();
        results.sort_unstable_by_key(|(index, _)| *index);
        for (_, result) in &results {
            count(result);
        }
        results.into_iter().map(|(_, result)| result).collect()
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
