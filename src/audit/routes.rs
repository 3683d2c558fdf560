//! The audit log: the layer that records each request that changes more than scores, and the route that reads the log.
//!
//! A row of the route table with `.audited()` gets a line: its intent before the handler runs, its outcome afterwards. The
//! handler reports what it has changed to [`Audit`]. A line names members, in the path and the body, only by pseudonyms
//! (`audit/model.rs`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use metrics::counter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::form_urlencoded;
use utoipa::ToSchema;

use super::model::{AuditOutcome, Intent};
use super::store::{LineFilter, LoggedRequest, line_id};
use super::work::{self, AuditedRequest};
use crate::access::{Gate, caller_of};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::time::Timestamp;
use crate::http::audited::Audit;
use crate::http::extract::{
    BODY_BYTES_MAX, JsonBytes, JsonResponse, JsonResult, Query, Shared, State, board_id, member_id,
    part_params,
};
use crate::http::observe::REQUEST_ID;
use crate::http::problem::Problem;
use crate::runtime::{supervise, throttle};

/// The layer of an audited route: records a request, and runs it to its end even if the client disconnects.
pub(crate) async fn carry_out(
    State(gate): State<Arc<Gate>>,
    request: Request,
    route: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let by = caller_of(&parts.extensions)?.takers();
    let memory = (&gate.app.memory, by);
    let body = JsonBytes::read(&parts.headers, (body, BODY_BYTES_MAX), memory).await?;
    let intent = request_of(&gate, &mut parts, &body).await?;
    let audit = Audit::default();
    parts.extensions.insert(audit.clone());
    // The handler accounts for the memory of the body itself.
    let request = Request::from_parts(parts, Body::from(body.0));
    let carried_out = tokio::spawn(async move {
        let engine = &gate.app.engine;
        let line = work::begin_line(engine, intent).await?;
        let answered = AssertUnwindSafe(route.run(request)).catch_unwind().await;
        let response = answered.unwrap_or_else(|panic| {
            let message = supervise::message_of(&*panic);
            Problem::internal(format!("a panic: {message}")).into_response()
        });
        let ended = ended(&response, &audit);
        if let Err(error) = work::end_line(engine, line, ended).await {
            counter!("standings_audit_outcomes_lost_total").increment(1);
            throttle::say(
                "the outcome of a request could not be written to the audit log",
                |more| {
                    tracing::error!(%error, more, "the outcome of a request could not be written to the audit log");
                },
            );
        }
        Ok(response)
    });
    let ended_early = |error| Problem::internal(format!("an abandoned request: {error}"));
    carried_out.await.map_err(ended_early)?
}

/// What is recorded of a request.
async fn request_of(
    gate: &Gate,
    parts: &mut Parts,
    body: &JsonBytes,
) -> Result<AuditedRequest, Problem> {
    let (mut board, mut member, mut path) = (None, None, Map::new());
    if let Ok(params) = RawPathParams::from_request_parts(parts, &()).await {
        for (name, value) in &params {
            match name {
                "board" => board = BoardId::parse(value).ok(),
                "member" => member = MemberId::parse(value).ok(),
                name => drop(path.insert(name.to_owned(), value.into())),
            }
        }
    }
    let caller = caller_of(&parts.extensions)?;
    let route = parts.extensions.get::<MatchedPath>();
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
        .map(|(name, value)| (name.into_owned(), Value::from(value)));
    let id = parts.headers.get(REQUEST_ID);
    let address = gate.client(parts);
    Ok(AuditedRequest {
        intent: Intent {
            by: caller.name(),
            method: parts.method.to_string(),
            route: route.map_or("unknown", MatchedPath::as_str).to_owned(),
            path: path.into(),
            query: query.collect(),
            body: serde_json::from_slice(&body.0).unwrap_or_default(),
            address: address.map(|address| address.to_string()),
            request_id: id.and_then(|id| id.to_str().ok()).unwrap_or("").to_owned(),
            ..Intent::default()
        },
        player: caller.player().map(|(player, _)| player.sub().clone()),
        board,
        member,
    })
}

fn ended(response: &Response, audit: &Audit) -> AuditOutcome {
    let problem = response.extensions().get::<Problem>();
    let change = audit.take();
    AuditOutcome {
        status: response.status().as_u16(),
        code: problem.map(|problem| problem.kind.name.to_owned()),
        before: change.before,
        after: change.after,
        at: None,
    }
}

/// A member that a line of the audit log names.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditedMember {
    /// Its name in the log.
    pub pseudonym: String,
    /// The member; null once it was erased, or forgotten because it was last named long ago.
    pub member: Option<String>,
}

/// A line of the audit log: a request that changed something, or tried to.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditLine {
    /// The line's id.
    pub id: String,
    /// When the request arrived.
    pub at: Option<Timestamp>,
    /// Who sent it: the name of an API key; `configuration:` and the role of a key of the configuration; `player:` and the
    /// pseudonym of a player; or `anonymous` on a service without keys.
    pub by: String,
    /// Its method.
    pub method: String,
    /// Its route.
    pub route: String,
    /// The boards that it names; `*` stands for all.
    pub boards: Vec<String>,
    /// The members that it names, at most about a hundred.
    pub members: Vec<AuditedMember>,
    /// The other parameters of its path.
    #[schema(value_type = BTreeMap<String, String>)]
    pub path: Value,
    /// The parameters of its query.
    #[schema(value_type = BTreeMap<String, String>)]
    pub query: Value,
    /// Its body: with pseudonyms instead of members, and without secrets. If a body or a list is too large, only its size is
    /// given.
    pub body: Value,
    /// The client's address; null if unknown.
    pub address: Option<String>,
    /// Its id, as in the header `X-Request-Id`.
    pub request_id: String,
    /// The outcome; null while the request runs, or if the service or Redis failed during it. It may then have been carried
    /// out or not.
    pub outcome: Option<AuditOutcome>,
}

/// A part of the audit log.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditLog {
    /// The lines, the newest first.
    pub lines: Vec<AuditLine>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

part_params! {
    /// Which lines.
    AuditParams {
        /// Only lines that name this board, or all boards.
        #[param(max_length = 64)]
        board: Option<String>,
        /// Only lines that name this member.
        #[param(max_length = 128)]
        member: Option<String>,
        /// Only lines of this caller, written as in `by`: the name of an API key, or another value.
        key: Option<String>,
    }
    limit(default = 100, maximum = 1000, example = 1)
}

impl From<LoggedRequest> for AuditLine {
    fn from(line: LoggedRequest) -> Self {
        let intent = line.intent;
        let members = line.members.into_iter();
        Self {
            id: line.id.to_string(),
            at: intent.at,
            by: intent.by,
            method: intent.method,
            route: intent.route,
            boards: intent.boards,
            members: members
                .map(|(pseudonym, member)| AuditedMember { pseudonym, member })
                .collect(),
            path: intent.path,
            query: intent.query,
            body: intent.body,
            address: intent.address,
            request_id: intent.request_id,
            outcome: line.outcome,
        }
    }
}

/// Read the audit log.
///
/// It has a line for each request that defined, changed or deleted a board, set initial scores, hid, brought back or erased
/// members, reviewed names, or created, changed or deleted an API key or a webhook, or tried to. The newest line comes
/// first. A request scans at most 10,000 lines: a part may have few lines or none even if `next` is set.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit_log",
    params(AuditParams),
    responses((status = 200, description = "The lines, the newest first", body = AuditLog))
)]
pub async fn list(State(app): Shared, Query(params): Query<AuditParams>) -> JsonResult<AuditLog> {
    let (after, limit) = params.part(line_id)?;
    let wanted = LineFilter {
        by: params.key,
        board: params.board.as_deref().map(board_id).transpose()?,
        member: params.member.as_deref().map(member_id).transpose()?,
    };
    let found = work::lines(&app.engine, &wanted, after, limit).await?;
    let (lines, next) = found.shown(AuditLine::from);
    Ok(JsonResponse(AuditLog { lines, next }))
}
