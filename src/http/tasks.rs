//! Tasks: what somebody has ordered for all boards. To clients they are jobs.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::Path;
use super::problem::{INTERNAL, Problem, ProblemBody, TOO_MANY_HIDDEN};
use crate::domain::task::{Failed, Failure, Task, TaskKind};
use crate::domain::time::Timestamp;
use crate::service::Error;

/// Something that the service does on all boards, one after the other.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct TaskBody {
    /// Its id.
    #[schema(example = "1")]
    pub id: String,
    /// What it does.
    #[schema(inline)]
    pub kind: KindOfTask,
    /// Whether it is under way, or at its end.
    #[schema(inline)]
    pub status: TaskStatus,
    /// How many boards it has come to.
    #[schema(example = 3)]
    pub done: u64,
    /// How many boards it is to come to, as far as it is known.
    #[schema(example = 3)]
    pub total: u64,
    /// The boards at which it has failed, the first 1,000 of them. It does not come to them again.
    pub failed: Vec<FailedBoard>,
    /// When it was begun.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it came to its end; null before that.
    #[schema(value_type = Option<String>, required = true, format = DateTime)]
    pub finished_at: Option<Timestamp>,
}

/// What a job does.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KindOfTask {
    /// It hides a member.
    Hide,
    /// It brings a member back.
    Unhide,
    /// It removes what an erased member has left.
    Erase,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// It is under way.
    Running,
    /// It is at its end.
    Done,
}

/// A board at which a job has failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailedBoard {
    /// The board.
    #[schema(example = "run_hero")]
    pub board: String,
    /// Why.
    pub problem: ProblemBody,
}

impl TaskBody {
    fn new(number: u64, task: Task) -> Self {
        Self {
            id: number.to_string(),
            kind: match task.kind {
                TaskKind::Hide => KindOfTask::Hide,
                TaskKind::Unhide => KindOfTask::Unhide,
                TaskKind::Erase => KindOfTask::Erase,
            },
            status: if task.finished_at.is_some() {
                TaskStatus::Done
            } else {
                TaskStatus::Running
            },
            done: task.done,
            // Boards may have come since it began.
            total: task.total.max(task.done),
            failed: task.failed.into_iter().map(FailedBoard::from).collect(),
            created_at: task.created_at,
            finished_at: task.finished_at,
        }
    }
}

impl From<Failed> for FailedBoard {
    fn from(failed: Failed) -> Self {
        let Failed {
            board,
            failure,
            detail,
        } = failed;
        let problem = match failure {
            Failure::Full => Problem::new(TOO_MANY_HIDDEN, detail),
            Failure::Unreadable => Problem::new(INTERNAL, detail),
            Failure::Fault => Problem::internal(detail),
        };
        Self {
            board: board.to_string(),
            problem: problem.body(None),
        }
    }
}

/// What is answered when a job was begun.
pub(super) type Begun = (
    StatusCode,
    [(HeaderName, String); 1],
    JsonResponse<TaskBody>,
);

/// Answers a request with the job that it has begun.
pub(super) async fn begun(app: &App, number: u64) -> Result<Begun, Problem> {
    let job = TaskBody::new(number, app.service.task(number).await?);
    let location = [(header::LOCATION, format!("/v1/jobs/{number}"))];
    Ok((StatusCode::ACCEPTED, location, JsonResponse(job)))
}

/// Read how far a job has come.
///
/// A job does something on all boards, one after the other, and survives a restart of the service. When its `status` is
/// `done`, what it has done holds for every read, by any instance. It is kept for seven days after its end.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "operations", operation_id = "get_job",
    params(("id" = String, Path, description = "The job's id", example = "1")),
    responses(
        (status = 200, description = "The job", body = TaskBody),
        (status = 404, description = "`job-not-found`"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<JsonResponse<TaskBody>, Problem> {
    let unknown = || Problem::from(Error::TaskNotFound(id.clone()));
    let number: u64 = id.parse().map_err(|_| unknown())?;
    // A number has one form.
    if number.to_string() != id {
        return Err(unknown());
    }
    let task = app.service.task(number).await?;
    Ok(JsonResponse(TaskBody::new(number, task)))
}
