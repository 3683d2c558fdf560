//! Events of a board: what became of one; and sending one, as to put a score right.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Number, json};

use super::address::address;
use super::board::{Heading, Opening};
use super::forms::Form;
use super::page::{Frame, Page, carry_out, to};
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::domain::access::Scope;
use crate::http::event_status::{EventOutcome, EventStatusBody, EventStatuses};
use crate::http::extract::Path;
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

/// What is filled in for an event that is sent.
struct New {
    /// Chosen before the form is sent, so that the event counts once however often that is.
    id: String,
    member: String,
    score: String,
    at: String,
}

impl New {
    fn empty() -> Result<Self, Problem> {
        let id = random::hexadecimal::<ID_BYTES>("console-");
        Ok(Self {
            id: id.map_err(|error| Problem::internal(error.to_string()))?,
            member: String::new(),
            score: String::new(),
            at: String::new(),
        })
    }

    fn of(form: &Form) -> Self {
        let field = |name: &str| form.field(name).to_owned();
        Self {
            id: field("id"),
            member: field("member"),
            score: field("score"),
            at: field("at"),
        }
    }
}

#[derive(Template)]
#[template(path = "console/events.html")]
pub(super) struct EventsPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    done: Option<&'static str>,
    params: Params,
    /// What is known of it; `None` if no id is given.
    events: Option<Vec<EventStatusBody>>,
    /// Whether the viewer may see the queue.
    may_configure: bool,
    new: New,
    problem: Option<Problem>,
    curl: String,
}

impl Page for EventsPage {
    type Of = String;
    type Params = Params;

    async fn read(viewer: &Viewer, board: &String, params: Params) -> Result<Self, Problem> {
        viewer.require_on(Scope::Write, board)?;
        let path = ["v1", "boards", board, "events"];
        let id = if params.id.is_empty() {
            "ID"
        } else {
            &params.id
        };
        let found_at = address(&path, &[("id", id), ("member", &params.member)]);
        let events = if params.id.is_empty() {
            None
        } else {
            let found: EventStatuses = viewer.read(&found_at).await?;
            Some(found.events)
        };
        let Opening {
            frame,
            heading,
            clock,
        } = Opening::read(viewer, board, "Events").await?;
        let example = json!({"id": "ID", "member": "MEMBER", "score": 1});
        let curl = [
            viewer.curl(&found_at),
            viewer.curl_to(&Method::POST, &address(&path, &[]), Some(&example)),
        ];
        Ok(Self {
            frame,
            heading,
            clock,
            done: done(&params.done),
            params,
            events,
            may_configure: viewer.may_on(Scope::Configure, board),
            new: New::empty()?,
            problem: None,
            curl: curl.join("\n"),
        })
    }
}

/// Sends an event, and shows what became of it.
pub(super) async fn send(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let sent = async {
        let (id, member) = (form.required("id")?, form.required("member")?);
        let wrong = |_| Problem::invalid_field("/score", "is not a number");
        let score: Number = form.required("score")?.parse().map_err(wrong)?;
        let mut event = json!({"id": id, "member": member, "score": score});
        if let Some(at) = form.instant("at") {
            event["at"] = at.into();
        }
        let sent_to = address(&["v1", "boards", &board, "events"], &[]);
        viewer.order(Method::POST, &sent_to, Some(&event)).await?;
        let query = [("id", id), ("member", member), ("done", "sent")];
        Ok(to(&["console", "boards", &board, "events"], &query))
    };
    let page = EventsPage::read(&viewer, &board, Params::default());
    carry_out(sent, page, |page, problem| {
        page.new = New::of(&form);
        page.problem = Some(problem);
    })
    .await
}
