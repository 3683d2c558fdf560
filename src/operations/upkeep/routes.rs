//! For operators: the queues of boards, their memory and shards, and the instances.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::work::{self, WaitingEvents};
use crate::domain::ids::BoardId;
use crate::domain::instance::{Instance, Part};
use crate::domain::time::Timestamp;
use crate::http::audited::Audit;
use crate::http::extract::{Json, JsonResponse, JsonResult, PartParams, Query, Shared, State};
use crate::http::problem::Problem;
use crate::moves;
use crate::moves::work::BoardShards;
use crate::operations::warnings;

/// The events that wait in the queues of a board.
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

/// A part of the list of boards with queued events.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct QueueList {
    /// The boards, ordered by id.
    pub queues: Vec<QueueBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// The events that wait in a partition of the log.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = LogPartition)]
pub struct PartitionBody {
    /// The topic, and the number of the partition.
    pub partition: String,
    /// The offset of the next record to be written.
    pub end: i64,
    /// The offset up to which records were taken, as reported by instances within the last seconds; null if none has
    /// reported yet.
    pub taken: Option<i64>,
    /// About how many records have not been taken yet; null if unknown.
    pub left: Option<u64>,
}

/// The events that wait in the log of queued events.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Log)]
pub struct LogBody {
    /// The partitions, ordered by number; none if events are queued only in Redis.
    pub partitions: Vec<PartitionBody>,
}

impl QueueBody {
    pub(crate) fn new(board: &BoardId, waiting: &WaitingEvents) -> Self {
        Self {
            board: board.to_string(),
            events: waiting.size.events,
            bytes: waiting.size.bytes,
            waiting_since: waiting.since,
        }
    }
}

/// Read the queue of a board.
#[utoipa::path(
    get, path = "/v1/boards/{board}/queue", operation_id = "get_queue",
    responses((status = 200, description = "What waits", body = QueueBody))
)]
pub async fn queue(State(app): Shared, board: BoardId) -> JsonResult<QueueBody> {
    let waiting = work::queue(&app.engine, &board).await?;
    Ok(JsonResponse(QueueBody::new(&board, &waiting)))
}

/// List boards with queued events.
///
/// A request checks `limit` boards. A part may have fewer even if more follow.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues",
    params(PartParams),
    responses((status = 200, description = "The boards, ordered by id", body = QueueList))
)]
pub async fn queues(State(app): Shared, Query(params): Query<PartParams>) -> JsonResult<QueueList> {
    let (after, limit) = params.part(BoardId::parse)?;
    let listed = work::queues(&app.engine, after.as_ref(), limit).await?;
    let (queues, next) = listed.shown(|(board, waiting)| QueueBody::new(&board, &waiting));
    Ok(JsonResponse(QueueList { queues, next }))
}

/// Read how many events wait in Kafka.
///
/// Events that wait in the queues of boards, in Redis, are not counted.
#[utoipa::path(
    get, path = "/v1/log", operation_id = "get_kafka_log",
    responses(
        (status = 200, description = "The waiting events, by partition", body = LogBody,
            example = json!({"partitions": [{"partition": "events/0", "end": 1200, "taken": 1180, "left": 20}]})),
        (status = 503, description = "`log-unavailable`, with `Retry-After`"),
    )
)]
pub async fn log(State(app): Shared) -> JsonResult<LogBody> {
    let backlog = work::backlog(&app.engine).await?;
    let partitions = backlog
        .into_iter()
        .map(|backlog| PartitionBody {
            partition: backlog.partition.to_string(),
            end: backlog.end,
            taken: backlog.taken,
            left: backlog.left(),
        })
        .collect();
    Ok(JsonResponse(LogBody { partitions }))
}

/// An estimate of Redis' memory that a board takes.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Memory)]
pub struct MemoryBody {
    /// The board.
    pub board: String,
    /// About how many bytes its keys take.
    pub bytes: u64,
    /// About how many keys it has.
    pub keys: u64,
    /// How many keys were measured; if these are all of them, the estimate is what Redis reports.
    pub sampled: u64,
}

/// Estimate how much of Redis' memory a board takes.
///
/// The service measures the keys that a board has one of, the keys of up to 64 periods of each window, and up to 512 others,
/// all chosen at random, and assumes that the rest are like these. So with more keys the estimate varies, above all if
/// some periods have far more members than others. It is never more than Redis uses in all. It does not include remembered
/// event ids and counts of quotas that expire.
#[utoipa::path(
    get, path = "/v1/boards/{board}/memory", operation_id = "get_board_memory",
    responses((status = 200, description = "The estimate", body = MemoryBody))
)]
pub async fn memory(State(app): Shared, board: BoardId) -> JsonResult<MemoryBody> {
    let footprint = work::footprint(&app.engine, &board).await?;
    Ok(JsonResponse(MemoryBody {
        board: board.to_string(),
        bytes: footprint.bytes,
        keys: footprint.keys,
        sampled: footprint.sampled,
    }))
}

/// A new number of shards.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ShardCount)]
pub struct SpreadBody {
    /// The number of shards.
    #[schema(minimum = 1, maximum = 64, example = 16)]
    count: u16,
}

/// Change the number of shards of a board.
///
/// The service moves the data in the background, while events and reads continue. Repeating the request changes nothing.
#[utoipa::path(
    put, path = "/v1/boards/{board}/shards", operation_id = "set_shards",
    request_body(content = SpreadBody, example = json!({"count": 1})),
    responses(
        (status = 200, description = "The board already has this number of shards", body = BoardShards),
        (status = 202, description = "A move to this number of shards is in progress", body = BoardShards),
        (status = 409, description = "`board-in-use`: a move to another number of shards is in progress"),
    )
)]
pub async fn spread(
    State(app): Shared,
    board: BoardId,
    audit: Audit,
    Json(SpreadBody { count }, _): Json<SpreadBody>,
) -> Result<(StatusCode, JsonResponse<BoardShards>), Problem> {
    let (before, spread) = moves::work::begin_move(&app.engine, &board, count).await?;
    audit.before(&json!({"shards": before}));
    audit.after(&json!({"shards": spread.moving_to.unwrap_or(spread.shards)}));
    let status = match spread.moving_to {
        Some(_) => StatusCode::ACCEPTED,
        None => StatusCode::OK,
    };
    Ok((status, JsonResponse(spread)))
}

/// Read the number of shards of a board, and the progress of a move.
#[utoipa::path(
    get, path = "/v1/boards/{board}/shards", operation_id = "get_shards",
    responses((status = 200, description = "The shards of the board", body = BoardShards))
)]
pub async fn shards(State(app): Shared, board: BoardId) -> JsonResult<BoardShards> {
    Ok(JsonResponse(
        moves::work::progress(&app.engine, &board).await?,
    ))
}

/// An instance of the service, as of its last report.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Instance)]
pub struct InstanceBody {
    /// Its id, which changes with each start.
    pub id: String,
    /// The version of the program.
    pub version: String,
    /// The host name of its machine or container; null if unknown.
    pub host: Option<String>,
    /// Whether it serves requests.
    pub serves: bool,
    /// Whether it does background work.
    pub works: bool,
    /// Whether it applies queued events.
    pub applies_queues: bool,
    /// When it started.
    pub started_at: Timestamp,
    /// When it last reported. A running instance reports every 10 seconds.
    pub seen_at: Timestamp,
    /// The number of faults of its background work at that time.
    pub fault_count: usize,
}

/// The instances of the service.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct InstanceList {
    /// The instances that reported within the last ten minutes. A clean shutdown removes an instance at once.
    pub instances: Vec<InstanceBody>,
    /// What needs attention: events wait in queues, and no running instance applies them.
    pub warnings: Vec<String>,
}

impl InstanceBody {
    fn new(id: String, instance: Instance) -> Self {
        Self {
            id,
            version: instance.version,
            host: instance.host,
            serves: instance.part != Part::Working,
            works: instance.part != Part::Serving,
            applies_queues: instance.part.applies_queues(),
            started_at: instance.started_at,
            seen_at: instance.seen_at,
            fault_count: instance.fault_count,
        }
    }
}

/// List the instances of the service.
#[utoipa::path(
    get, path = "/v1/instances", operation_id = "list_instances",
    responses((status = 200, description = "The instances", body = InstanceList))
)]
pub async fn instances(State(app): Shared) -> JsonResult<InstanceList> {
    let instances = work::instances(&app.engine)
        .await?
        .into_iter()
        .map(|(id, instance)| InstanceBody::new(id, instance));
    let warning = warnings::unapplied_queues(&app.engine).await?;
    Ok(JsonResponse(InstanceList {
        instances: instances.collect(),
        warnings: warning.into_iter().collect(),
    }))
}
