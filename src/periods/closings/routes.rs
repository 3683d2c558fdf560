//! The route that closes a period early.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::http::extract::{JsonResponse, Path, Shared, State, board_id, choice};
use crate::http::problem::Problem;
use crate::periods::results;
use crate::periods::results::routes::{PeriodPath, ResultBody};

/// Make a period final now.
///
/// The rest of the wait (`finalize`) is skipped. Every period of the board that ended by then becomes final too. Repeating
/// the request changes nothing.
#[utoipa::path(
    post, path = "/v1/boards/{board}/standings/{window}/periods/{key}/close", operation_id = "close_period",
    params(PeriodPath),
    responses(
        (status = 200, description = "The period is final: its result", body = ResultBody),
        (status = 204, description = "The period is final, and has no data"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`: the window has no results"),
        (status = 409, description = "`period-running`, `not-finalized`"),
        (status = 503, description = "`time-uncertain`, with `Retry-After`"),
    )
)]
pub async fn post(
    State(app): Shared,
    Path(PeriodPath { board, window, key }): Path<PeriodPath>,
) -> Result<Response, Problem> {
    let (board, choice) = (board_id(&board)?, choice(Some(&key), None)?);
    let found = results::work::close_period(&app.engine, &board, &window, &choice).await?;
    Ok(match found {
        Some(found) => JsonResponse(ResultBody::new(&found)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
