//! Correcting the events that a board keeps.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::amending;
use super::work::{self, Corrected, Correction, Named};
use crate::domain::data::EntryData;
use crate::domain::hide::Reason;
use crate::domain::ids::{BoardId, EventId};
use crate::domain::score::ShownScore;
use crate::events::body::read_event;
use crate::events::routes::EventSchema;
use crate::history::routes::{EventStatusBody, KeptEventBody};
use crate::http::audited::Audit;
use crate::http::extract::{
    Json, JsonResponse, JsonResult, Query, Shared, State, invalid, member_id,
};
use crate::http::problem::Problem;

/// Which of several events with one id is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct NamedParams {
    /// The event's member. Needed if events of several members have the id.
    #[param(max_length = 128)]
    member: Option<String>,
    /// The player that sent the event: the `sub` of its token. Needed for events that players sent.
    #[param(max_length = 128)]
    player: Option<String>,
}

/// Why an event is retracted or restored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CorrectionReason)]
pub struct ReasonBody {
    /// Why: 1 to 500 characters. The audit log keeps it.
    #[schema(min_length = 1, max_length = 500, example = "a bot")]
    pub(super) reason: String,
}

/// Another score for an event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ScoreCorrection)]
pub struct ScoreBody {
    /// The score for which the event counts now.
    #[schema(value_type = ShownScore)]
    from: Box<RawValue>,
    /// The score for which it is to count.
    #[schema(value_type = ShownScore)]
    score: Box<RawValue>,
    /// Its new data. Without it, the event keeps its data.
    #[serde(default)]
    data: Option<EntryData>,
    /// Why: 1 to 500 characters. The audit log keeps it.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "typing error of the judge"
    )]
    reason: String,
}

/// An event that is added.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Amendment)]
pub struct AmendmentBody {
    /// The event, as it would be sent.
    #[schema(value_type = EventSchema)]
    event: Box<RawValue>,
    /// Why: 1 to 500 characters. The audit log keeps it.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "the paper list of November"
    )]
    reason: String,
}

/// An event after a correction.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct CorrectedEvent {
    /// The event as it counts now.
    #[schema(value_type = KeptEventBody)]
    pub event: EventStatusBody,
    /// The standings that had expired. They stay as they were.
    pub expired: Vec<ExpiredStanding>,
}

/// A standing that has expired.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ExpiredStanding {
    /// The window.
    pub window: String,
    /// The key of the period.
    pub key: String,
}

/// What the audit log has of an event.
#[derive(Serialize)]
struct Audited {
    score: ShownScore,
    retracted: bool,
}

impl Audited {
    fn of(event: &KeptEventBody) -> Self {
        Self {
            score: event.score,
            retracted: event.retracted,
        }
    }
}

impl NamedParams {
    fn event(&self, id: &EventId) -> Result<Named, Problem> {
        let player = self.player.as_deref().map(|player| {
            let player =
                member_id(player).map_err(|_| invalid("player", "is not the id of a player"))?;
            Ok::<_, Problem>(EventId::of_player(&player, id))
        });
        Ok(Named {
            id: player.transpose()?.unwrap_or_else(|| id.clone()),
            member: self.member.as_deref().map(member_id).transpose()?,
        })
    }
}

pub(super) fn require_reason(reason: &str) -> Result<(), Problem> {
    let parsed = Reason::parse(reason);
    parsed
        .map(drop)
        .map_err(|error| Problem::invalid_field("/reason", error))
}

impl CorrectedEvent {
    fn new(corrected: Corrected, audit: &Audit) -> Self {
        let board = &corrected.live.board;
        let body = |event| KeptEventBody::new(board, event);
        let (before, event) = (corrected.before.map(body), body(corrected.after));
        audit.before(&before.as_ref().map(Audited::of));
        audit.after(&Audited::of(&event));
        let expired = corrected.expired.into_iter();
        let expired = expired.map(|name| ExpiredStanding {
            window: name.window.to_string(),
            key: name.key.to_string(),
        });
        Self {
            event: EventStatusBody::Kept(Box::new(event)),
            expired: expired.collect(),
        }
    }
}

/// Retract an event.
///
/// From now on no standing counts the event: not those of past periods, nor rolling windows, nor periods after the board's
/// `closes_at`. What other events were refused for stays refused, and quotas stay used. The event's id is not free. An event
/// that was retracted before stays so.
#[utoipa::path(
    post, path = "/v1/boards/{board}/events/{event}/retract", operation_id = "retract_event",
    params(NamedParams),
    request_body(content = ReasonBody, example = json!({"reason": "a bot"})),
    responses(
        (status = 200, description = "The event is retracted", body = CorrectedEvent),
        (status = 404, description = "`board-not-found`, `event-not-kept`"),
        (status = 409, description = "`history-off`, `event-waiting`, `event-of-several`, `board-moving`, `correction-beyond`"),
    )
)]
pub async fn retract(
    State(app): Shared,
    board: BoardId,
    event: EventId,
    Query(params): Query<NamedParams>,
    audit: Audit,
    Json(body, _): Json<ReasonBody>,
) -> JsonResult<CorrectedEvent> {
    require_reason(&body.reason)?;
    let event = params.event(&event)?;
    let corrected = work::correct(&app.engine, &board, &event, &Correction::Retract).await?;
    Ok(JsonResponse(CorrectedEvent::new(corrected, &audit)))
}

/// Restore a retracted event.
///
/// The event counts again, as if it had never been retracted.
#[utoipa::path(
    post, path = "/v1/boards/{board}/events/{event}/restore", operation_id = "restore_event",
    params(NamedParams),
    request_body(content = ReasonBody, example = json!({"reason": "it was no bot"})),
    responses(
        (status = 200, description = "The event counts", body = CorrectedEvent),
        (status = 404, description = "`board-not-found`, `event-not-kept`"),
        (status = 409, description = "`history-off`, `event-waiting`, `event-of-several`, `board-moving`, `correction-beyond`"),
    )
)]
pub async fn restore(
    State(app): Shared,
    board: BoardId,
    event: EventId,
    Query(params): Query<NamedParams>,
    audit: Audit,
    Json(body, _): Json<ReasonBody>,
) -> JsonResult<CorrectedEvent> {
    require_reason(&body.reason)?;
    let event = params.event(&event)?;
    let corrected = work::correct(&app.engine, &board, &event, &Correction::Restore).await?;
    Ok(JsonResponse(CorrectedEvent::new(corrected, &audit)))
}

/// Correct the score of an event.
///
/// The event counts for another score, at its own `at`. `from` is the score for which it counts now, so that two corrections
/// at once don't overwrite each other; if it already counts for the new score, nothing changes. An event that was retracted
/// stays so.
#[utoipa::path(
    post, path = "/v1/boards/{board}/events/{event}/correct", operation_id = "correct_event",
    params(NamedParams),
    request_body(content = ScoreBody, example = json!({"from": 10, "score": 9, "reason": "typing error of the judge"})),
    responses(
        (status = 200, description = "The event counts for this score", body = CorrectedEvent),
        (status = 404, description = "`board-not-found`, `event-not-kept`"),
        (status = 409, description = "`history-off`, `event-waiting`, `event-of-several`, `score-changed`, `board-moving`, `correction-beyond`"),
        (status = 422, description = "`validation-failed`, `score-out-of-range`"),
    )
)]
pub async fn correct(
    State(app): Shared,
    board: BoardId,
    event: EventId,
    Query(params): Query<NamedParams>,
    audit: Audit,
    Json(body, _): Json<ScoreBody>,
) -> JsonResult<CorrectedEvent> {
    require_reason(&body.reason)?;
    let event = params.event(&event)?;
    let correction = Correction::Score {
        from: body.from.get().to_owned(),
        score: body.score.get().to_owned(),
        data: body.data,
    };
    let corrected = work::correct(&app.engine, &board, &event, &correction).await?;
    Ok(JsonResponse(CorrectedEvent::new(corrected, &audit)))
}

/// Add an event that the board would refuse.
///
/// The event counts like any other, but the board's `accept_late`, `opens_at`, `closes_at`, closed periods and quotas do not
/// apply to it. To give a score to another member, or to another time, add it so and retract the old one. With an `id` it can
/// be sent again: it counts once.
#[utoipa::path(
    post, path = "/v1/boards/{board}/amendments", operation_id = "amend_events",
    request_body(content = AmendmentBody, example = json!({"event": {"id": "sheet-12", "member": "999", "score": 3, "at": "2026-11-20T12:00:00Z"}, "reason": "the paper list of November"})),
    responses(
        (status = 200, description = "The event counts, now or before", body = CorrectedEvent),
        (status = 404, description = "`board-not-found`"),
        (status = 409, description = "`history-off`, `event-waiting`, `member-erased`, `board-moving`, `correction-beyond`"),
        (status = 422, description = "`validation-failed`, `score-out-of-range`, `event-id-reused`; `event-in-future` with the header `Retry-After`"),
    )
)]
pub async fn amend(
    State(app): Shared,
    board: BoardId,
    audit: Audit,
    Json(body, _): Json<AmendmentBody>,
) -> JsonResult<CorrectedEvent> {
    require_reason(&body.reason)?;
    let arrived_at = app.engine.clock.arrival();
    let event = body.event.get().as_bytes();
    let incoming = read_event(event, |event| event.check(Some(&board), None, arrived_at));
    let incoming = incoming.map_err(|problem| problem.within("/event"))?;
    let corrected = amending::amend(&app.engine, &board, &incoming).await;
    let corrected = corrected.map_err(|error| Problem::from(error).within("/event"))?;
    Ok(JsonResponse(CorrectedEvent::new(corrected, &audit)))
}
