//! Erasing a member.

use axum::http::StatusCode;
use axum::response::Response;

use super::tasks::routes::TaskBody;
use super::{tasks, work};
use crate::domain::ids::{BoardId, MemberId};
use crate::http::extract::{Shared, State};
use crate::http::problem::Problem;

/// Erase a member of a board.
///
/// After the response nothing shows the member: no score, no rank, no previous score. The service removes its data from all
/// standings in the background. Events of the member count only if they are after the erasure; the member then starts from
/// nothing. A hide of the member is kept. The response is the same if the member doesn't exist.
#[utoipa::path(
    delete, path = "/v1/boards/{board}/members/{member}", operation_id = "erase_member",
    responses((status = 204, description = "The member was erased"))
)]
pub async fn delete(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
) -> Result<StatusCode, Problem> {
    work::erase(&app.engine, &board, &member).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Erase a member of all boards.
///
/// After the response nothing shows the member on any board, as if each board had erased it. The job removes the member's
/// data; its `failed` names boards where that is not possible. Boards created later are not affected.
#[utoipa::path(
    delete, path = "/v1/members/{member}", operation_id = "erase_member_everywhere",
    responses(
        (status = 202, description = "The member was erased; a job removes its data", body = TaskBody, headers(
            ("Location" = String, description = "The address of the job"))),
    )
)]
pub async fn delete_everywhere(State(app): Shared, member: MemberId) -> Result<Response, Problem> {
    let number = work::erase_everywhere(&app.engine, &member).await?;
    tasks::routes::begun(&app, number).await
}
