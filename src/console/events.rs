//! Events of a board: the outcome of one; and sending one, for instance to correct a score.

use serde_json::Number;

use super::boards::Defined;
use super::prelude::*;
use crate::history::routes::{EventOutcome, EventStatusBody, EventStatuses};
use crate::redis::random;

/// How many random bytes the id of an event sent from here has.
const ID_BYTES: usize = 8;

/// The form for an event. Its id is chosen before it is sent, so that the event counts once however often the form is sent.
fn new_event() -> Result<Form, Problem> {
    let id = random::hexadecimal::<ID_BYTES>("console-");
    let id = id.map_err(|error| Problem::internal(error.to_string()))?;
    Ok([("id", id)].into_iter().collect())
}

#[derive(Template)]
#[template(path = "console/events.html")]
pub(super) struct EventsPage {
    frame: Frame,
    /// What is known of it; `None` if no id is given.
    events: Option<Vec<EventStatusBody>>,
    /// Where the event comes from, as far as the board counts that.
    origins: Vec<(&'static str, &'static str)>,
}

/// Where an event may come from: its field, and what people call that.
const ORIGINS: [(&str, &str); 4] = [
    ("voter", "Voter"),
    ("channel", "Channel"),
    ("device", "Device"),
    ("ip", "Address"),
];

/// What a board counts events by; all if its definition can't be read.
fn origins(defined: Option<&Defined>) -> Vec<(&'static str, &'static str)> {
    let is_counted = |(name, _): &(&str, &str)| {
        defined.is_none_or(|defined| {
            let quotas = defined.quotas.iter();
            let mut by = quotas.filter_map(|quota| quota["by"].as_array()).flatten();
            (*name == "voter" && defined.uniques.is_some()) || by.any(|by| by == name)
        })
    };
    ORIGINS.into_iter().filter(is_counted).collect()
}

impl Page for EventsPage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [board, id, member] = frame.params(["board", "id", "member"])?;
        frame.visitor.require_on(Scope::Write, &board)?;
        let path = ["boards", &board, "events"];
        let mut events = None;
        if id.is_empty() {
            frame.reading(&path, &[("id", "ID"), ("member", &member)]);
        } else {
            let query = [("id", &*id), ("member", &member)];
            let found: EventStatuses = frame.read(&path, &query).await?;
            events = Some(found.events);
        }
        let example = json!({"id": "ID", "member": "MEMBER", "score": 1});
        frame.example(&Method::POST, &path, Some(&example));
        frame.read_board(&board, "Events").await?;
        let defined = frame.visitor.defined(&board).await?;
        frame.fill_in(new_event()?);
        Ok(Self {
            frame,
            events,
            origins: origins(defined.as_ref()),
        })
    }
}

/// Sends an event, and shows its outcome.
pub(super) async fn send(viewer: Viewer, form: Form) -> Answer {
    let sent = async {
        let (id, member) = (form.required("id")?, form.required("member")?);
        let wrong = |_| Problem::invalid_field("/score", "is not a number");
        let score: Number = form.required("score")?.parse().map_err(wrong)?;
        let mut event = json!({"id": id, "member": member, "score": score});
        let board = form.field("board");
        add(
            &mut event,
            "at",
            form.local("at", viewer.zone(board).await?)?,
        );
        for (name, _) in ORIGINS {
            add(&mut event, name, form.given(name));
        }
        let sent_to = ["boards", board, "events"];
        viewer.order(Method::POST, &sent_to, Some(&event)).await?;
        Ok(to(
            &sent_to,
            &[("id", id), ("member", member), ("done", "sent")],
        ))
    };
    carry_out::<EventsPage>(&viewer, &form, sent).await
}
