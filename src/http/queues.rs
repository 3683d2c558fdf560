//! How much waits in queues: of a board, and of all boards; and in the log before them.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::extract::{BoardPath, PartParams, Path, Query, board_id};
use super::problem::Problem;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::service::upkeep::Waiting;

/// What waits in the queues of a board.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Queue)]
pub struct QueueBody {
    /// The board.
    pub board: String,
    /// How many events wait to be applied.
    pub events: u64,
    /// How many bytes they count for.
    pub bytes: u64,
    /// Since when the first of them waits; null if none does.
    pub waiting_since: Option<Timestamp>,
}

/// A part of the list of boards with events that wait.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct QueueList {
    /// The boards, in the order of their ids.
    pub queues: Vec<QueueBody>,
    /// What to send as `after` for the next part; null in the last part.
    pub next: Option<String>,
}

/// What waits in a partition of the log.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = LogPartition)]
pub struct PartitionBody {
    /// The topic, and the number of the partition.
    pub partition: String,
    /// The offset of the next record that is written.
    pub end: i64,
    /// The offset up to which records were taken, as instances told it within the last seconds; null if none has told it yet.
    pub taken: Option<i64>,
    /// About how many records were not taken yet; null if that can't be told.
    pub left: Option<u64>,
}

/// What waits in the log of queued events.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Log)]
pub struct LogBody {
    /// The partitions, in the order of their numbers; none where events are queued in Redis alone.
    pub partitions: Vec<PartitionBody>,
}

impl QueueBody {
    fn new(board: String, waiting: &Waiting) -> Self {
        Self {
            board,
            events: waiting.size.events,
            bytes: waiting.size.bytes,
            waiting_since: waiting.since,
        }
    }
}

/// Read how much waits on a board.
#[utoipa::path(
    get, path = "/v1/boards/{board}/queue", tag = "operations", operation_id = "get_queue",
    params(BoardPath),
    responses(
        (status = 200, description = "What waits", body = QueueBody),
        (status = 404, description = "`board-not-found`"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(BoardPath { board }): Path<BoardPath>,
) -> Result<JsonResponse<QueueBody>, Problem> {
    let waiting = app.service.queue(&board_id(&board)?).await?;
    Ok(JsonResponse(QueueBody::new(board, &waiting)))
}

/// List boards with events that wait.
///
/// The service looks at `limit` boards. A part may have fewer, though more follow.
#[utoipa::path(
    get, path = "/v1/queues", tag = "operations", operation_id = "list_queues",
    params(PartParams),
    responses((status = 200, description = "The boards in the order of their ids", body = QueueList))
)]
pub async fn list(
    State(app): State<Arc<App>>,
    Query(params): Query<PartParams>,
) -> Result<JsonResponse<QueueList>, Problem> {
    let (after, limit) = params.part(BoardId::parse)?;
    let listed = app.service.queues(after.as_ref(), limit).await?;
    let (queues, next) =
        listed.shown(|(board, waiting)| QueueBody::new(board.to_string(), &waiting));
    Ok(JsonResponse(QueueList { queues, next }))
}

/// Read how much waits in Kafka.
///
/// What waits in the queues of boards, in Redis, is not counted.
#[utoipa::path(
    get, path = "/v1/log", tag = "operations", operation_id = "get_log",
    responses(
        (status = 200, description = "What waits, by partition", body = LogBody,
            example = json!({"partitions": [{"partition": "events/0", "end": 1200, "taken": 1180, "left": 20}]})),
        (status = 503, description = "`log-unavailable`, with `Retry-After`"),
    )
)]
pub async fn log(State(app): State<Arc<App>>) -> Result<JsonResponse<LogBody>, Problem> {
    let backlog = app.service.backlog().await?;
    let partitions = backlog.into_iter().map(|backlog| PartitionBody {
        partition: backlog.partition.to_string(),
        end: backlog.end,
        taken: backlog.taken,
        left: backlog.left(),
    });
    Ok(JsonResponse(LogBody {
        partitions: partitions.collect(),
    }))
}
