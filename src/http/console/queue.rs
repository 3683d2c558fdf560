//! The queue of a board: what waits, and the dead letters, which can be replayed and deleted.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::address::address;
use super::board::Heading;
use super::forms::Form;
use super::page::{Frame, html, refused, to};
use super::parts::Parts;
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::domain::time::Timestamp;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;

/// How many dead letters a part of the list has.
const LETTERS_MAX: &str = "25";

/// What waits.
#[derive(Deserialize)]
struct Queue {
    events: u64,
    bytes: u64,
    waiting_since: Option<Timestamp>,
}

#[derive(Deserialize)]
struct List {
    dead_letters: Vec<Letter>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Letter {
    id: String,
    reason: String,
    detail: String,
    died_at: Timestamp,
    event: Option<Event>,
}

#[derive(Deserialize)]
struct Event {
    id: String,
    member: String,
    score: Option<Number>,
    at: Timestamp,
    queued_at: Timestamp,
    voter: Option<String>,
    channel: Option<String>,
    device: Option<String>,
    data: Option<Value>,
}

impl Letter {
    /// What is typed before it is deleted: the id of its event, if that can be read.
    fn name(&self) -> &str {
        self.event.as_ref().map_or(&self.id, |event| &event.id)
    }
}

impl Event {
    fn data(&self) -> String {
        let data = self.data.as_ref().map(serde_json::to_string_pretty);
        data.and_then(Result::ok).unwrap_or_default()
    }
}

/// Which part of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    after: String,
    /// What was done before the page was shown.
    done: String,
}

#[derive(Template)]
#[template(path = "console/queue.html")]
struct QueuePage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    done: Option<&'static str>,
    queue: Queue,
    letters: Vec<Letter>,
    parts: Parts,
    problem: Option<Problem>,
    curl: String,
}

impl QueuePage {
    async fn read(viewer: &Viewer, board: &str, params: &Params) -> Result<Self, Problem> {
        let queue_at = address(&["v1", "boards", board, "queue"], &[]);
        let queue = viewer.read(&queue_at).await?;
        let query = [("after", params.after.as_str()), ("limit", LETTERS_MAX)];
        let listed_at = address(&["v1", "boards", board, "dead-letters"], &query);
        let found: List = viewer.read(&listed_at).await?;
        let summary = viewer.summary_if_shown(board).await?;
        let heading = Heading::new(viewer, board, summary.as_ref(), "Queue");
        let path = ["console", "boards", board, "queue"];
        let next = found.next.as_deref();
        let letter_at = address(&["v1", "boards", board, "dead-letters", "ID"], &[]);
        let curl = [
            viewer.curl(&queue_at),
            viewer.curl(&listed_at),
            viewer.curl_to(&Method::POST, &format!("{letter_at}/replay"), None),
            viewer.curl_to(&Method::DELETE, &letter_at, None),
        ];
        Ok(Self {
            frame: Frame::new(viewer, format!("Queue of {}", heading.name())),
            heading,
            clock: Clock(summary.map_or(Tz::UTC, |summary| summary.timezone)),
            done: done(&params.done),
            queue,
            letters: found.dead_letters,
            parts: Parts::new("dead letters", &path, &[], &params.after, next),
            problem: None,
            curl: curl.join("\n"),
        })
    }
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    html(&QueuePage::read(&viewer, &board, &params).await?)
}

/// Carries out what a form asks of a dead letter; if it is refused, the page says so.
async fn carry_out(
    viewer: &Viewer,
    board: &str,
    what: impl Future<Output = Result<(), Problem>>,
    done: &str,
) -> Result<Response, Problem> {
    let problem = match what.await {
        Ok(()) => {
            let path = ["console", "boards", board, "queue"];
            return Ok(to(&path, &[("done", done)]));
        }
        Err(problem) => problem.mendable()?,
    };
    let page = QueuePage::read(viewer, board, &Params::default()).await?;
    refused(problem, page, |page, problem| page.problem = Some(problem))
}

/// Puts the event of a dead letter back into the queue.
pub(super) async fn replay(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let replayed = async {
        let letter = form.required("letter")?;
        let path = ["v1", "boards", &board, "dead-letters", letter, "replay"];
        viewer.order(Method::POST, &address(&path, &[]), None).await
    };
    carry_out(&viewer, &board, replayed, "replayed").await
}

/// Deletes a dead letter.
pub(super) async fn discard(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let discarded = async {
        let letter = form.required("letter")?;
        form.confirm(form.field("name"))?;
        let own = address(&["v1", "boards", &board, "dead-letters", letter], &[]);
        viewer.order(Method::DELETE, &own, None).await
    };
    carry_out(&viewer, &board, discarded, "discarded").await
}
