//! Jobs for all boards: those under way and those at their end, and how far one has come.

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use chrono_tz::Tz;
use serde::Deserialize;

use super::address::address;
use super::page::{Frame, html};
use super::parts::Parts;
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::task::TaskStatus;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::http::tasks::{JobList, KindOfTask, TaskBody};

/// How many jobs under way are shown, and how many at their end a part of the list has.
const RUNNING_MAX: &str = "100";
const DONE_MAX: &str = "25";

impl TaskBody {
    /// What it does.
    fn name(&self) -> &'static str {
        match self.kind {
            KindOfTask::Hide => "A member is hidden on all boards",
            KindOfTask::Unhide => "A member is brought back on all boards",
            KindOfTask::Erase => "What an erased member has left is removed",
        }
    }

    /// At how many boards it has failed besides the first.
    fn more_failed(&self) -> usize {
        self.failed.len().saturating_sub(1)
    }
}

/// Leads to a job that was begun.
pub(super) fn to_job(job: &TaskBody) -> Response {
    let to = address(&["console", "jobs", &job.id], &[]);
    Redirect::to(&to).into_response()
}

/// Jobs under way, or at their end.
struct Section {
    name: &'static str,
    /// What is said where there are none.
    none: &'static str,
    jobs: Vec<TaskBody>,
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
    clock: Clock,
    sections: [Section; 2],
    /// Whether more jobs are under way than are shown.
    more_run: bool,
    parts: Parts,
    curl: String,
}

/// The list.
pub(super) async fn list(
    viewer: Viewer,
    Query(Params { after }): Query<Params>,
) -> Result<Response, Problem> {
    let list = |query: &[_]| address(&["v1", "jobs"], query);
    let running_at = list(&[("status", "running"), ("limit", RUNNING_MAX)]);
    let done_at = list(&[("status", "done"), ("after", &after), ("limit", DONE_MAX)]);
    let running: JobList = viewer.read(&running_at).await?;
    let done: JobList = viewer.read(&done_at).await?;
    let path = ["console", "jobs"];
    html(&ListPage {
        frame: Frame::new(&viewer, "Jobs for all boards"),
        clock: Clock(Tz::UTC),
        parts: Parts::new("jobs", &path, &[], &after, done.next.as_deref()),
        sections: [
            Section {
                name: "Under way",
                none: "None.",
                jobs: running.jobs,
            },
            Section {
                name: "At their end",
                none: "None. A job is kept for seven days after its end.",
                jobs: done.jobs,
            },
        ],
        more_run: running.next.is_some(),
        curl: [viewer.curl(&running_at), viewer.curl(&done_at)].join("\n"),
    })
}

#[derive(Template)]
#[template(path = "console/job.html")]
struct JobPage {
    frame: Frame,
    clock: Clock,
    job: TaskBody,
    curl: String,
}

/// How far a job has come.
pub(super) async fn show(viewer: Viewer, Path(id): Path<String>) -> Result<Response, Problem> {
    let own = address(&["v1", "jobs", &id], &[]);
    html(&JobPage {
        frame: Frame::new(&viewer, format!("Job {id}")),
        clock: Clock(Tz::UTC),
        job: viewer.read(&own).await?,
        curl: viewer.curl(&own),
    })
}
