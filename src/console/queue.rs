//! The queue of a board: what waits, and the dead letters, which can be replayed and deleted.

use askama::Template;
use axum::http::Method;

use super::{Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, address, carry_out, to};
use crate::http::problem::Problem;
use crate::operations::upkeep::routes::QueueBody;
use crate::queue::dead_letters::routes::{DeadLetterBody, DeadLetterList};

/// How many dead letters a part of the list has.
const LETTERS_MAX: &str = "25";

impl DeadLetterBody {
    /// What has to be typed before it is deleted: the id of its event, if it is readable.
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

    async fn read(mut frame: Frame, board: &String, params: PartParams) -> Result<Self, Problem> {
        let queue = frame.read(&["boards", board, "queue"], &[]).await?;
        let letter = ["boards", board, "dead-letters", "ID", "replay"];
        let query = params.of_at_most(LETTERS_MAX);
        let found: DeadLetterList = frame.read(&letter[..3], &query).await?;
        frame.read_board(board, "Queue").await?;
        frame.example(&Method::POST, &letter, None);
        frame.example(&Method::DELETE, &letter[..4], None);
        let own = address(&["console", "boards", board, "queue"], &[]);
        Ok(Self {
            frame: frame.done(&params.done),
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
        let replayed_by = ["boards", &board, "dead-letters", letter, "replay"];
        viewer.order(Method::POST, &replayed_by, None).await?;
        Ok(to(&["boards", &board, "queue"], &[("done", "replayed")]))
    };
    carry_out::<QueuePage>(&viewer, &board, &form, replayed).await
}

/// Deletes a dead letter.
pub(super) async fn discard(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let discarded = async {
        let letter = form.required("letter")?;
        form.confirm(form.field("name"))?;
        let own = ["boards", &board, "dead-letters", letter];
        viewer.order(Method::DELETE, &own, None).await?;
        Ok(to(&["boards", &board, "queue"], &[("done", "discarded")]))
    };
    carry_out::<QueuePage>(&viewer, &board, &form, discarded).await
}
