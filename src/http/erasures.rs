//! Erasing a member.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use super::extract::{Path, board_id, member_id};
use super::problem::Problem;
use super::tasks::{self, TaskBody};

/// Erase a member of a board.
///
/// From the answer on nothing of the member is shown: no score, no rank, no previous score. The service removes it from all
/// standings in the background. An event of the member counts only if it lies after the erasure, and then the member begins
/// from nothing. A hide of the member stays. Nobody need be there to be erased: the answer is the same.
#[utoipa::path(
    delete, path = "/v1/boards/{board}/members/{member}", tag = "moderation", operation_id = "delete_member",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        ("member" = String, Path, description = "The member's id", example = "eve", min_length = 1, max_length = 128),
    ),
    responses((status = 204, description = "The service has erased the member"))
)]
pub async fn delete(
    State(app): State<Arc<App>>,
    Path((board, member)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (board, member) = (board_id(&board)?, member_id(&member)?);
    app.service.erase(&board, &member).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Erase a member of all boards.
///
/// From the answer on nothing of the member is shown on any board, as if each had erased it by itself. The job removes what the
/// member has left; its `failed` names boards on which that is not possible. Boards that are created later are not concerned.
#[utoipa::path(
    delete, path = "/v1/members/{member}", tag = "moderation", operation_id = "delete_member_everywhere",
    params(("member" = String, Path, description = "The member's id", example = "eve", min_length = 1, max_length = 128)),
    responses(
        (status = 202, description = "The service has erased the member, and removes what it has left", body = TaskBody, headers(
            ("Location" = String, description = "The address of the job"))),
    )
)]
pub async fn delete_everywhere(
    State(app): State<Arc<App>>,
    Path(member): Path<String>,
) -> Result<tasks::Begun, Problem> {
    let number = app.service.erase_everywhere(&member_id(&member)?).await?;
    tasks::begun(&app, number).await
}
