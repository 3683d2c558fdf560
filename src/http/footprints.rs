//! About how much memory of Redis a board takes.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::extract::{BoardPath, Path, board_id};
use super::problem::Problem;

/// About how much memory of Redis a board takes.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Memory)]
pub struct MemoryBody {
    /// The board.
    pub board: String,
    /// About how many bytes its keys take.
    pub bytes: u64,
    /// How many keys it has.
    pub keys: u64,
    /// How many of them were looked at; the others count as the mean of these.
    pub sampled: u64,
}

/// Read about how much memory of Redis a board takes.
///
/// The service asks Redis for the sizes of up to 128 keys, which it chooses by chance. So with more keys the answer is another one
/// each time. Counts of quotas that expire are not in it.
#[utoipa::path(
    get, path = "/v1/boards/{board}/memory", tag = "operations", operation_id = "get_memory",
    params(BoardPath),
    responses((status = 200, description = "How much it takes", body = MemoryBody))
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(BoardPath { board }): Path<BoardPath>,
) -> Result<JsonResponse<MemoryBody>, Problem> {
    let footprint = app.service.footprint(&board_id(&board)?).await?;
    Ok(JsonResponse(MemoryBody {
        board,
        bytes: footprint.bytes,
        keys: footprint.keys,
        sampled: footprint.sampled,
    }))
}
