//! How boards are spread over shards.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::{Path, board_id};
use super::problem::{Problem, ProblemBody};

/// How a board is spread over slots of a cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct Spread {
    /// Over how many shards.
    #[schema(minimum = 1, maximum = 64, example = 1)]
    pub shards: u16,
    /// Over how many it is going to be; null if it is not on the way.
    #[schema(minimum = 1, maximum = 64, example = 16)]
    pub moving_to: Option<u16>,
    /// How many entries have been copied on that way; those that change meanwhile are copied again.
    #[schema(example = 120_000)]
    pub copied: u64,
}

/// Read how a board is spread, and how far it has come with that.
///
/// A change of `shards` in the definition is carried out in the background, while events and reads go on.
#[utoipa::path(
    get, path = "/v1/boards/{board}/shards", tag = "operations", operation_id = "get_shards",
    params(("board" = String, Path, description = "The board's id", example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")),
    responses(
        (status = 200, description = "How it is spread", body = Spread),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(board): Path<String>,
) -> Result<JsonResponse<Spread>, Problem> {
    let progress = app.service.reshard_progress(&board_id(&board)?).await?;
    Ok(JsonResponse(Spread {
        shards: progress.shards,
        moving_to: progress.moving_to,
        copied: progress.copied,
    }))
}
