//! Requests with many items, each of which is accepted or refused separately.

use axum::http::StatusCode;
use serde_json::value::RawValue;

use super::problem::{LOG_UNAVAILABLE, Problem, QUEUE_FULL};

/// The results of the items of a batch, in their order: `results` for the valid ones, the problem for the others. If one
/// has to be sent again, all have to: no item has a result.
pub(crate) fn results_of<R>(
    (items, checked): (&[&RawValue], Vec<Result<(), Problem>>),
    mut results: impl Iterator<Item = Result<R, Problem>>,
    rejected: impl Fn(&RawValue, &Problem) -> R,
) -> Result<Vec<R>, Problem> {
    items
        .iter()
        .zip(checked)
        .map(|(item, checked)| {
            let lost = || Err(Problem::internal("there is no result for an item"));
            match checked.and_then(|()| results.next().unwrap_or_else(lost)) {
                Err(problem)
                    if problem.kind.status == StatusCode::SERVICE_UNAVAILABLE
                        && ![QUEUE_FULL, LOG_UNAVAILABLE].contains(&problem.kind) =>
                {
                    Err(problem)
                }
                result => Ok(result.unwrap_or_else(|problem| rejected(item, &problem))),
            }
        })
        .collect()
}
