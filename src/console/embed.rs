//! Boards in a frame of other pages: how one looks, and the line to copy; and the list of boards that can be embedded.

use askama::Template;
use askama::filters::{Html, escape};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::boards::{Defined, List};
use super::{Answer, Frame, PartParams, Parts, Path, Query, Viewer, address, html, v1_with};
use crate::domain::access::Scope;
use crate::http::problem::{COHORT_REQUIRED, Problem};
use crate::standings::routes::summary::SummaryBody;

/// How many boards a part of the list goes through.
const BOARDS_MAX: &str = "100";

/// How the frame looks: its window, and the parameters of its page.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    window: String,
    size: String,
    cohort: String,
    theme: String,
    lang: String,
    noun: String,
}

#[derive(Template)]
#[template(path = "console/embed.html")]
struct EmbedPage {
    frame: Frame,
    summary: SummaryBody,
    params: Params,
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

/// The page of one board.
pub(super) async fn show(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(mut params): Query<Params>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "");
    let summary: SummaryBody = viewer.summary(&board).await?;
    frame.set_board(&board, Some(&summary), "Embed");
    if params.window.is_empty() {
        let first = summary.windows.first();
        params.window = first.map_or_else(String::new, |first| first.window.to_string());
    }
    let query = [
        ("size", params.size.as_str()),
        ("cohort", &params.cohort),
        ("theme", &params.theme),
        ("lang", &params.lang),
        ("noun", params.noun.trim()),
    ];
    let standing = ["boards", board.as_str(), "standings", &params.window];
    let asked = v1_with(&standing, &[("size", "1"), ("cohort", &params.cohort)]);
    let found: Result<IgnoredAny, Problem> = viewer.read(&asked).await;
    html(&EmbedPage {
        lacks_cohort: found.is_err_and(|problem| problem.kind == COHORT_REQUIRED),
        address: address(&["embed", &board, &params.window], &query),
        frame,
        summary,
        params,
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
pub(super) async fn list(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    let mut frame = Frame::new(&viewer, "Embeds");
    let query = [("after", params.after.as_str()), ("limit", BOARDS_MAX)];
    let found: List = frame.read(&["boards"], &query).await?;
    let boards = found.boards.into_iter().filter(|board| board.public);
    html(&EmbedsPage {
        frame,
        boards: boards.collect(),
        parts: Parts::new("boards", "/console/embeds", &params.after, found.next),
    })
}
