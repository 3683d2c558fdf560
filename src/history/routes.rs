//! The outcome of an event, and the list of the events that a board keeps.

mod export;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::work::{self, KeptEvent, ListPlace, WantedEvents};
use crate::access::Caller;
use crate::domain::access::Scope;
use crate::domain::board::Board;
use crate::domain::data::EntryData;
pub use crate::domain::event::Status as EventOutcome;
use crate::domain::event::{Change, KEY_OF_PLAYERS, Outcome};
use crate::domain::ids::{BoardId, EventId, Label};
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;
use crate::http::extract::{
    JsonResponse, JsonResult, Query, Shared, State, invalid, member_id, part_params,
};
use crate::http::problem::{Problem, ProblemBody};
use crate::queue::event_status::{self, EventStatus};

pub use self::export::{__path_export, export};

part_params! {
    /// Which events are looked for: that with an id, or those that the board keeps.
    EventsParams {
        /// The event's id. Without it the answer lists the events that the board keeps, and with it all other parameters but
        /// `member` are ignored.
        #[param(min_length = 1, max_length = 128, example = "run-88231")]
        id: Option<String>,
        /// The event's member. With `id`: without it the service asks all shards of the board; with it the list omits waiting
        /// and dead events of other members. It does not omit applied and rejected ones, because the service doesn't store
        /// which member they belonged to.
        #[param(max_length = 128, example = "999")]
        member: Option<String>,
        /// Only kept events of this voter.
        voter: Option<String>,
        /// Only kept events from this device.
        device: Option<String>,
        /// Only kept events with this channel.
        channel: Option<String>,
        /// Only kept events that were sent with this API key.
        key: Option<String>,
        /// Only kept events with this `at` or a later one.
        #[param(value_type = Option<String>, format = DateTime)]
        since: Option<Timestamp>,
        /// Only kept events with an earlier `at`.
        #[param(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
    }
    limit(default = 100, maximum = 1000)
}

/// Which kept events are wanted: those that match all that is given.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct KeptParams {
    /// Only events of this member.
    #[param(max_length = 128, example = "999")]
    member: Option<String>,
    /// Only events of this voter.
    voter: Option<String>,
    /// Only events from this device.
    device: Option<String>,
    /// Only events with this channel.
    channel: Option<String>,
    /// Only events that were sent with this API key.
    key: Option<String>,
    /// Only events with this `at` or a later one.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Only events with an earlier `at`.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// The events with an id, or some of those that a board keeps.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct EventStatuses {
    /// The events. With `id`: none if the service doesn't know the id, or no longer does; there may be several, because
    /// several events can wait under one id. Without it: kept events, with `member` the latest `at` first, otherwise the
    /// last accepted first.
    pub events: Vec<EventStatusBody>,
    /// The `after` of the next part. Missing in the last part, and with `id`. The list may be empty though more follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next: Option<String>,
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
    /// It was accepted, and is kept.
    Kept(Box<KeptEventBody>),
}

/// An accepted event that the board keeps.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = KeptEvent)]
pub struct KeptEventBody {
    /// The event's id. The service has given it one if it had none.
    pub id: String,
    /// The member.
    pub member: String,
    /// The score that it counts for: as it was sent, unless it was corrected.
    pub score: ShownScore,
    /// Whether it was retracted: then no standing counts it.
    pub retracted: bool,
    /// Whether a revocation covers it: then no standing counts it.
    pub revoked: bool,
    /// The time that the event counts for.
    pub at: Timestamp,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// `applied` if the event changed a standing, `unchanged` if it changed none.
    #[schema(inline)]
    pub outcome: EventOutcome,
    /// The voter; null if there is none.
    pub voter: Option<String>,
    /// The channel; null if there is none.
    pub channel: Option<String>,
    /// The device; null if there is none.
    pub device: Option<String>,
    /// The API key that it was sent with: its name, `configuration:` and the role of a key of the configuration, or
    /// `player:token` for players. Null if it was sent without one, or not with HTTP.
    pub key: Option<String>,
    /// The event's data; null if there is none.
    #[schema(required = true)]
    pub data: Option<EntryData>,
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

/// An accepted event. The service remembers it for the board's `idempotency`, and for as long as the board keeps it.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AppliedEvent {
    /// The event's id.
    pub id: String,
    /// The time that the event counted for.
    pub at: Timestamp,
    /// `applied` if the event changed a standing, `unchanged` if it changed none.
    #[schema(inline)]
    pub outcome: EventOutcome,
    /// `true` if the event was retracted or revoked since; otherwise missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    pub retracted: bool,
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

impl KeptEventBody {
    /// An event of this board.
    pub(crate) fn new(board: &Board, event: KeptEvent) -> Self {
        let (row, text) = (event.row, |label: Option<Label>| {
            label.map(|label| label.to_string())
        });
        let (details, origin) = (row.details.clone(), row.details.origin);
        Self {
            id: event.id.as_sent().to_owned(),
            member: details.member.to_string(),
            score: details.score.shown(board.definition.decimals),
            retracted: row.is_retracted,
            revoked: row.is_revoked,
            at: row.at,
            accepted_at: row.accepted_at,
            outcome: row.status,
            voter: text(origin.voter),
            channel: text(origin.channel),
            device: text(origin.device),
            key: text(origin.key),
            data: details.data,
        }
    }
}

impl KeptParams {
    /// Which kept events the caller may list.
    fn wanted(&self, caller: &Caller) -> Result<WantedEvents, Problem> {
        let label = |name, text: &Option<String>| {
            let parsed = text.as_deref().map(Label::parse).transpose();
            parsed.map_err(|error| invalid(name, error))
        };
        let wanted = WantedEvents {
            member: self.member.as_deref().map(member_id).transpose()?,
            voter: label("voter", &self.voter)?,
            device: label("device", &self.device)?,
            channel: label("channel", &self.channel)?,
            key: label("key", &self.key)?,
            since: self.since,
            until: self.until,
        };
        let Some((player, _)) = caller.player() else {
            if [Scope::Moderate, Scope::Configure].map(|scope| caller.has(scope)) == [false; 2] {
                let detail = "is missing. To list all kept events you need the scope `moderate` or `configure`";
                return Err(invalid("id", detail));
            }
            return Ok(wanted);
        };
        // What a player has sent. Its voter is the player.
        let sub = Label::parse(player.sub().as_str()).ok();
        if wanted.voter.is_some() && wanted.voter != sub {
            return Err(invalid(
                "voter",
                "must be the `sub` of the token, or left out",
            ));
        }
        Ok(WantedEvents {
            voter: sub,
            key: Label::parse(KEY_OF_PLAYERS).ok(),
            ..wanted
        })
    }
}

impl EventsParams {
    /// Its parameters about kept events.
    fn kept(&self) -> KeptParams {
        let Self {
            member,
            voter,
            device,
            channel,
            key,
            ..
        } = self;
        KeptParams {
            member: member.clone(),
            voter: voter.clone(),
            device: device.clone(),
            channel: channel.clone(),
            key: key.clone(),
            since: self.since,
            until: self.until,
        }
    }
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
            EventStatus::Applied { outcome, is_out } => {
                let Outcome {
                    status,
                    at,
                    changes,
                } = outcome;
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
                    retracted: is_out,
                    standings: changes.into_iter().map(standing).collect(),
                })
            }
        }
    }
}

/// Read the outcome of an event, or list kept events.
///
/// With `id`: the service knows events that wait in a queue, dead letters, and for the board's `idempotency`, or as long as
/// the board keeps them, also events that were applied; for its `idempotency` those rejected from a queue. The list is empty
/// if the service doesn't know the id, or no longer does. A player finds only the events that it sent itself.
///
/// Without `id`: the events that a board with a `history` keeps, also those of hidden members. This needs the scope `moderate`
/// or `configure`; a player finds the events that it sent itself.
#[utoipa::path(
    get, path = "/v1/boards/{board}/events", operation_id = "get_event_status",
    params(EventsParams),
    responses(
        (status = 200, description = "The events", body = EventStatuses, example = json!({"events": [
            {"status": "applied", "id": "run-88231", "at": "2026-11-21T12:00:00.000Z", "outcome": "applied",
                "standings": [{"window": "day", "key": "2026-11-21", "score": 71}]}]})),
        (status = 503, description = "`log-unavailable`, `log-too-long`, with `Retry-After`"),
    )
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<EventsParams>,
    caller: Caller,
) -> JsonResult<EventStatuses> {
    let engine = &app.engine;
    let Some(id) = &params.id else {
        let wanted = params.kept().wanted(&caller)?;
        let (after, limit) = params.part(ListPlace::parse)?;
        let (live, part) = work::list(engine, &board, &wanted, after.as_ref(), limit).await?;
        let (events, next) = part
            .shown(|event| EventStatusBody::Kept(Box::new(KeptEventBody::new(&live.board, event))));
        return Ok(JsonResponse(EventStatuses { events, next }));
    };
    let id = EventId::parse(id).map_err(|error| invalid("id", error))?;
    let id = match caller.player() {
        Some((player, _)) => EventId::of_player(player.sub(), &id),
        None => id,
    };
    let member = params.member.as_deref().map(member_id).transpose()?;
    let (live, mut events) = event_status::find(engine, &board, &id, member.as_ref()).await?;
    if !caller.may_read(&live.board) {
        events.iter_mut().for_each(EventStatus::withhold);
    }
    let events = events
        .into_iter()
        .map(|event| EventStatusBody::new(&live.board, &id, event));
    Ok(JsonResponse(EventStatuses {
        events: events.collect(),
        next: None,
    }))
}
