//! The queue of a board: what waits, and the dead letters, which can be replayed and deleted.

use askama::Template;
use axum::http::Method;

use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, address, carry_out, to, v1,
};
use crate::http::dead_letters::{DeadLetterBody, DeadLetterList};
use crate::http::problem::Problem;
use crate::http::upkeep::QueueBody;

/// How many dead letters a part of the list has.
const LETTERS_MAX: &str = "25";

impl DeadLetterBody {
    /// What is typed before it is deleted: the id of its event, if that can be read.
    fn name(&self) -> &str {
        self.event.as_ref().map_or(&self.id, |event| &event.id)
    }
}

#[derive(Template)]
#[template(path = "console/queue.html")]
pub(super) struct QueuePage {
    frame: Frame,
    queue: QueueBody,
    letters: Vec<DeadLetterBody>,
    parts: Parts,
}

impl Page for QueuePage {
    type Of = String;
    type Params = PartParams;

    async fn read(viewer: &Viewer, board: &String, params: PartParams) -> Result<Self, Problem> {
        let queue_at = v1(&["boards", board, "queue"]);
        let queue = viewer.read(&queue_at).await?;
        let path = ["v1", "boards", board, "dead-letters"];
        let listed_at = address(&path, &params.of_at_most(LETTERS_MAX));
        let found: DeadLetterList = viewer.read(&listed_at).await?;
        let frame = Frame::read(viewer, board, "Queue").await?;
        let own = address(&["console", "boards", board, "queue"], &[]);
        let letter_at = v1(&["boards", board, "dead-letters", "ID"]);
        Ok(Self {
            frame: frame.done(&params.done).curl([
                viewer.curl(&queue_at),
                viewer.curl(&listed_at),
                viewer.curl_to(&Method::POST, &format!("{letter_at}/replay"), None),
                viewer.curl_to(&Method::DELETE, &letter_at, None),
            ]),
            queue,
            letters: found.dead_letters,
            parts: Parts::new("dead letters", &own, &params.after, found.next),
        })
    }
}

/// Puts the event of a dead letter back into the queue.
pub(super) async fn replay(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let replayed = async {
        let letter = form.required("letter")?;
        let replayed_by = v1(&["boards", &board, "dead-letters", letter, "replay"]);
        viewer.order(Method::POST, &replayed_by, None).await?;
        Ok(to(&["boards", &board, "queue"], &[("done", "replayed")]))
    };
    let page = QueuePage::read(&viewer, &board, PartParams::default());
    carry_out(&form, replayed, page, |page| &mut page.frame).await
}

/// Deletes a dead letter.
pub(super) async fn discard(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let discarded = async {
        let letter = form.required("letter")?;
        form.confirm(form.field("name"))?;
        let own = v1(&["boards", &board, "dead-letters", letter]);
        viewer.order(Method::DELETE, &own, None).await?;
        Ok(to(&["boards", &board, "queue"], &[("done", "discarded")]))
    };
    let page = QueuePage::read(&viewer, &board, PartParams::default());
    carry_out(&form, discarded, page, |page| &mut page.frame).await
}
