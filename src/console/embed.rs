//! Boards in a frame of other pages: how one looks, and the line to copy; and the list of boards that can be embedded.

use askama::filters::{Html, escape};
use serde::de::IgnoredAny;

use super::boards::{Defined, List};
use super::prelude::*;
use crate::http::problem::COHORT_REQUIRED;
use crate::standings::routes::summary::SummaryBody;

/// How many boards a part of the list goes through.
const BOARDS_MAX: &str = "100";

#[derive(Template)]
#[template(path = "console/embed.html")]
struct EmbedPage {
    frame: Frame,
    summary: SummaryBody,
    window: String,
    /// The address of the page in the frame.
    address: String,
    /// Whether it is a league, and no cohort is named.
    lacks_cohort: bool,
}

impl EmbedPage {
    /// The element that frames the page, as text.
    fn element(&self) -> String {
        let Ok(title) = escape(self.frame.heading.name(), Html);
        let Ok(address) = escape(&self.address, Html);
        let origin = self.frame.visitor.origin();
        format!(
            r#"<iframe src="{origin}{address}" title="{title}" width="320" height="480"></iframe>"#
        )
    }
}

/// The page of one board: how the frame looks with these parameters of its page.
pub(super) async fn show(mut frame: Frame) -> Answer {
    let names = ["board", "window", "size", "cohort", "theme", "lang", "noun"];
    let [board, mut window, size, cohort, theme, lang, noun] = frame.params(names)?;
    let summary = frame.summary(&board).await?;
    frame.set_board(&board, Some(&summary), "Embed");
    if window.is_empty() {
        let first = summary.windows.first();
        window = first.map_or_else(String::new, |first| first.window.to_string());
    }
    let query = [
        ("size", &*size),
        ("cohort", &cohort),
        ("theme", &theme),
        ("lang", &lang),
        ("noun", noun.trim()),
    ];
    let standing = ["boards", &board, "standings", &window];
    let asked = v1_with(&standing, &[("size", "1"), ("cohort", &cohort)]);
    let found: Result<IgnoredAny, Problem> = frame.visitor.read(&asked).await;
    html(&EmbedPage {
        lacks_cohort: found.is_err_and(|problem| problem.kind == COHORT_REQUIRED),
        address: address(&["embed", &board, &window], &query),
        frame,
        summary,
        window,
    })
}

#[derive(Template)]
#[template(path = "console/embeds.html")]
struct EmbedsPage {
    frame: Frame,
    boards: Vec<Defined>,
    parts: Parts,
}

/// The public boards.
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [after] = frame.params(["after"])?;
    let query = [("after", &*after), ("limit", BOARDS_MAX)];
    let found: List = frame.read(&["boards"], &query).await?;
    let boards = found.boards.into_iter().filter(|board| board.public);
    html(&EmbedsPage {
        boards: boards.collect(),
        parts: Parts::new("boards", &frame, found.next),
        frame: frame.named("Embeds"),
    })
}
