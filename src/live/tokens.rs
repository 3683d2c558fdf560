//! Stream tokens, for clients that can't send headers, such as browsers' `EventSource`.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Caller, stream_tokens};
use crate::core::read::look;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::http::extract::{Json, Shared, State};
use crate::http::problem::Problem;

/// What a stream token is for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StreamTokenRequest)]
pub struct NewStreamTokenBody {
    /// The board.
    board: BoardId,
    /// One of its windows.
    window: String,
}

/// A stream token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StreamToken)]
pub struct StreamTokenBody {
    /// The token. It is shown only this once.
    token: String,
    /// When it expires, which also ends the streams that it opened.
    expires_at: Timestamp,
}

/// Create a stream token.
///
/// For a browser's `EventSource`, which can't send a key: `…/stream?token=`. For an hour it opens streams of one standing,
/// any number of times, and nothing else; in a league, those of all cohorts. It becomes invalid when the API key that
/// created it is deleted.
#[utoipa::path(
    post, path = "/v1/stream-tokens", operation_id = "create_stream_token",
    request_body(content = NewStreamTokenBody, example = json!({"board": "run_hero", "window": "day"})),
    responses(
        (status = 200, description = "The token", body = StreamTokenBody),
        (status = 404, description = "`board-not-found`"),
        (status = 422, description = "`unknown-window`"),
    )
)]
pub async fn make(
    State(app): Shared,
    caller: Caller,
    Json(NewStreamTokenBody { board, window }, _): Json<NewStreamTokenBody>,
) -> Result<Response, Problem> {
    caller.require_board(Some(&board))?;
    let (token, key) = caller.stream_token(app.engine.clock.now(), board, window);
    let checked = look::check_window(&app.engine, &token.board, &token.window).await;
    checked.map_err(|error| Problem::from(error).beyond_path())?;
    let signed = stream_tokens::work::sign(&app.engine, &token, key.as_ref());
    let body = StreamTokenBody {
        token: signed.await?,
        expires_at: token.expires_at,
    };
    let unkept = [(header::CACHE_CONTROL, "private, no-store")];
    Ok((unkept, axum::Json(body)).into_response())
}
