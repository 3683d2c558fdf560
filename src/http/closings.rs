//! Making a period final.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use super::extract::{Path, board_id};
use super::problem::{Problem, ProblemBody};

/// Make a period final now.
///
/// The rest of the wait, `finalize`, is skipped. Every period of the board that ends no later becomes final, too. The same request
/// again changes nothing.
#[utoipa::path(
    post, path = "/v1/boards/{board}/standings/{window}/periods/{key}/close", tag = "results", operation_id = "close_period",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        ("window" = String, Path, description = "The window", example = "week"),
        ("key" = String, Path, description = "The key of a period that has ended", example = "2026-11-09"),
    ),
    responses(
        (status = 204, description = "The period is final"),
        (status = 400, description = "`invalid-parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`board-not-found`, `unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`period-running`, `not-finalized`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn post(
    State(app): State<Arc<App>>,
    Path((board, window, key)): Path<(String, String, String)>,
) -> Result<StatusCode, Problem> {
    let board = board_id(&board)?;
    app.service.close_period(&board, &window, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}
