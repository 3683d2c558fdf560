//! Events of a board: what became of one; and sending one, as to put a score right.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Number, json};

use super::{Answer, Form, Frame, Page, Path, Viewer, add, address, carry_out, to, v1};
use crate::domain::access::Scope;
use crate::http::event_status::{EventOutcome, EventStatusBody, EventStatuses};
use crate::http::problem::Problem;
use crate::store::random;

/// How many random bytes the id of an event has that is sent from here.
const ID_BYTES: usize = 8;

/// Which event.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    id: String,
    member: String,
    /// What was done before the page was shown.
    done: String,
}

/// The form for an event. Its id is chosen before it is sent, so that the event counts once however often that is.
fn new_event() -> Result<Form, Problem> {
    let id = random::hexadecimal::<ID_BYTES>("console-");
    let id = id.map_err(|error| Problem::internal(error.to_string()))?;
    Ok([("id", id)].into_iter().collect())
}

#[derive(Template)]
#[template(path = "console/events.html")]
pub(super) struct EventsPage {
    frame: Frame,
    params: Params,
    /// What is known of it; `None` if no id is given.
    events: Option<Vec<EventStatusBody>>,
    /// Whether the viewer may see the queue.
    may_configure: bool,
}

impl Page for EventsPage {
    type Of = String;
    type Params = Params;

    async fn read(viewer: &Viewer, board: &String, params: Params) -> Result<Self, Problem> {
        viewer.require_on(Scope::Write, board)?;
        let is_asked = !params.id.is_empty();
        let id = if is_asked { &params.id } else { "ID" };
        let path = ["v1", "boards", board, "events"];
        let found_at = address(&path, &[("id", id), ("member", &params.member)]);
        let events = if is_asked {
            let found: EventStatuses = viewer.read(&found_at).await?;
            Some(found.events)
        } else {
            None
        };
        let example = json!({"id": "ID", "member": "MEMBER", "score": 1});
        let send = viewer.curl_to(&Method::POST, &address(&path, &[]), Some(&example));
        let frame = Frame::read(viewer, board, "Events").await?;
        let mut frame = frame.done(&params.done);
        frame.form = new_event()?;
        Ok(Self {
            frame: frame.curl([viewer.curl(&found_at), send]),
            params,
            events,
            may_configure: viewer.may_on(Scope::Configure, board),
        })
    }
}

/// Sends an event, and shows what became of it.
pub(super) async fn send(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let sent = async {
        let (id, member) = (form.required("id")?, form.required("member")?);
        let wrong = |_| Problem::invalid_field("/score", "is not a number");
        let score: Number = form.required("score")?.parse().map_err(wrong)?;
        let mut event = json!({"id": id, "member": member, "score": score});
        add(&mut event, "at", form.instant("at"));
        let sent_to = v1(&["boards", &board, "events"]);
        viewer.order(Method::POST, &sent_to, Some(&event)).await?;
        let query = [("id", id), ("member", member), ("done", "sent")];
        Ok(to(&["boards", &board, "events"], &query))
    };
    let page = EventsPage::read(&viewer, &board, Params::default());
    carry_out(&form, sent, page, |page| &mut page.frame).await
}
