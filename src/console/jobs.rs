//! Jobs for all boards: the running and the ended ones, and the progress of one.

use askama::Template;

use super::{Answer, Frame, PartParams, Parts, Path, Query, Viewer, html};
use crate::moderation::tasks::model::{TaskKind, TaskStatus};
use crate::moderation::tasks::routes::{JobList, TaskBody};

/// How many running jobs are shown, and how many ended ones a part of the list has.
const RUNNING_MAX: &str = "100";
const DONE_MAX: &str = "25";

impl TaskBody {
    /// What it does.
    fn name(&self) -> &'static str {
        match self.kind {
            TaskKind::Hide => "A member is hidden on all boards",
            TaskKind::Unhide => "A member is brought back on all boards",
            TaskKind::Erase => "What an erased member has left is removed",
        }
    }
}

#[derive(Template)]
#[template(path = "console/jobs.html")]
struct ListPage {
    frame: Frame,
    running: JobList,
    done: JobList,
    parts: Parts,
}

/// The list; its parts are those of the ended jobs.
pub(super) async fn list(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    let mut frame = Frame::new(&viewer, "Jobs");
    let query = [("status", "running"), ("limit", RUNNING_MAX)];
    let running = frame.read(&["jobs"], &query).await?;
    let after = ("after", params.after.as_str());
    let query = [("status", "done"), after, ("limit", DONE_MAX)];
    let done: JobList = frame.read(&["jobs"], &query).await?;
    html(&ListPage {
        frame,
        parts: Parts::new("jobs", "/console/jobs", &params.after, done.next.clone()),
        running,
        done,
    })
}

#[derive(Template)]
#[template(path = "console/job.html")]
struct JobPage {
    frame: Frame,
    job: TaskBody,
}

/// The progress of a job.
pub(super) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let mut frame = Frame::new(&viewer, format!("Job {id}")).under("Jobs", "/console/jobs");
    let job = frame.read(&["jobs", &id], &[]).await?;
    html(&JobPage { frame, job })
}
