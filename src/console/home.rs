//! `/`: the first page of a service without keys, where a first board can be made; with keys, a redirect to the console.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Redirect};

use super::prelude::*;
use super::service::VERSION;
use crate::boards::templates::TEMPLATES;
use crate::http::problem::PRECONDITION_FAILED;
use crate::operations::health::Ready;
use crate::standings::routes::summary::SummaryBody;

/// The board that `make demo` fills.
const DEMO_BOARD: &str = "demo_flights";

/// What the demonstration begins with: ids, names and scores. `assets/home.js` lets them play on.
const PLAYERS: [(&str, &str, u64); 7] = [
    ("theo_lynx", "Theo Lynx", 80_762),
    ("lila_byte", "Lila Byte", 77_992),
    ("yuki", "ユキ", 74_127),
    ("nora_fox", "Nora Fox", 69_121),
    ("omega", "Ωmega", 61_304),
    ("kai_wolf", "Kai Wolf", 60_036),
    ("hugo_pixel", "Hugo Pixel", 58_987),
];

/// What the form for the first board begins with.
const FIRST: [(&str, &str); 4] = [
    ("title", "High scores"),
    ("board", "high_scores"),
    ("update", "max"),
    ("windows", "week all"),
];
/// What it offers for `update` and for `windows`.
const UPDATES: [(&str, &str); 3] = [
    ("max", "The highest score of each player"),
    ("sum", "All points of each player, added up"),
    ("min", "The lowest score of each player, such as a time"),
];
const WINDOWS: [(&str, &str); 3] = [
    ("all", "One list that never ends"),
    ("week all", "A new list each week, and one of all time"),
    (
        "day week all",
        "New lists each day and week, and one of all time",
    ),
];

#[derive(Template)]
#[template(path = "console/home.html")]
struct Home {
    frame: Frame,
    origin: String,
    /// Whether it can only be reached from its own machine.
    is_local: bool,
    version: &'static str,
    /// The service's own report; the problem if it is not ready.
    ready: Result<Ready, Problem>,
    /// The board of the demo, if it is there.
    demo: Option<SummaryBody>,
}

impl Home {
    /// The page, with this filled in.
    async fn new(visitor: &Visitor, form: Form) -> Self {
        let mut frame = Frame::new(visitor, "Leaderboards that are exact");
        frame.form = form;
        Self {
            origin: visitor.origin(),
            is_local: visitor.console.is_local,
            version: VERSION,
            ready: visitor.ready().await,
            // The page is useful without it.
            demo: frame.summary(DEMO_BOARD).await.ok(),
            frame,
        }
    }

    /// How wide the bar of a score is, in percent.
    fn share(score: u64) -> u64 {
        score * 100 / PLAYERS[0].2
    }

    /// The definition that the form asks for, as JSON.
    fn definition(&self) -> String {
        definition(&self.frame.form).to_string()
    }
}

fn definition(form: &Form) -> Value {
    let windows: Vec<&str> = form.field("windows").split_whitespace().collect();
    json!({"title": form.field("title").trim(), "update": form.field("update"), "windows": windows})
}

/// The page.
pub(super) async fn show(visitor: Visitor) -> Answer {
    if !visitor.is_anybody() {
        return Ok(Redirect::to("/console").into_response());
    }
    let form = FIRST.map(|(name, value)| (name, value.to_owned()));
    html(&Home::new(&visitor, form.into_iter().collect()).await)
}

/// Creates the board of the form.
pub(super) async fn create(viewer: Viewer, form: Form) -> Answer {
    let board = form.field("board").trim();
    let put_to = v1(&["boards", board]);
    let condition = [(header::IF_NONE_MATCH, HeaderValue::from_static("*"))];
    let definition = definition(&form);
    let put = viewer.respond(Method::PUT, &put_to, &condition, Some(&definition));
    let problem = match put.await {
        Ok(_) => return Ok(to(&["boards", board], &[])),
        Err(problem) if problem.kind == PRECONDITION_FAILED => {
            let detail = format!("there is a board {board} already");
            Problem::invalid_field("/board", detail)
        }
        Err(problem) => problem.mendable()?,
    };
    let mut page = Home::new(&viewer, form.clone()).await;
    let status = page.frame.refuse(problem);
    refused(status, &page)
}
