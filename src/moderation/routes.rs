//! Hiding members of boards, bringing them back, listing hidden members, and erasing members.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::tasks::model::Action;
use super::tasks::routes::TaskBody;
use super::{tasks, work};
use crate::access::Caller;
use crate::core::hide::store::hidden::new_hide_id;
use crate::domain::board::FieldError;
use crate::domain::hide::{Hide, HideId, Reason};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::time::Timestamp;
use crate::http::audited::Audit;
use crate::http::extract::{Json, JsonResponse, JsonResult, Query, Shared, State, part_params};
use crate::http::problem::{Problem, ProblemBody};

/// How many boards one request may name.
const BOARDS_MAX: usize = 100;
/// Stands for all boards, including those created later.
const ALL_BOARDS: &str = "*";

/// How a member is hidden.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Hide)]
pub struct HideBody {
    /// Why: 1 to 500 characters.
    #[schema(min_length = 1, max_length = 500, example = "cheating")]
    reason: String,
    /// When the hide ends. The member reappears some seconds later. By default it has no end.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// A hidden member.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct HiddenMember {
    /// The member.
    pub member: String,
    /// The id of the hide, as webhook messages name it. It stays the same as long as the member is hidden.
    pub hide: String,
    /// Why it is hidden.
    pub reason: String,
    /// Who hid it: the name of an API key; `configuration:` and the role of a key of the configuration; or `anonymous` on a
    /// service without keys.
    pub by: String,
    /// Since when it is hidden.
    pub since: Timestamp,
    /// When the hide ends; null if it has no end.
    pub until: Option<Timestamp>,
}

/// A part of the list of hidden members.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct HiddenList {
    /// The members, ordered by the bytes of their ids.
    pub hidden: Vec<HiddenMember>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
    /// How many members the whole list of a board has; null in other lists, and with `hide` or `member`.
    pub total: Option<u64>,
}

part_params! {
    /// Which part of the list the answer has.
    HiddenParams {
        /// Only the member with this hide, as in the `hide` of a webhook message, regardless of `after`.
        hide: Option<String>,
        /// Only this member, if it is hidden, regardless of `after`.
        #[param(value_type = Option<String>)]
        member: Option<MemberId>,
    }
    limit(default = 100, maximum = 1000)
}

/// What is done with a member.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModerationAction {
    /// It is hidden.
    Hide,
    /// It is brought back.
    Unhide,
}

/// An action for a member, on some boards or on all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Moderation)]
pub struct ModerationBody {
    /// The action.
    #[schema(inline)]
    action: ModerationAction,
    /// The member: 1 to 128 bytes of UTF-8 without control characters.
    member: MemberId,
    /// Why: 1 to 500 characters. Required to hide a member.
    #[serde(default)]
    reason: Option<String>,
    /// When the hide ends. By default it has no end.
    #[serde(default)]
    until: Option<Timestamp>,
    /// The ids of up to 100 boards; or `["*"]` for all boards, including those created later. A plain `"*"` is accepted
    /// too.
    #[schema(value_type = Vec<String>)]
    boards: Boards,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Boards {
    Text(String),
    List(Vec<String>),
}

/// The result on one board, with its `status`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ModerationResult {
    /// It was done.
    Done(ModeratedBoard),
    /// It was not done.
    Refused(Box<RefusedBoard>),
}

/// A board on which a member was hidden, or brought back.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModeratedBoard {
    /// The board.
    pub board: String,
    /// The hidden member; null if it was brought back.
    pub hidden: Option<HiddenMember>,
}

/// A board on which nothing was done.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedBoard {
    /// The board.
    pub board: String,
    /// Why.
    pub problem: ProblemBody,
}

/// The result on each board.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModerationResults {
    /// A result for each board, in the order of the request.
    pub results: Vec<ModerationResult>,
}

impl HiddenMember {
    fn new(member: &MemberId, hide: Hide) -> Self {
        Self {
            member: member.to_string(),
            hide: hide.id.as_str().to_owned(),
            reason: hide.reason.to_string(),
            by: hide.by,
            since: hide.since,
            until: hide.until,
        }
    }
}

/// A hide from a request, starting now.
fn hide(
    reason: &str,
    until: Option<Timestamp>,
    caller: &Caller,
    now: Timestamp,
) -> Result<Hide, Problem> {
    let mut errors = Vec::new();
    let reason =
        Reason::parse(reason).map_err(|error| errors.push(FieldError::new("/reason", error)));
    if until.is_some_and(|until| until <= now) {
        errors.push(FieldError::new("/until", "must be in the future"));
    }
    match reason {
        Ok(reason) if errors.is_empty() => Ok(Hide {
            id: new_hide_id().map_err(crate::core::Error::from)?,
            reason,
            by: caller.name(),
            since: now,
            until,
        }),
        _ => Err(Problem::invalid(errors)),
    }
}

impl ModerationBody {
    fn action(&self, caller: &Caller, now: Timestamp) -> Result<Action, Problem> {
        let (member, reason) = (self.member.clone(), self.reason.as_deref());
        match self.action {
            ModerationAction::Hide => {
                let hide = hide(reason.unwrap_or_default(), self.until, caller, now)?;
                Ok(Action::Hide(member, hide))
            }
            ModerationAction::Unhide if self.until.is_some() => Err(Problem::invalid_field(
                "/until",
                "can only be set with `hide`",
            )),
            ModerationAction::Unhide => Ok(Action::Unhide(member)),
        }
    }

    /// The named boards; `None` for all.
    fn boards(&self) -> Result<Option<Vec<BoardId>>, Problem> {
        let list = match &self.boards {
            Boards::Text(text) if text == ALL_BOARDS => return Ok(None),
            Boards::List(list) if *list == [ALL_BOARDS] => return Ok(None),
            Boards::List(list) if (1..=BOARDS_MAX).contains(&list.len()) => list,
            Boards::Text(_) | Boards::List(_) => {
                let detail =
                    format!("must be a list of 1 to {BOARDS_MAX} ids, or \"{ALL_BOARDS}\"");
                return Err(Problem::invalid_field("/boards", detail));
            }
        };
        list.iter()
            .enumerate()
            .map(|(index, text)| {
                let id = BoardId::parse(text);
                id.map_err(|error| Problem::invalid_field(format!("/boards/{index}"), error))
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

/// Hide a member of a board.
///
/// Once this returns, the member is hidden: no later read shows it in a page, rank, count, neighbour, percentile, subset or
/// sum of any window. Its events still count, unseen. You can hide a member that is not on the board yet. A member that is
/// already hidden gets the new reason and end; the response is the same.
#[utoipa::path(
    put, path = "/v1/boards/{board}/hidden/{member}", operation_id = "hide_member",
    request_body(content = HideBody, example = json!({"reason": "cheating"})),
    responses(
        (status = 200, description = "The member is hidden", body = HiddenMember),
        (status = 409, description = "`too-many-hidden`"),
    )
)]
pub async fn put(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
    caller: Caller,
    audit: Audit,
    Json(body, _): Json<HideBody>,
) -> JsonResult<HiddenMember> {
    let now = app.engine.clock.now();
    let hide = hide(&body.reason, body.until, &caller, now)?;
    let hidden = work::hide(&app.engine, &board, &member, &hide).await?;
    audit.before(&hidden.before);
    audit.after(&hidden.hide);
    Ok(JsonResponse(HiddenMember::new(&member, hidden.hide)))
}

/// Bring a hidden member of a board back.
///
/// Once this returns, every later read shows the member in the place that its events gave it, including ties.
#[utoipa::path(
    delete, path = "/v1/boards/{board}/hidden/{member}", operation_id = "unhide_member",
    responses(
        (status = 204, description = "The member is not hidden any more"),
        (status = 404, description = "`board-not-found`, `not-hidden`"),
    )
)]
pub async fn delete(
    State(app): Shared,
    board: BoardId,
    member: MemberId,
    audit: Audit,
) -> Result<StatusCode, Problem> {
    audit.before(&work::unhide(&app.engine, &board, &member).await?);
    Ok(StatusCode::NO_CONTENT)
}

/// Read how a member of a board is hidden.
#[utoipa::path(
    get, path = "/v1/boards/{board}/hidden/{member}", operation_id = "get_hidden_member",
    responses(
        (status = 200, description = "How the member is hidden", body = HiddenMember),
        (status = 404, description = "`board-not-found`, `not-hidden`"),
    )
)]
pub async fn get(State(app): Shared, board: BoardId, member: MemberId) -> JsonResult<HiddenMember> {
    let hide = work::require_hide(&app.engine, &board, &member).await?;
    Ok(JsonResponse(HiddenMember::new(&member, hide)))
}

/// List the hidden members of a board.
#[utoipa::path(
    get, path = "/v1/boards/{board}/hidden", operation_id = "list_hidden_members",
    params(HiddenParams),
    responses(
        (status = 200, description = "The hidden members, ordered by the bytes of their ids", body = HiddenList, example = json!({
            "hidden": [{"member": "troll-7", "hide": "hide_5f0c2a9be41d7763c8aa5f0c2a9be41d", "reason": "cheating", "by": "moderators", "since": "2026-11-21T12:00:00.000Z", "until": null}],
            "next": null, "total": 1})),
    )
)]
pub async fn hidden(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<HiddenParams>,
) -> JsonResult<HiddenList> {
    let (after, limit) = params.part(MemberId::parse)?;
    let engine = &app.engine;
    let mut total = None;
    let found = if let Some(hide) = params.hide {
        let found = engine.hidden_by(&board, &HideId::named(hide)).await?;
        Part::last(found.into_iter().collect())
    } else if let Some(member) = params.member {
        Part::last(engine.hidden_among(&board, &[member]).await?)
    } else {
        let (found, count) = engine.hidden(&board, after.as_ref(), limit).await?;
        total = Some(count);
        found
    };
    let (hidden, next) = found.shown(|(member, hide)| HiddenMember::new(&member, hide));
    Ok(JsonResponse(HiddenList {
        hidden,
        next,
        total,
    }))
}

/// Hide a member on many boards, or bring it back.
///
/// With a list of boards the response has a result for each, and gives the guarantee of a single hide. With `*`, for all
/// boards, a job hides the member on one board after the other, and the response names the job; the member is also hidden on
/// boards created later, as part of their creation (a *standing order*). `unhide` on all boards ends that. The last order
/// for a member counts: it replaces a running job.
#[utoipa::path(
    post, path = "/v1/moderation", operation_id = "moderate_member",
    request_body(content = ModerationBody, example = json!({
        "action": "hide", "member": "troll-7", "reason": "cheating", "boards": ["*"]})),
    responses(
        (status = 200, description = "The result on each board of the list", body = ModerationResults, example = json!({
            "results": [{"board": "run_hero", "status": "done", "hidden": {"member": "troll-7", "hide": "hide_5f0c2a9be41d7763c8aa5f0c2a9be41d", "reason": "cheating",
                "by": "moderators", "since": "2026-11-21T12:00:00.000Z", "until": null}}]})),
        (status = 202, description = "A job was started for all boards", body = TaskBody, headers(("Location" = String, description = "The address of the job"))),
        (status = 409, description = "`too-many-orders`"),
    )
)]
pub async fn post(
    State(app): Shared,
    caller: Caller,
    audit: Audit,
    Json(body, _): Json<ModerationBody>,
) -> Result<Response, Problem> {
    let now = app.engine.clock.now();
    let action = body.action(&caller, now)?;
    let Some(boards) = body.boards()? else {
        caller.require_board(None)?;
        let ordered = match &action {
            Action::Hide(_, hide) => Some(hide.clone()),
            Action::Unhide(_) | Action::Forget(..) => None,
        };
        let begun = tasks::job::begin(&app.engine, action, Vec::new()).await?;
        audit.before(&begun.order_before);
        audit.after(&ordered);
        return tasks::routes::begun(&app, begun.number).await;
    };
    let check = |board: &BoardId| caller.require_board(Some(board));
    let own: Vec<BoardId> = boards
        .iter()
        .filter(|board| check(board).is_ok())
        .cloned()
        .collect();
    let mut moderated = work::moderate(&app.engine, &own, &action)
        .await?
        .into_iter();
    let hidden = |hide: Option<Hide>| hide.map(|hide| HiddenMember::new(&body.member, hide));
    let (mut before, mut results) = (Vec::new(), Vec::with_capacity(boards.len()));
    for board in boards {
        let result = check(&board).and_then(|()| {
            let result = moderated
                .next()
                .expect("invariant: a result for each board");
            result.map_err(Problem::from)
        });
        let board = board.to_string();
        results.push(match result {
            Ok(change) => {
                let [was, is] = change.map(hidden);
                before.push(json!({"board": board, "hidden": was}));
                ModerationResult::Done(ModeratedBoard { board, hidden: is })
            }
            // Redis is down, so the outcome on the boards is unknown. Repeating the request is safe.
            Err(problem) if problem.kind.status == StatusCode::SERVICE_UNAVAILABLE => {
                return Err(problem);
            }
            Err(problem) => {
                let problem = problem.item();
                ModerationResult::Refused(Box::new(RefusedBoard { board, problem }))
            }
        });
    }
    audit.before(&json!({"results": before}));
    let results = ModerationResults { results };
    audit.after(&results);
    Ok(JsonResponse(results).into_response())
}

/// List the members hidden on all boards.
///
/// These are the standing orders: each also hides a member on boards created later.
#[utoipa::path(
    get, path = "/v1/moderation", operation_id = "list_members_hidden_everywhere",
    params(HiddenParams),
    responses(
        (status = 200, description = "The members, ordered by the bytes of their ids", body = HiddenList, example = json!({
            "hidden": [{"member": "troll-7", "hide": "hide_5f0c2a9be41d7763c8aa5f0c2a9be41d", "reason": "cheating", "by": "moderators", "since": "2026-11-21T12:00:00.000Z", "until": null}],
            "next": null, "total": null})),
    )
)]
pub async fn orders(
    State(app): Shared,
    Query(params): Query<HiddenParams>,
) -> JsonResult<HiddenList> {
    let (after, limit) = params.part(MemberId::parse)?;
    let found = match params.member {
        Some(member) => Part::last(work::orders_for(&app.engine, &[member]).await?),
        None => work::list_orders(&app.engine, after.as_ref(), limit).await?,
    };
    let (hidden, next) = found.shown(|(member, hide)| HiddenMember::new(&member, hide));
    let total = None;
    Ok(JsonResponse(HiddenList {
        hidden,
        next,
        total,
    }))
}

/// Erase a member of a board.
///
/// After the response nothing shows the member: no score, no rank, no previous score. The service removes its data from all
/// standings in the background. Events of the member count only if they are after the erasure; the member then starts from
/// nothing. A hide of the member is kept. The response is the same if the member doesn't exist.
#[utoipa::path(
    delete, path = "/v1/boards/{board}/members/{member}", operation_id = "erase_member",
    responses((status = 204, description = "The member was erased"))
)]
pub async fn erase(
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
pub async fn erase_everywhere(State(app): Shared, member: MemberId) -> Result<Response, Problem> {
    let number = work::erase_everywhere(&app.engine, &member).await?;
    tasks::routes::begun(&app, number).await
}
