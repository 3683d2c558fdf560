//! Posting events: one, or a batch.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::body::{EventBody, read_event, read_item};
use super::work::{self, AcceptedEvent, BATCH_MAX, IncomingEvent, Receipt, Report, SubmitOptions};
use crate::access::Caller;
use crate::core::Error;
use crate::domain::access::Scope;
use crate::domain::event::{Detail, Ranks, Status};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::plan::StandingName;
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;
use crate::http::batches::results_of;
use crate::http::extract::{JsonBytes, Query, Shared, State, require_count};
use crate::http::memory::Written;
use crate::http::problem::{Problem, ProblemBody, VALIDATION_FAILED};
use crate::http::ratelimit;

/// The header that serves as an event's `id`.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The headers of RFC 7240 that ask for a response before the event is applied, and confirm it.
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

/// One event, whose board the path names.
// The document derives it from `EventBody`, which names its board itself.
#[derive(ToSchema)]
#[schema(as = Event)]
pub struct EventSchema {}

/// Events of any boards.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Batch)]
struct BatchBody<'a> {
    /// The events. Each is accepted or rejected separately.
    #[serde(borrow)]
    #[schema(value_type = Vec<EventBody>, min_items = 1, max_items = 1000)]
    events: Vec<&'a RawValue>,
}

/// What the answer says about each event.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SubmitParams {
    /// Whether the response has the member's rank before and after the event. Refused on boards with several shards, except
    /// leagues. Requires the scope `read`, except on public boards.
    #[param(default = false)]
    ranks: Option<bool>,
    /// Whether the response has the event's effect on each standing. `false` is cheaper, for bulk loads. It applies to
    /// duplicates too.
    #[param(default = true)]
    standings: Option<bool>,
}

impl SubmitParams {
    fn detail(&self) -> Result<Detail, Problem> {
        match (self.standings.unwrap_or(true), self.ranks.unwrap_or(false)) {
            (true, false) => Ok(Detail::Standings),
            (true, true) => Ok(Detail::Ranks),
            (false, false) => Ok(Detail::Status),
            (false, true) => Err(Problem::invalid_parameter(
                "ranks",
                "can't be combined with `standings=false`",
            )),
        }
    }
}

/// The result of one event, with its `status`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum EventResult {
    /// It changed a standing.
    Applied(TakenEvent),
    /// It changed none, such as a `max` that did not improve.
    Unchanged(TakenEvent),
    /// It was accepted before.
    Duplicate(TakenEvent),
    /// It waits to be applied.
    Queued(QueuedEventBody),
    /// It was not accepted.
    Rejected(Box<RejectedEvent>),
}

/// An event that waits to be applied. `GET /v1/boards/{board}/events` returns its outcome.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueuedEvent)]
pub struct QueuedEventBody {
    /// The event's id. The service generates one if it had none.
    pub id: String,
    /// The board.
    pub board: BoardId,
    /// The member.
    pub member: MemberId,
    /// The time that the event counts for: its `at`, or when it was queued.
    pub at: Timestamp,
}

/// An event that was accepted, now or before.
#[derive(Debug, Serialize, ToSchema)]
pub struct TakenEvent {
    /// The event's id. If the event had none, it is null, unless the board keeps events: then the service has given it one.
    pub id: Option<String>,
    /// The board.
    pub board: BoardId,
    /// The member.
    pub member: MemberId,
    /// The time that the event counts for: its `at`, or when the service read it, to the microsecond. A duplicate has the
    /// first one.
    pub at: Timestamp,
    /// The event's effect on each of its standings, in the order of the board's windows; for a duplicate, the effect that it
    /// had the first time. The list is empty with `standings=false`, for a duplicate whose member was erased since, and
    /// without the scope `read` on a board that is not public.
    pub standings: Vec<StandingChange>,
    /// The board's revision with the event: a read with this `min_revision` includes the event, on any instance. Missing for
    /// a duplicate of an event that was accepted before the board moved to other shards, and without the scope `read` on a
    /// board that is not public.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub revision: Option<String>,
}

/// A rejected event of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct RejectedEvent {
    /// The event's id; null if the event has none that can be read.
    pub id: Option<String>,
    /// The board; null if the event has none that can be read.
    pub board: Option<String>,
    /// The member; null if the event has none that can be read.
    pub member: Option<String>,
    /// Why the event was rejected.
    pub problem: ProblemBody,
}

/// An event's effect on its member in one standing.
#[derive(Debug, Serialize, ToSchema)]
pub struct StandingChange {
    /// The window.
    pub window: Arc<str>,
    /// The key of the period.
    pub key: Arc<str>,
    /// In a league: the member's cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub cohort: Option<String>,
    /// The member's score after the event.
    pub score: ShownScore,
    /// The member's score before the event; null if the member was not listed.
    pub previous_score: Option<ShownScore>,
    /// The member's ranks, with `ranks=true`.
    #[serde(flatten)]
    pub ranks: Option<Ranks>,
}

/// The results of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchResult {
    /// A result for each event, in the order of the events.
    pub results: Vec<EventResult>,
}

/// What is wrong with an array as the body of a request for one event.
const ONE_EVENT_ONLY: &str = "Send one event, as an object. For many, send POST /v1/events with `{\"events\": [...]}`, each event with its `board`";
/// What is wrong with an array as the body of a batch.
const EVENTS_IN_AN_OBJECT: &str = "Send `{\"events\": [...]}`, each event with its `board`";
/// What is wrong with the id of one event in a request for many.
const ID_OF_ONE_EVENT: &str = "the header Idempotency-Key is for a single event. Leave it out, and give each event of the batch its own `id`";

/// Another problem for a body that is an array.
fn or_if_array(problem: Problem, body: &JsonBytes, detail: &str) -> Problem {
    if problem.kind == VALIDATION_FAILED && body.is_array() {
        Problem::invalid_field("", detail)
    } else {
        problem
    }
}

/// What a request's headers say about its events.
pub struct EventHeaders {
    /// The header `Idempotency-Key`.
    key: Option<HeaderValue>,
    /// Whether `Prefer` asks for a response before the events are applied.
    prefers_async: bool,
}

impl EventHeaders {
    fn key(&self) -> Result<Option<&str>, Problem> {
        let key = self.key.as_ref().map(|value| value.to_str().map(str::trim));
        key.transpose()
            .map_err(|_| Problem::invalid_field("", "the header Idempotency-Key is not ASCII"))
    }

    fn options<'a>(&self, caller: &'a Caller, detail: Detail, quotas: bool) -> SubmitOptions<'a> {
        SubmitOptions {
            report: Report { detail, quotas },
            prefers_async: self.prefers_async,
            player: caller.player().map(|(player, _)| player.sub()),
            reads: caller.has(Scope::Read),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EventHeaders {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let prefers_async = parts
            .headers
            .get_all(PREFER)
            .iter()
            .flat_map(|line| line.to_str().unwrap_or("").split(','))
            .any(|preference| {
                let name = preference.split([';', '=']).next().unwrap_or("");
                name.trim().eq_ignore_ascii_case(RESPOND_ASYNC)
            });
        Ok(Self {
            key: parts.headers.get(IDEMPOTENCY_KEY).cloned(),
            prefers_async,
        })
    }
}

/// Confirms a `Prefer` that asked for a response before the event was applied.
fn preference(is_applied: bool) -> HeaderMap {
    let applied = (PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
    HeaderMap::from_iter(is_applied.then_some(applied))
}

impl TakenEvent {
    fn new(incoming: &IncomingEvent, accepted: &AcceptedEvent) -> Self {
        let (board, outcome) = (&accepted.live.board, &accepted.outcome);
        let decimals = board.definition.decimals;
        let cohort = accepted.cohort_name();
        let standings = outcome.changes.iter().map(|change| {
            let StandingName { window, key } = accepted.standing_name(change.window);
            StandingChange {
                window,
                key,
                cohort: cohort.clone(),
                score: change.score.shown(decimals),
                previous_score: change.previous_score.map(|score| score.shown(decimals)),
                ranks: change.ranks,
            }
        });
        Self {
            id: accepted.id.as_ref().map(|id| id.as_sent().to_owned()),
            board: board.id.clone(),
            member: incoming.member.clone(),
            at: outcome.at,
            standings: standings.collect(),
            revision: accepted
                .edition(&incoming.member)
                .map(|edition| edition.text()),
        }
    }
}

impl EventResult {
    fn new(incoming: &IncomingEvent, received: &Receipt) -> Self {
        match received {
            Receipt::Accepted(accepted) => {
                let event = TakenEvent::new(incoming, accepted);
                match accepted.outcome.status {
                    _ if accepted.is_duplicate => Self::Duplicate(event),
                    Status::Applied => Self::Applied(event),
                    Status::Unchanged => Self::Unchanged(event),
                }
            }
            Receipt::Queued(queued) => Self::Queued(QueuedEventBody {
                id: queued.id.as_sent().to_owned(),
                board: incoming.board.clone(),
                member: queued.member.clone(),
                at: queued.at,
            }),
        }
    }
}

impl RejectedEvent {
    fn new(raw: &RawValue, problem: &Problem) -> Self {
        // Whatever can be read of the event shows the client which one it was.
        let value: serde_json::Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let text = |name: &str| value[name].as_str().map(ToOwned::to_owned);
        Self {
            id: text("id"),
            board: text("board"),
            member: text("member"),
            problem: problem.item(),
        }
    }
}

/// Send one event.
///
/// The service updates all standings of the event in one atomic step, and then responds. If you lose the response, send the
/// same event again with the same `id`.
///
/// On a board with `ingest: async`, or with the header `Prefer: respond-async`, the service returns 202 once the event is
/// stored in a queue, and applies it as soon as it can. What it can check at once it rejects as usual.
/// `GET /v1/boards/{board}/events` returns the event's outcome. A league applies events before it responds.
#[utoipa::path(
    post, path = "/v1/boards/{board}/events", operation_id = "post_event",
    params(
        SubmitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "An id for the event, if the body has none"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: respond once the event is queued (RFC 7240)"),
    ),
    request_body(content = EventSchema, example = json!({"id": "run-88231", "member": "999", "score": 10, "voter": "v-1"})),
    responses(
        (status = 200, description = "The event was accepted, now or before", body = TakenEvent, headers(
            ("RateLimit" = Option<String>, description = "On boards with quotas, unless the event is a duplicate: what remains of each quota, as in draft-ietf-httpapi-ratelimit-headers. Requires the scope `read`, except on public boards"),
            ("RateLimit-Policy" = Option<String>, description = "What each quota allows"))),
        (status = 202, description = "The event is queued", body = QueuedEventBody, headers(
            ("Preference-Applied" = Option<String>, description = "`respond-async`, if the request asked for it")),
            example = json!({"id": "run-88231", "board": "run_hero", "member": "999", "status": "queued", "at": "2026-11-21T12:00:00.000Z"})),
        (status = 409, description = "`board-closed`, `period-closed`, `member-erased`; in a league also `not-seated`, and `league-turning` with the header `Retry-After`"),
        (status = 422, description = "`validation-failed`, `score-out-of-range`, `event-too-late`, `event-id-reused`; `event-in-future` with the header `Retry-After`"),
        (status = 429, description = "`quota-exceeded`, with `Retry-After`, `RateLimit-Policy` and `RateLimit` as in draft-ietf-httpapi-ratelimit-headers"),
        (status = 503, description = "`queue-full`, `log-unavailable`, `quota-pending`, with `Retry-After`"),
    )
)]
pub async fn post_one(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<SubmitParams>,
    caller: Caller,
    headers: EventHeaders,
    body: JsonBytes,
) -> Result<Response, Problem> {
    let key = headers.key()?;
    let read = || {
        let arrived_at = app.engine.clock.arrival();
        let event = read_event(&body.0, |event| event.check(Some(&board), key, arrived_at));
        caller.send(event.map_err(|problem| or_if_array(problem, &body, ONE_EVENT_ONLY))?)
    };
    let events = Arc::from([read()?]);
    let options = headers.options(&caller, params.detail()?, true);
    let received = work::submit_one(&app.engine, &events, options).await?;
    let answer = Written::new(&EventResult::new(&events[0], &received))?;
    Ok(match &received {
        Receipt::Accepted(accepted) => {
            (ratelimit::of_quotas(&accepted.quotas), answer).into_response()
        }
        Receipt::Queued(_) => {
            let applied = preference(options.prefers_async);
            (StatusCode::ACCEPTED, applied, answer).into_response()
        }
    })
}

/// Send many events.
///
/// A batch has 1 to 1,000 events of any boards. Each event is accepted or rejected separately and has its own result, even
/// if the data of a board is damaged (`internal`). A batch is refused as a whole only if it isn't JSON of this form, or if
/// Redis does not answer. In the latter case some events may have been accepted: send the same batch again if its events
/// have ids.
///
/// Give each event an `id`, so that a retry counts once. A batch with the header `Idempotency-Key` is refused: that is the
/// id of a single event.
///
/// Events of boards with `ingest: async` are queued; with the header `Prefer: respond-async` all events except those of
/// leagues. If an event's queue is full, its result is `queue-full`; if the log of queued events does not answer,
/// `log-unavailable`.
#[utoipa::path(
    post, path = "/v1/events", operation_id = "post_events",
    params(
        ("Prefer" = Option<String>, Header, description = "`respond-async`: respond once the events are queued (RFC 7240)"),
        SubmitParams,
    ),
    request_body(content = BatchBody, example = json!({"events": [
        {"board": "run_hero", "id": "run-88232", "member": "999", "score": 10, "voter": "v-1"},
        {"board": "run_hero", "id": "run-88233", "member": "alice", "score": 25, "voter": "v-2"}]})),
    responses(
        (status = 200, description = "The result of each event", body = BatchResult, headers(
            ("Preference-Applied" = Option<String>, description = "`respond-async`, if the request asked for it and an event was queued"))),
    )
)]
pub async fn post_many(
    State(app): Shared,
    Query(params): Query<SubmitParams>,
    caller: Caller,
    headers: EventHeaders,
    body: JsonBytes,
) -> Result<(HeaderMap, Written), Problem> {
    if headers.key.is_some() {
        return Err(Problem::invalid_field("", ID_OF_ONE_EVENT));
    }
    let BatchBody { events } = body
        .parse()
        .map_err(|problem| or_if_array(problem, &body, EVENTS_IN_AN_OBJECT))?;
    require_count("a batch", "events", events.len(), BATCH_MAX)?;
    let mut sound = Vec::with_capacity(events.len());
    let checked: Vec<Result<(), Problem>> = events
        .iter()
        .map(|raw| {
            let event = read_item(raw.get().as_bytes(), app.engine.clock.arrival())?;
            caller.require_board(Some(&event.board))?;
            sound.push(caller.send(event)?);
            Ok(())
        })
        .collect();
    let sound: Arc<[IncomingEvent]> = sound.into();
    let detail = params.detail()?;
    let data = sound
        .iter()
        .filter_map(|event| event.data.as_ref())
        .map(|data| data.as_str().len())
        .sum();
    let by = caller.takers();
    let taken = app
        .memory
        .for_batch(&by, events.len(), (detail, data))
        .await?;
    let options = headers.options(&caller, detail, false);
    let results = work::submit(&app.engine, &sound, options).await;
    let is_queued = |result: &Result<_, _>| matches!(result, Ok(Receipt::Queued(_)));
    let applied = preference(options.prefers_async && results.iter().any(is_queued));
    // A fault shared by several events is logged once.
    let mut faults: HashMap<String, Problem> = HashMap::new();
    let results = results.into_iter().zip(&*sound).map(|(result, incoming)| {
        let received = result.map_err(|error| match error {
            Error::Again(_) | Error::Store(_) => {
                let fault = faults.entry(error.to_string());
                fault.or_insert_with(|| error.into()).clone()
            }
            error => error.into(),
        })?;
        Ok(EventResult::new(incoming, &received))
    });
    let rejected =
        |raw: &_, problem: &_| EventResult::Rejected(Box::new(RejectedEvent::new(raw, problem)));
    let results = results_of((&events, checked), results, rejected)?;
    Ok((applied, taken.write(&BatchResult { results })?))
}
