//! Dead letters: listing them, replaying their events, and deleting them.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::store::LetterId;
use super::work::{self, FoundLetter};
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::ids::BoardId;
use crate::domain::queued::QueuedEvent;
use crate::domain::score::{Score, ShownScore};
use crate::domain::time::Timestamp;
use crate::http::audited::Audit;
use crate::http::extract::{
    JsonResponse, JsonResult, PartParams, Query, Shared, State, part_of_path,
};
use crate::http::problem::{DEAD_LETTER_NOT_FOUND, Problem};

/// A queued event that could not be applied.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub struct DeadLetterBody {
    /// The letter's id. It is valid until the board moves to another number of shards.
    pub id: String,
    /// Why the event could not be applied: `unreadable`, `too-old`, `failed`, or a reason of a newer release.
    pub reason: String,
    /// The reason in detail, for people.
    pub detail: String,
    /// Since when it is a dead letter. It is kept for seven days.
    pub died_at: Timestamp,
    /// The event; null if it can't be read.
    pub event: Option<DeadEvent>,
}

/// The event of a dead letter, without the client's address.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct DeadEvent {
    /// The event's id.
    pub id: String,
    /// The member.
    pub member: String,
    /// The score that was sent; null if it is no longer valid, for example after a change of the board's decimals.
    pub score: Option<ShownScore>,
    /// The time that the event counts for.
    pub at: Timestamp,
    /// When it was queued.
    pub queued_at: Timestamp,
    /// The voter; null if there is none.
    pub voter: Option<String>,
    /// The channel; null if there is none.
    pub channel: Option<String>,
    /// The device; null if there is none.
    pub device: Option<String>,
    /// The event's data; null if there is none.
    #[schema(required = true)]
    pub data: Option<EntryData>,
}

/// A part of the list of dead letters.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct DeadLetterList {
    /// The dead letters, the oldest first.
    pub dead_letters: Vec<DeadLetterBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// What an audit line says about a dead letter: no personal data.
fn audited(letter: &FoundLetter) -> Value {
    json!({
        "reason": letter.reason,
        "died_at": letter.died_at,
        "at": letter.event.as_ref().map(|event| event.at),
        "queued_at": letter.event.as_ref().map(|event| event.queued_at),
    })
}

impl DeadLetterBody {
    fn new(board: &Board, letter: FoundLetter) -> Self {
        let event = letter.event.map(|event| DeadEvent::new(board, event));
        Self {
            id: letter.id.to_string(),
            reason: letter.reason,
            detail: letter.detail,
            died_at: letter.died_at,
            event,
        }
    }
}

impl DeadEvent {
    fn new(board: &Board, event: QueuedEvent) -> Self {
        let decimals = board.definition.decimals;
        let score = Score::parse(&event.score, decimals).ok();
        let origin = event.origin;
        Self {
            id: event.id.as_sent().to_owned(),
            member: event.member.to_string(),
            score: score.map(|score| score.shown(decimals)),
            at: event.at,
            queued_at: event.queued_at,
            voter: origin.voter.map(|voter| voter.to_string()),
            channel: origin.channel.map(|channel| channel.to_string()),
            device: origin.device.map(|device| device.to_string()),
            data: event.data,
        }
    }
}

/// The id in a path. An invalid id identifies no letter.
impl<S: Send + Sync> FromRequestParts<S> for LetterId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = part_of_path(parts, "id").await?;
        let id = text.parse::<Self>();
        id.map_err(|error| Problem::new(DEAD_LETTER_NOT_FOUND, format!("{text:?} {error}")))
    }
}

/// List dead letters.
///
/// Queued events that could not be applied are kept for seven days, up to 1,000 per shard.
#[utoipa::path(
    get, path = "/v1/boards/{board}/dead-letters", operation_id = "list_dead_letters",
    params(PartParams),
    responses((status = 200, description = "The dead letters, the oldest first", body = DeadLetterList))
)]
pub async fn list(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<PartParams>,
) -> JsonResult<DeadLetterList> {
    let (after, limit) = params.part(str::parse::<LetterId>)?;
    let (live, letters) = work::list(&app.engine, &board, after.as_ref(), limit).await?;
    let (dead_letters, next) = letters.shown(|letter| DeadLetterBody::new(&live.board, letter));
    Ok(JsonResponse(DeadLetterList { dead_letters, next }))
}

/// Replay a dead letter.
///
/// The service puts the event back into its queue unchanged, with its id, its `at` and the time at which it was queued, and
/// removes the letter. The event is checked when it is applied, like every queued event. An event that was queued more than
/// 24 hours ago can't be replayed.
#[utoipa::path(
    post, path = "/v1/boards/{board}/dead-letters/{id}/replay", operation_id = "replay_dead_letter",
    responses(
        (status = 202, description = "The event was queued again. The body is the removed letter", body = DeadLetterBody),
        (status = 404, description = "`board-not-found`, `dead-letter-not-found`"),
        (status = 409, description = "`not-replayable`, `board-moving`, `member-erased`"),
        (status = 422, description = "`event-id-reused`: another event used the id before the board moved to other shards"),
        (status = 503, description = "`queue-full`, with `Retry-After`"),
    )
)]
pub async fn replay(
    State(app): Shared,
    board: BoardId,
    id: LetterId,
    audit: Audit,
) -> Result<(StatusCode, JsonResponse<DeadLetterBody>), Problem> {
    let (live, letter) = work::replay(&app.engine, &board, &id).await?;
    audit.before(&audited(&letter));
    let body = DeadLetterBody::new(&live.board, letter);
    Ok((StatusCode::ACCEPTED, JsonResponse(body)))
}

/// Delete a dead letter.
///
/// Its event never counts unless it is sent again.
#[utoipa::path(
    delete, path = "/v1/boards/{board}/dead-letters/{id}", operation_id = "delete_dead_letter",
    responses(
        (status = 204, description = "The dead letter was deleted"),
        (status = 404, description = "`board-not-found`, `dead-letter-not-found`"),
    )
)]
pub async fn delete(
    State(app): Shared,
    board: BoardId,
    id: LetterId,
    audit: Audit,
) -> Result<StatusCode, Problem> {
    audit.before(&audited(&work::discard(&app.engine, &board, &id).await?));
    Ok(StatusCode::NO_CONTENT)
}
