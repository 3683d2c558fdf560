//! Jobs for all boards: the running and the ended ones, and the progress of one.

use super::prelude::*;
use super::shown::counted;
use crate::moderation::tasks::model::{TaskKind, TaskStatus};
use crate::moderation::tasks::routes::{JobList, TaskBody};

/// How many running jobs are shown, and how many ended ones a part of the list has.
const RUNNING_MAX: &str = "100";
const DONE_MAX: &str = "25";

impl TaskBody {
    /// What it does.
    fn name(&self) -> String {
        let member = self.member.as_deref().unwrap_or("a member");
        match self.kind {
            TaskKind::Hide => format!("Hide {member} on all boards"),
            TaskKind::Unhide => format!("Bring {member} back on all boards"),
            TaskKind::Erase => "Remove what an erased member left on all boards".to_owned(),
        }
    }

    /// How it stands, with its class.
    fn state(&self) -> (&'static str, String) {
        match (self.status, self.failed.len()) {
            (TaskStatus::Running, _) => ("warn", "Running".to_owned()),
            (TaskStatus::Done, 0) => ("good", "Done".to_owned()),
            (TaskStatus::Done, failed) => {
                ("failed", format!("Failed on {}", counted(failed, "board")))
            }
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
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [after] = frame.params(["after"])?;
    let query = [("status", "running"), ("limit", RUNNING_MAX)];
    let running = frame.read(&["jobs"], &query).await?;
    let query = [("status", "done"), ("after", &after), ("limit", DONE_MAX)];
    let done: JobList = frame.read(&["jobs"], &query).await?;
    html(&ListPage {
        parts: Parts::new("jobs", &frame, done.next.clone()),
        frame: frame.named("Jobs"),
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
pub(super) async fn show(mut frame: Frame) -> Answer {
    let [id] = frame.params(["id"])?;
    let job: TaskBody = frame.read(&["jobs", &id], &[]).await?;
    html(&JobPage {
        frame: frame.under("Jobs", "/console/jobs").named(job.name()),
        job,
    })
}
