//! Jobs for all boards: those under way and those at their end, and how far one has come.

use askama::Template;
use serde::Deserialize;

use super::{Answer, Frame, Parts, Path, Query, Viewer, address, html, v1};
use crate::domain::task::{TaskKind, TaskStatus};
use crate::http::tasks::{JobList, TaskBody};

/// How many jobs under way are shown, and how many at their end a part of the list has.
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

/// Which part of those at their end.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    after: String,
}

#[derive(Template)]
#[template(path = "console/jobs.html")]
struct ListPage {
    frame: Frame,
    running: JobList,
    done: JobList,
    parts: Parts,
}

/// The list.
pub(super) async fn list(viewer: Viewer, Query(Params { after }): Query<Params>) -> Answer {
    let list = |query: &[_]| address(&["v1", "jobs"], query);
    let running_at = list(&[("status", "running"), ("limit", RUNNING_MAX)]);
    let done_at = list(&[("status", "done"), ("after", &after), ("limit", DONE_MAX)]);
    let running = viewer.read(&running_at).await?;
    let done: JobList = viewer.read(&done_at).await?;
    html(&ListPage {
        frame: Frame::new(&viewer, "Jobs for all boards")
            .curl([viewer.curl(&running_at), viewer.curl(&done_at)]),
        parts: Parts::new("jobs", "/console/jobs", &after, done.next.clone()),
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

/// How far a job has come.
pub(super) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let own = v1(&["jobs", &id]);
    html(&JobPage {
        frame: Frame::new(&viewer, format!("Job {id}")).curl([viewer.curl(&own)]),
        job: viewer.read(&own).await?,
    })
}
