//! `/v1/boards`: definitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::draft::{Draft, Fields};
use super::preview::BoardPreview;
use super::work::{self, Precondition, Terms, WantedBoards};
use crate::access::Caller;
use crate::domain::access::Scope;
use crate::domain::board::{Board, Definition};
use crate::domain::ids::BoardId;
use crate::domain::window::Window;
use crate::http::App;
use crate::http::audited::Audit;
use crate::http::extract::{
    Json, JsonResponse, JsonResult, Query, Shared, State, invalid, part_params,
};
use crate::http::problem::Problem;

/// A board as it is defined.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Board)]
pub struct BoardBody {
    /// Its id.
    pub board: String,
    /// Its definition, with all defaults.
    #[serde(flatten)]
    pub definition: Definition,
}

impl From<Arc<Board>> for BoardBody {
    fn from(board: Arc<Board>) -> Self {
        Self {
            board: board.id.to_string(),
            definition: board.definition.clone(),
        }
    }
}

/// A board of a list.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ListedBoard {
    Whole(Box<BoardBody>),
    Outline(BoardOutline),
}

/// What a caller that may not configure a board sees of its definition in a list.
#[derive(Debug, Serialize)]
pub struct BoardOutline {
    pub board: String,
    pub title: String,
    pub tags: BTreeSet<String>,
    pub public: bool,
    pub windows: Vec<Window>,
}

/// A board in a list: its id, title, tags and windows, and whether it is public. For callers with the scope `configure` it
/// has the whole definition.
// The document puts its fields together from those of `Definition`.
#[derive(ToSchema)]
#[schema(as = ListedBoard)]
pub struct ListedBoardSchema {}

impl From<Arc<Board>> for BoardOutline {
    fn from(board: Arc<Board>) -> Self {
        let definition = &board.definition;
        Self {
            board: board.id.to_string(),
            title: definition.title.clone(),
            tags: definition.tags.clone(),
            public: definition.public,
            windows: definition.windows.clone(),
        }
    }
}

/// A part of the list of boards.
#[derive(Debug, Serialize, ToSchema)]
pub struct BoardList {
    /// The boards, ordered by id.
    #[schema(value_type = Vec<ListedBoardSchema>)]
    pub boards: Vec<ListedBoard>,
    /// The boards of this part whose stored definition the service can't read: a newer release may have written it. Empty
    /// without the scope `configure`.
    pub unreadable: Vec<UnreadableBoard>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// A board whose stored definition the service can't read. It accepts no events and no reads, but can be replaced and
/// deleted.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct UnreadableBoard {
    /// Its id.
    pub board: String,
    /// What is wrong with it.
    pub detail: String,
}

/// How the service changes a definition.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ChangeParams {
    /// The windows to delete with their data, separated by commas: `week,month`. A window with data that can't be rebuilt is
    /// deleted only if it is named here.
    #[param(value_type = Vec<String>, required = false, style = Form, explode = false)]
    drop_windows: Option<String>,
    /// With `true` nothing changes. The response has the board as it would be, and describes in `preview` what the change
    /// would do.
    #[param(default = false)]
    dry_run: Option<bool>,
}

impl ChangeParams {
    fn windows(&self) -> Result<Vec<Window>, Problem> {
        self.drop_windows
            .iter()
            .flat_map(|names| names.split(','))
            .map(|name| {
                let window = name.parse::<Window>();
                window.map_err(|error| invalid("drop_windows", error))
            })
            .collect()
    }
}

part_params! {
    /// Which part of the list the answer has.
    ListParams {
        /// Only boards with this tag. A part then has the matching ones of the next `limit` boards: it may be empty even if
        /// more follow. The same applies to an API key for a pattern with characters after its first `*`.
        tag: Option<String>,
    }
    limit(default = 100, maximum = 1000)
}

fn etag(board: &Board) -> [(HeaderName, String); 1] {
    [(header::ETAG, format!("\"{}\"", board.version()))]
}

fn precondition(headers: &HeaderMap) -> Result<Precondition, Problem> {
    let text = |name: HeaderName| {
        let value = headers.get(&name).map(HeaderValue::to_str).transpose();
        value.map_err(|_| invalid(name.as_str(), "is not ASCII"))
    };
    let matches = text(header::IF_MATCH)?.map(|tags| {
        tags.split(',')
            .map(|tag| tag.trim().trim_matches('"').to_owned())
            .collect()
    });
    let is_absent = match text(header::IF_NONE_MATCH)?.map(str::trim) {
        None => false,
        Some("*") => true,
        Some(_) => return Err(invalid("if-none-match", "must be `*`")),
    };
    Ok(Precondition { matches, is_absent })
}

/// A board after a change.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedBoard {
    /// The board.
    #[serde(flatten)]
    pub board: BoardBody,
    /// With `dry_run`: what the change would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BoardPreview, required = false)]
    pub preview: Option<BoardPreview>,
}

/// A change of a definition: a merge patch (RFC 7396). Missing fields are kept; null gives a field its default.
// The document puts its fields together from those of `Definition`.
#[derive(ToSchema)]
#[schema(as = DefinitionPatch)]
pub struct DefinitionPatchSchema {}

/// Create or replace a board.
///
/// The body is the whole definition. A missing field gets its default, except that a board keeps its `windows` and `shards`.
/// A definition moves no data: a `PUT` with another number of shards is refused. Fields that affect stored data can't change
/// while the board has events. The service deletes a window that has data only if `drop_windows` names it. You can send back
/// what `GET` returns.
#[utoipa::path(
    put, path = "/v1/boards/{board}", operation_id = "put_board",
    params(
        ("If-Match" = Option<String>, Header, description = "The `ETag` of a definition: only this version is replaced"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: the board is created, and never replaced"),
        ChangeParams,
    ),
    request_body(content = Definition, example = json!({
        "title": "Run heroes", "timezone": "Asia/Shanghai", "windows": ["day", "week", "all", "last-7-days"],
        "initial": ["all"], "uniques": "board", "finalize": "10m", "history": "90d",
        "rewards": [{"id": "podium", "window": "day", "ranks": [1, 3], "reward": {"item": "medal"}}]})),
    responses(
        (status = 201, description = "The board was created", body = BoardBody, headers(("ETag" = String, description = "The definition's version"))),
        (status = 200, description = "The definition was replaced, or would be, with `dry_run`", body = ChangedBoard, headers(("ETag" = String, description = "The definition's version"))),
        (status = 409, description = "`board-in-use`, `windows-in-use`, `board-final`"),
        (status = 412, description = "`precondition-failed`"),
    )
)]
pub async fn put(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<ChangeParams>,
    headers: HeaderMap,
    audit: Audit,
    Json(fields, _): Json<Fields>,
) -> Result<Response, Problem> {
    let draft = Draft::Whole(fields);
    change(&app, &board, &params, &headers, &audit, draft).await
}

/// Change some fields of a board's definition.
///
/// The body is a merge patch (RFC 7396) of the definition. Missing fields are kept; null gives a field its default. Nested
/// objects, such as `retention`, are merged too; lists are replaced as a whole. The rules of `PUT` apply.
#[utoipa::path(
    patch, path = "/v1/boards/{board}", operation_id = "update_board",
    params(
        ("If-Match" = Option<String>, Header, description = "The `ETag` of a definition: only this version is changed"),
        ChangeParams,
    ),
    request_body(content = DefinitionPatchSchema, example = json!({"title": "Run heroes of the year"})),
    responses(
        (status = 200, description = "The definition was changed, or would be, with `dry_run`", body = ChangedBoard, headers(("ETag" = String, description = "The definition's version"))),
        (status = 409, description = "`board-in-use`, `windows-in-use`, `board-final`"),
        (status = 412, description = "`precondition-failed`"),
    )
)]
pub async fn patch(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<ChangeParams>,
    headers: HeaderMap,
    audit: Audit,
    Json(fields, _): Json<Fields>,
) -> Result<Response, Problem> {
    let draft = Draft::Patch(fields);
    change(&app, &board, &params, &headers, &audit, draft).await
}

async fn change(
    app: &App,
    id: &BoardId,
    params: &ChangeParams,
    headers: &HeaderMap,
    audit: &Audit,
    draft: Draft,
) -> Result<Response, Problem> {
    let terms = Terms {
        precondition: precondition(headers)?,
        drop_windows: params.windows()?,
    };
    if params.dry_run == Some(true) {
        let (board, preview) = work::preview(&app.engine, id, &draft, &terms).await?;
        let changed = ChangedBoard {
            board: Arc::new(board).into(),
            preview: Some(preview),
        };
        return Ok(JsonResponse(changed).into_response());
    }
    let (board, before) = work::define(&app.engine, id, &draft, &terms).await?;
    let status = match before {
        Some(_) => StatusCode::OK,
        None => StatusCode::CREATED,
    };
    audit.before(&before.map(BoardBody::from));
    let (etag, board) = (etag(&board), BoardBody::from(board));
    audit.after(&board);
    Ok((status, etag, JsonResponse(board)).into_response())
}

/// Read a board's definition.
#[utoipa::path(
    get, path = "/v1/boards/{board}", operation_id = "get_board",
    responses((status = 200, description = "The definition", body = BoardBody, headers(("ETag" = String, description = "The definition's version"))))
)]
pub async fn get(State(app): Shared, board: BoardId) -> Result<Response, Problem> {
    let board = app.engine.board(&board).await?;
    Ok((etag(&board), JsonResponse(BoardBody::from(board))).into_response())
}

/// List boards.
///
/// The list has the boards that the API key is for. With the scope `configure` it has their definitions; otherwise only
/// their ids, titles, tags and windows, and whether they are public.
#[utoipa::path(
    get, path = "/v1/boards", operation_id = "list_boards",
    params(ListParams),
    responses((status = 200, description = "The boards, ordered by id", body = BoardList))
)]
pub async fn list(
    State(app): Shared,
    caller: Caller,
    Query(params): Query<ListParams>,
) -> JsonResult<BoardList> {
    let (after, limit) = params.part(BoardId::parse)?;
    let is_whole = caller.has(Scope::Configure);
    let wanted = WantedBoards {
        boards: caller.boards(),
        tag: params.tag.as_deref(),
        is_whole,
    };
    let listed = work::list(&app.engine, &wanted, after.as_ref(), limit).await?;
    let shown = |board: Arc<Board>| {
        if is_whole {
            ListedBoard::Whole(Box::new(board.into()))
        } else {
            ListedBoard::Outline(board.into())
        }
    };
    let unreadable = listed.unreadable.into_iter().filter(|_| is_whole);
    Ok(JsonResponse(BoardList {
        boards: listed.boards.into_iter().map(shown).collect(),
        unreadable: unreadable
            .map(|(board, error)| UnreadableBoard {
                board: board.to_string(),
                detail: error.to_string(),
            })
            .collect(),
        next: listed.next.map(|id| id.to_string()),
    }))
}

/// Delete a board with all its standings.
///
/// Once this has returned 204, no instance accepts events for the board or shows anything of it. After a 503 send it again, which
/// finishes the deletion.
#[utoipa::path(
    delete, path = "/v1/boards/{board}", operation_id = "delete_board",
    params(
        ("If-Match" = Option<String>, Header, description = "The `ETag` of a definition: only this version is deleted"),
    ),
    responses(
        (status = 204, description = "The board was deleted; its data is unlinked in the background"),
        (status = 412, description = "`precondition-failed`"),
    )
)]
pub async fn delete(
    State(app): Shared,
    board: BoardId,
    headers: HeaderMap,
    audit: Audit,
) -> Result<StatusCode, Problem> {
    let precondition = precondition(&headers)?;
    if let Some(before) = work::delete(&app.engine, &board, &precondition).await? {
        audit.before(&BoardBody::from(before));
    }
    Ok(StatusCode::NO_CONTENT)
}
