//! The outcome of events.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::work::{self, EventStatus};
use crate::access::Caller;
use crate::domain::board::Board;
pub use crate::domain::event::Status as EventOutcome;
use crate::domain::event::{Change, Outcome};
use crate::domain::ids::{BoardId, EventId};
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;
use crate::http::extract::{JsonResponse, JsonResult, Query, Shared, State, invalid, member_id};
use crate::http::problem::{Problem, ProblemBody};

/// Which events are looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventStatusParams {
    /// The event's id.
    #[param(min_length = 1, max_length = 128, example = "run-88231")]
    id: String,
    /// The event's member. Without it the service asks all shards of the board. With it the list omits waiting and dead
    /// events of other members. It does not omit applied and rejected ones, because the service doesn't store which member
    /// they belonged to.
    #[param(max_length = 128, example = "999")]
    member: Option<String>,
}

/// The events with an id.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct EventStatuses {
    /// The events; none if the service doesn't know the id, or no longer does. There may be several, because several events
    /// can wait under one id.
    pub events: Vec<EventStatusBody>,
}

/// The outcome of an event.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
#[schema(as = EventStatus)]
pub enum EventStatusBody {
    /// It waits to be applied.
    Queued(WaitingEvent),
    /// It was accepted.
    Applied(AppliedEvent),
    /// It was rejected when it was applied.
    Rejected(Box<RefusedEvent>),
    /// It could not be applied, and is a dead letter.
    Dead(BuriedEvent),
}

/// An event that waits to be applied.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct WaitingEvent {
    /// The event's id.
    pub id: String,
    /// The member.
    pub member: String,
    /// The time that the event counts for.
    pub at: Timestamp,
    /// When it was queued.
    pub queued_at: Timestamp,
}

/// An accepted event. The service remembers it for the board's `idempotency`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AppliedEvent {
    /// The event's id.
    pub id: String,
    /// The time that the event counted for.
    pub at: Timestamp,
    /// `applied` if the event changed a standing, `unchanged` if it changed none.
    #[schema(inline)]
    pub outcome: EventOutcome,
    /// The scores that the member had after the event, in the order of the board's windows. The list is empty if the event
    /// was sent with `standings=false`, without the scope `read` on a board that is not public, or if the member may have
    /// been erased since, which is the case if any member of the board was ever erased.
    pub standings: Vec<StandingScore>,
}

/// A queued event that was rejected when it was applied. Its id is free.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct RefusedEvent {
    /// The event's id.
    pub id: String,
    /// The time that the event would have counted for.
    pub at: Timestamp,
    /// Why it was rejected.
    pub problem: ProblemBody,
}

/// A queued event that could not be applied, and is kept as a dead letter. It does not count unless an operator replays the
/// letter. Its id is free.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BuriedEvent {
    /// The event's id.
    pub id: String,
    /// The member; `null` if the event can't be read.
    pub member: Option<String>,
    /// The time that the event would count for; `null` if the event can't be read.
    pub at: Option<Timestamp>,
    /// Why: `unreadable`, `too-old`, `failed`, or a reason of a newer release.
    pub reason: String,
    /// Since when it is a dead letter.
    pub died_at: Timestamp,
}

/// A member's score in a standing after an event.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct StandingScore {
    /// The window.
    pub window: String,
    /// The key of the period.
    pub key: String,
    /// The score.
    pub score: ShownScore,
}

impl EventStatusBody {
    fn new(board: &Board, id: &EventId, event: EventStatus) -> Self {
        let id = id.as_sent().to_owned();
        match event {
            EventStatus::Queued(event) => Self::Queued(WaitingEvent {
                id: event.id.as_sent().to_owned(),
                member: event.member.to_string(),
                at: event.at,
                queued_at: event.queued_at,
            }),
            EventStatus::Dead(letter) => {
                let event = letter.event.as_ref();
                Self::Dead(BuriedEvent {
                    id,
                    member: event.map(|event| event.member.to_string()),
                    at: event.map(|event| event.at),
                    reason: letter.reason,
                    died_at: letter.died_at,
                })
            }
            EventStatus::Rejected { at, error } => Self::Rejected(Box::new(RefusedEvent {
                id,
                at,
                problem: Problem::from(error).item(),
            })),
            EventStatus::Applied(Outcome {
                status,
                at,
                changes,
            }) => {
                let standing = |change: Change| {
                    let period = board.calendar.containing(change.window.unit(), at);
                    StandingScore {
                        window: change.window.to_string(),
                        key: board.calendar.key(&period),
                        score: change.score.shown(board.definition.decimals),
                    }
                };
                Self::Applied(AppliedEvent {
                    id,
                    at,
                    outcome: status,
                    standings: changes.into_iter().map(standing).collect(),
                })
            }
        }
    }
}

/// Read the outcome of an event.
///
/// The service knows events that wait in a queue, dead letters, and for the board's `idempotency` also events that were
/// applied, or rejected from a queue. The list is empty if the service doesn't know the id, or no longer does. A player
/// finds only the events that it sent itself.
#[utoipa::path(
    get, path = "/v1/boards/{board}/events", operation_id = "get_event_status",
    params(EventStatusParams),
    responses(
        (status = 200, description = "The events with this id", body = EventStatuses, example = json!({"events": [
            {"status": "applied", "id": "run-88231", "at": "2026-11-21T12:00:00.000Z", "outcome": "applied",
                "standings": [{"window": "day", "key": "2026-11-21", "score": 71}]}]})),
        (status = 503, description = "`log-unavailable`, `log-too-long`, with `Retry-After`"),
    )
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<EventStatusParams>,
    caller: Caller,
) -> JsonResult<EventStatuses> {
    let id = EventId::parse(&params.id).map_err(|error| invalid("id", error))?;
    let id = match caller.player() {
        Some((player, _)) => EventId::of_player(player.sub(), &id),
        None => id,
    };
    let member = params.member.as_deref().map(member_id).transpose()?;
    let (live, mut events) = work::find(&app.engine, &board, &id, member.as_ref()).await?;
    if !caller.may_read(&live.board) {
        events.iter_mut().for_each(EventStatus::withhold);
    }
    let events = events
        .into_iter()
        .map(|event| EventStatusBody::new(&live.board, &id, event));
    Ok(JsonResponse(EventStatuses {
        events: events.collect(),
    }))
}
