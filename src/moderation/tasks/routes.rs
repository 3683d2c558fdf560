//! Tasks: moderation of all boards. To clients these are jobs.

use std::collections::HashMap;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{FailedOn, Task, TaskFailure, TaskKind, TaskStatus};
use super::store;
use crate::audit;
use crate::core::Error;
use crate::domain::time::Timestamp;
use crate::http::App;
use crate::http::extract::{JsonResponse, JsonResult, Path, Query, Shared, State, part_params};
use crate::http::problem::{INTERNAL, Problem, ProblemBody, TOO_MANY_HIDDEN};
use crate::moderation;

/// Work on all boards, one after the other.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct TaskBody {
    /// Its id.
    pub id: String,
    /// What it does.
    #[schema(inline)]
    pub kind: TaskKind,
    /// The member that it hides or brings back; null if the member was erased, or forgotten because no request has named it
    /// for long.
    pub member: Option<String>,
    /// Whether it is running or finished.
    #[schema(inline)]
    pub status: TaskStatus,
    /// How many boards it has processed.
    pub done: u64,
    /// How many boards there are to process, as far as known.
    pub total: u64,
    /// The boards where it failed, up to 1,000. It does not retry them.
    pub failed: Vec<FailedBoard>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it finished; null before that.
    pub finished_at: Option<Timestamp>,
}

/// A board where a job failed.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct FailedBoard {
    /// The board.
    pub board: String,
    /// Why.
    pub problem: ProblemBody,
}

/// A part of the list of jobs.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<TaskBody>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

part_params! {
    /// Which part of the list the answer has.
    JobListParams {
        /// Which jobs: running or finished ones.
        #[param(value_type = Option<TaskStatus>, required = false, inline)]
        status: Option<TaskStatus>,
    }
    limit(default = 20, maximum = 100)
}

impl TaskBody {
    async fn find(app: &App, number: u64) -> Result<Self, Problem> {
        let stored = store::load(&app.engine.store, number)
            .await
            .map_err(Error::from)?;
        let stored = stored.ok_or_else(|| Problem::job_not_found(&number.to_string()))?;
        let task = stored.read().map_err(Error::from)?;
        let found = Self::of(app, vec![(number, task)]).await?.pop();
        found.ok_or_else(|| Problem::job_not_found(&number.to_string()))
    }

    /// Tasks, with the members that their pseudonyms stand for.
    async fn of(app: &App, tasks: Vec<(u64, Task)>) -> Result<Vec<Self>, Problem> {
        let pseudonyms = tasks.iter().filter_map(|(_, task)| task.pseudonym.clone());
        let pseudonyms: Vec<String> = pseudonyms.collect();
        let members = audit::store::members_with(&app.engine.store, &pseudonyms);
        let members = members.await.map_err(Error::from)?;
        let known: HashMap<_, _> = pseudonyms.into_iter().zip(members).collect();
        let shown = |(number, task): (u64, Task)| {
            let member = task.pseudonym.as_ref().and_then(|named| known.get(named));
            let member = member.cloned().flatten();
            Self::new(number, task, member)
        };
        Ok(tasks.into_iter().map(shown).collect())
    }

    fn new(number: u64, task: Task, member: Option<String>) -> Self {
        Self {
            id: number.to_string(),
            kind: task.kind,
            member,
            status: task.status(),
            done: task.done,
            // Boards may have been added since it began.
            total: task.total.max(task.done),
            failed: task.failed.into_iter().map(FailedBoard::from).collect(),
            created_at: task.created_at,
            finished_at: task.finished_at,
        }
    }
}

impl From<FailedOn> for FailedBoard {
    fn from(failed: FailedOn) -> Self {
        let problem = match failed.failure {
            TaskFailure::Full => Problem::new(TOO_MANY_HIDDEN, failed.detail),
            TaskFailure::Unreadable => Problem::new(INTERNAL, failed.detail),
            TaskFailure::Fault => Problem::internal(failed.detail),
        };
        Self {
            board: failed.board.to_string(),
            problem: problem.body(None),
        }
    }
}

/// The response to a request that began a job.
pub(crate) async fn begun(app: &App, number: u64) -> Result<Response, Problem> {
    let job = TaskBody::find(app, number).await?;
    let location = [(header::LOCATION, format!("/v1/jobs/{number}"))];
    Ok((StatusCode::ACCEPTED, location, JsonResponse(job)).into_response())
}

/// Read the progress of a job.
///
/// A job works on all boards, one after the other, and survives restarts of the service. When its `status` is `done`, its
/// effects hold for every read, on any instance. It is kept for seven days after its end.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "get_job",
    params(("id" = String, Path, description = "The job's id", example = "1")),
    responses(
        (status = 200, description = "The job", body = TaskBody),
        (status = 404, description = "`job-not-found`"),
    )
)]
pub async fn get(State(app): Shared, Path(id): Path<String>) -> JsonResult<TaskBody> {
    let unknown = || Problem::job_not_found(&id);
    let number: u64 = id.parse().map_err(|_| unknown())?;
    // A number has one spelling.
    if number.to_string() != id {
        return Err(unknown());
    }
    Ok(JsonResponse(TaskBody::find(&app, number).await?))
}

/// List jobs.
///
/// `status=running`, the default, lists running jobs in the order in which they were started; `status=done` lists finished
/// ones, for seven days, the latest first. A job of a newer release that this one can't read is omitted.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "list_jobs",
    params(JobListParams),
    responses((status = 200, description = "The jobs", body = JobList))
)]
pub async fn list(State(app): Shared, Query(params): Query<JobListParams>) -> JsonResult<JobList> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| "is not a job id");
    let (after, limit) = params.part(number)?;
    let status = params.status.unwrap_or(TaskStatus::Running);
    let found = moderation::work::list_tasks(&app.engine, status, after, limit).await?;
    Ok(JsonResponse(JobList {
        jobs: TaskBody::of(&app, found.items).await?,
        next: found.next.map(|next| next.to_string()),
    }))
}
