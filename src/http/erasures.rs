//! Erasing a member.

use axum::http::StatusCode;
use axum::response::Response;

use super::extract::{Shared, State};
use super::problem::Problem;
use super::tasks::{self, TaskBody};
use crate::domain::ids::{BoardId, MemberId};
use crate::service::moderation;

/// Erase a member of a board.
///
/// From the answer on nothing of the member is shown: no score, no rank, no previous score. The service removes it from all
/// standings in the background. An event of the member counts only if it lies after the erasure, and then the member begins
/// from nothing. A hide of the member stays. Nobody need be there to be erased: the answer is the same.
#[utoipa::path(
    delete, path = "/v1/boards/{board}/members/{member}", operation_id = "delete_member",
    responses((status = 204, description = "The service has erased the member"))
)]
pub async fn delete(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
) -> Result<StatusCode, Problem> {
    moderation::erase(&app.service, &board, &member).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Erase a member of all boards.
///
/// From the answer on nothing of the member is shown on any board, as if each had erased it by itself. The job removes what the
/// member has left; its `failed` names boards on which that is not possible. Boards that are created later are not concerned.
#[utoipa::path(
    delete, path = "/v1/members/{member}", operation_id = "delete_member_everywhere",
    responses(
        (status = 202, description = "The service has erased the member, and removes what it has left", body = TaskBody, headers(
            ("Location" = String, description = "The address of the job"))),
    )
)]
pub async fn delete_everywhere(State(app): Shared, member: MemberId) -> Result<Response, Problem> {
    let number = moderation::erase_everywhere(&app.service, &member).await?;
    tasks::begun(&app, number).await
}
