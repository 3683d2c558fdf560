//! The queue of a board: what waits, and the dead letters, which can be replayed and deleted.

use askama::Template;
use axum::http::Method;
use axum::response::Response;

use super::address::address;
use super::board::{Heading, Opening};
use super::forms::Form;
use super::page::{self, Frame, Page, to};
use super::parts::{PartParams, Parts};
use super::session::Viewer;
use super::shown::{Clock, done, pretty};
use crate::http::dead_letters::{DeadEvent, DeadLetterBody, DeadLetterList};
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::queues::QueueBody;

/// How many dead letters a part of the list has.
const LETTERS_MAX: &str = "25";

impl DeadLetterBody {
    /// What is typed before it is deleted: the id of its event, if that can be read.
    fn name(&self) -> &str {
        self.event.as_ref().map_or(&self.id, |event| &event.id)
    }
}

impl DeadEvent {
    fn data(&self) -> String {
        self.data.as_ref().map(pretty).unwrap_or_default()
    }
}

#[derive(Template)]
#[template(path = "console/queue.html")]
pub(super) struct QueuePage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    done: Option<&'static str>,
    queue: QueueBody,
    letters: Vec<DeadLetterBody>,
    parts: Parts,
    problem: Option<Problem>,
    curl: String,
}

impl Page for QueuePage {
    type Of = String;
    type Params = PartParams;

    async fn read(viewer: &Viewer, board: &String, params: PartParams) -> Result<Self, Problem> {
        let queue_at = address(&["v1", "boards", board, "queue"], &[]);
        let queue = viewer.read(&queue_at).await?;
        let query = [("after", params.after.as_str()), ("limit", LETTERS_MAX)];
        let listed_at = address(&["v1", "boards", board, "dead-letters"], &query);
        let found: DeadLetterList = viewer.read(&listed_at).await?;
        let Opening {
            frame,
            heading,
            clock,
        } = Opening::read(viewer, board, "Queue").await?;
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
            frame,
            heading,
            clock,
            done: done(&params.done),
            queue,
            letters: found.dead_letters,
            parts: Parts::new("dead letters", &path, &[], &params.after, next),
            problem: None,
            curl: curl.join("\n"),
        })
    }
}

/// Does something with a dead letter, and goes back to the page; if it is refused, the page says so.
async fn carry_out(
    viewer: &Viewer,
    board: &String,
    what: impl Future<Output = Result<(), Problem>>,
    done: &str,
) -> Result<Response, Problem> {
    let path = ["console", "boards", board, "queue"];
    let back = async { what.await.map(|()| to(&path, &[("done", done)])) };
    let page = QueuePage::read(viewer, board, PartParams::default());
    page::carry_out(back, page, |page, problem| page.problem = Some(problem)).await
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
