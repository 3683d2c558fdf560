//! The audit log: what writes each request down that changes more than scores, and the route that reads it.
//!
//! A row of the table with `.audited()` has its line: its intent before the handler runs, its outcome afterwards. The handler
//! tells by [`Audit`] what it has changed. A line names members by pseudonyms only, those of the path and those of the body
//! (`domain/audit.rs`).

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Json as JsonResponse;
use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use metrics::counter;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tower::{Layer, Service};
use url::form_urlencoded;
use utoipa::ToSchema;

use super::App;
use super::auth::caller_of;
use super::extract::{BODY_BYTES_MAX, JsonBytes, Query, board_id, member_id, part_params};
use super::observe::REQUEST_ID;
use super::problem::{INTERNAL, Problem};
use super::proxies::TrustedProxies;
use crate::domain::audit::{Intent, Outcome};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::time::Timestamp;
use crate::service::audit::Request;
use crate::store::audit::{Line, LineId, Wanted};
use crate::{supervise, throttle};

/// What a request has changed, as far as its handler tells. Nothing of it may be a secret.
#[derive(Clone, Debug, Default)]
pub struct Audit(Arc<Mutex<Change>>);

#[derive(Debug, Default)]
struct Change {
    before: Value,
    after: Value,
}

impl Audit {
    /// What was there before.
    pub fn before(&self, value: &impl Serialize) {
        self.0.lock().before = serde_json::to_value(value).unwrap_or_default();
    }

    /// What is there now.
    pub fn after(&self, value: &impl Serialize) {
        self.0.lock().after = serde_json::to_value(value).unwrap_or_default();
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Audit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let audit = parts.extensions.get::<Self>().cloned();
        audit.ok_or_else(|| Problem::new(INTERNAL, "a route that is not audited"))
    }
}

/// Puts what writes requests down before a route.
#[derive(Clone)]
pub(super) struct Auditor {
    app: Arc<App>,
    proxies: TrustedProxies,
}

impl Auditor {
    pub(super) fn new(app: Arc<App>, proxies: TrustedProxies) -> Self {
        Self { app, proxies }
    }
}

impl<S> Layer<S> for Auditor {
    type Service = Audited<S>;

    fn layer(&self, inner: S) -> Audited<S> {
        Audited {
            inner,
            auditor: self.clone(),
        }
    }
}

/// A route whose requests are written down.
#[derive(Clone)]
pub(super) struct Audited<S> {
    inner: S,
    auditor: Auditor,
}

impl<S> Service<HttpRequest> for Audited<S>
where
    S: Service<HttpRequest, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        let waiting = self.inner.clone();
        let route = std::mem::replace(&mut self.inner, waiting);
        let auditor = self.auditor.clone();
        Box::pin(async move {
            let answer = auditor.carry_out(request, route).await;
            Ok(answer.unwrap_or_else(IntoResponse::into_response))
        })
    }
}

impl Auditor {
    /// Writes a request down, and has it carried out to its end, also where its client is gone.
    async fn carry_out<S>(self, request: HttpRequest, mut route: S) -> Result<Response, Problem>
    where
        S: Service<HttpRequest, Response = Response, Error = Infallible> + Send + 'static,
        S::Future: Send,
    {
        let (mut parts, body) = request.into_parts();
        let by = caller_of(&parts.extensions)?.takers();
        let body = JsonBytes::read(
            &parts.headers,
            (body, BODY_BYTES_MAX),
            (&self.app.memory, by),
        );
        let body = body.await?;
        let intent = self.request(&mut parts, &body)?;
        let audit = Audit::default();
        parts.extensions.insert(audit.clone());
        // The handler takes the memory of the body itself.
        let request = HttpRequest::from_parts(parts, Body::from(body.0));
        let carried_out = tokio::spawn(async move {
            let line = self.app.service.begin_audit_line(intent).await?;
            let answered = AssertUnwindSafe(route.call(request)).catch_unwind().await;
            let response = answered.unwrap_or_else(|panic| {
                let message = supervise::message_of(&*panic);
                Ok(Problem::internal(format!("a panic: {message}")).into_response())
            });
            let Ok(response) = response;
            let ended = ended(&response, &audit);
            if let Err(error) = self.app.service.end_audit_line(line, ended).await {
                counter!("standings_audit_outcomes_lost_total").increment(1);
                throttle::say("the outcome of an audited request is lost", |more| {
                    tracing::error!(%error, more, "an outcome could not be written into the audit log");
                });
            }
            Ok(response)
        });
        let ended_early = |error| Problem::internal(format!("a request that was let go: {error}"));
        carried_out.await.map_err(ended_early)?
    }

    /// What is written down of a request.
    fn request(&self, parts: &mut Parts, body: &JsonBytes) -> Result<Request, Problem> {
        let caller = caller_of(&parts.extensions)?;
        let player = caller.player().map(|(player, _)| player.sub().clone());
        let by = caller.name();
        let Path {
            board,
            member,
            rest,
        } = Path::of(parts);
        let route = parts.extensions.get::<MatchedPath>();
        let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let query = query.map(|(name, value)| (name.into_owned(), Value::from(value)));
        let id = parts.headers.get(REQUEST_ID);
        let address = self.proxies.client(&parts.headers, &parts.extensions);
        let said = Intent {
            by,
            method: parts.method.to_string(),
            route: route.map_or("unknown", MatchedPath::as_str).to_owned(),
            path: rest.into(),
            query: query.collect(),
            body: serde_json::from_slice(&body.0).unwrap_or_default(),
            address: address.map(|address| address.to_string()),
            request_id: id
                .and_then(|id| id.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            ..Intent::default()
        };
        Ok(Request {
            said,
            player,
            board,
            member,
        })
    }
}

/// The parameters of a path.
#[derive(Default)]
struct Path {
    board: Option<BoardId>,
    member: Option<MemberId>,
    rest: Map<String, Value>,
}

impl Path {
    fn of(parts: &mut Parts) -> Self {
        let mut path = Self::default();
        let params = RawPathParams::from_request_parts(parts, &());
        // The router has put them there: there is nothing to wait for.
        let Some(Ok(params)) = params.now_or_never() else {
            return path;
        };
        for (name, value) in &params {
            match name {
                "board" => path.board = BoardId::parse(value).ok(),
                "member" => path.member = MemberId::parse(value).ok(),
                name => drop(path.rest.insert(name.to_owned(), value.into())),
            }
        }
        path
    }
}

/// What became of a request.
fn ended(response: &Response, audit: &Audit) -> Outcome {
    let Change { before, after } = std::mem::take(&mut *audit.0.lock());
    let problem = response.extensions().get::<Problem>();
    Outcome {
        at: None,
        status: response.status().as_u16(),
        code: problem.map(|problem| problem.kind.name.to_owned()),
        before,
        after,
    }
}

/// A member that a line of the audit log names.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditedMember {
    /// Its name in the log.
    #[schema(example = "m-5f0c2a9be41d7763c8aa")]
    pub pseudonym: String,
    /// Who it is; null once it was erased, and once it was forgotten, since it was named long ago.
    #[schema(required = true, example = "alice")]
    pub member: Option<String>,
}

/// What became of a request.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditOutcome {
    /// When it was answered.
    #[schema(value_type = Option<String>, required = true, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The status of the answer.
    #[schema(example = 200)]
    pub status: u16,
    /// The code of the problem; null if the request was carried out.
    #[schema(required = true, example = "board-in-use")]
    pub code: Option<String>,
    /// What was there before; null where nothing was, and where the request does not tell.
    pub before: Value,
    /// What is there now; null where nothing is, and where the request does not tell.
    pub after: Value,
}

/// A line of the audit log: a request that changed something, or tried to.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditLine {
    /// The line's id.
    #[schema(example = "1795305600123-0")]
    pub id: String,
    /// When the request came.
    #[schema(value_type = Option<String>, required = true, format = DateTime)]
    pub at: Option<Timestamp>,
    /// Who sent it: the name of an API key; `configuration:` and the role of a key of the configuration; `player:` and the
    /// pseudonym of a player; or `anonymous`, where there are no keys.
    #[schema(example = "site")]
    pub by: String,
    /// Its method.
    #[schema(example = "PUT")]
    pub method: String,
    /// Its route.
    #[schema(example = "/v1/boards/{board}")]
    pub route: String,
    /// The boards that it names; `*` stands for all.
    #[schema(example = json!(["run_hero"]))]
    pub boards: Vec<String>,
    /// The members that it names, at most about a hundred.
    pub members: Vec<AuditedMember>,
    /// The other parameters of its path.
    #[schema(value_type = BTreeMap<String, String>)]
    pub path: Value,
    /// The parameters of its query.
    #[schema(value_type = BTreeMap<String, String>)]
    pub query: Value,
    /// Its body: members by their pseudonyms, without secrets. A body that is too large, or a list in it, is told by its size.
    pub body: Value,
    /// The address that it came from; null if that is not known.
    #[schema(required = true, example = "203.0.113.7")]
    pub address: Option<String>,
    /// Its id, as in the header `X-Request-Id`.
    #[schema(example = "46a904da58227f43")]
    pub request_id: String,
    /// What became of it; null if it has not been answered, or if the service or Redis broke down meanwhile. Then it may have
    /// been carried out or not.
    #[schema(required = true)]
    pub outcome: Option<AuditOutcome>,
}

/// A part of the audit log.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AuditLog {
    /// The lines, the newest first.
    pub lines: Vec<AuditLine>,
    /// What to send as `after` for the next part; null in the last part.
    #[schema(required = true, example = "1795305600123-0")]
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
        /// Only lines of this caller, as `by` has it: the name of an API key, or another one.
        key: Option<String>,
    }
    limit(default = 100, maximum = 1000, example = 1)
}

impl From<Line> for AuditLine {
    fn from(line: Line) -> Self {
        let Intent {
            at,
            by,
            method,
            route,
            boards,
            members: _,
            path,
            query,
            body,
            address,
            request_id,
        } = line.intent;
        let members = line.members.into_iter();
        Self {
            id: line.id.to_string(),
            at,
            by,
            method,
            route,
            boards,
            members: members
                .map(|(pseudonym, member)| AuditedMember { pseudonym, member })
                .collect(),
            path,
            query,
            body,
            address,
            request_id,
            outcome: line.outcome.map(AuditOutcome::from),
        }
    }
}

impl From<Outcome> for AuditOutcome {
    fn from(outcome: Outcome) -> Self {
        let Outcome {
            at,
            status,
            code,
            before,
            after,
        } = outcome;
        Self {
            at,
            status,
            code,
            before,
            after,
        }
    }
}

/// Read the audit log.
///
/// It has a line of each request that defined, changed or deleted a board, set initial scores, hid, brought back or erased members, reviewed names,
/// created, changed or deleted an API key or a webhook, and of those that tried to. The newest line is the first. One request looks at 10,000 lines at
/// the most: a part may have few lines or none, though `next` leads on.
#[utoipa::path(
    get, path = "/v1/audit", tag = "operations", operation_id = "list_audit",
    params(AuditParams),
    responses((status = 200, description = "The lines, the newest first", body = AuditLog))
)]
pub async fn list(
    State(app): State<Arc<App>>,
    Query(params): Query<AuditParams>,
) -> Result<JsonResponse<AuditLog>, Problem> {
    let (after, limit) = params.part(str::parse::<LineId>)?;
    let wanted = Wanted {
        by: params.key,
        board: params.board.as_deref().map(board_id).transpose()?,
        member: params.member.as_deref().map(member_id).transpose()?,
    };
    let found = app.service.audit_lines(&wanted, after, limit).await?;
    let (lines, next) = found.shown(AuditLine::from);
    Ok(JsonResponse(AuditLog { lines, next }))
}
