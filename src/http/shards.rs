//! How boards are spread over shards.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::App;
use super::audit::Audit;
use super::extract::{BoardPath, Json, Path, board_id};
use super::problem::Problem;
use crate::service::shards::Spread;

/// Over how many shards a board is to be spread.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ShardCount)]
pub struct SpreadBody {
    /// How many shards.
    #[schema(minimum = 1, maximum = 64, example = 16)]
    count: u16,
}

/// Spread a board over another number of shards.
///
/// The service moves the data in the background, while events and reads go on. The same request again changes nothing.
#[utoipa::path(
    put, path = "/v1/boards/{board}/shards", tag = "operations", operation_id = "put_shards",
    params(BoardPath),
    request_body(content = SpreadBody, example = json!({"count": 1})),
    responses(
        (status = 200, description = "The board is spread over this number of shards", body = Spread),
        (status = 202, description = "A move to this number of shards is under way", body = Spread),
        (status = 409, description = "`board-in-use`: a move to another number of shards is under way"),
    )
)]
pub async fn put(
    State(app): State<Arc<App>>,
    Path(BoardPath { board }): Path<BoardPath>,
    audit: Audit,
    Json(SpreadBody { count }, _): Json<SpreadBody>,
) -> Result<(StatusCode, JsonResponse<Spread>), Problem> {
    let board = board_id(&board)?;
    let (before, spread) = app.service.spread_board(&board, count).await?;
    audit.before(&json!({"shards": before}));
    audit.after(&json!({"shards": spread.moving_to.unwrap_or(spread.shards)}));
    let status = match spread.moving_to {
        Some(_) => StatusCode::ACCEPTED,
        None => StatusCode::OK,
    };
    Ok((status, JsonResponse(spread)))
}

/// Read how a board is spread, and how far a move has come.
#[utoipa::path(
    get, path = "/v1/boards/{board}/shards", tag = "operations", operation_id = "get_shards",
    params(BoardPath),
    responses((status = 200, description = "How it is spread", body = Spread))
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(BoardPath { board }): Path<BoardPath>,
) -> Result<JsonResponse<Spread>, Problem> {
    let spread = app.service.reshard_progress(&board_id(&board)?).await?;
    Ok(JsonResponse(spread))
}
