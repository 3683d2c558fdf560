//! What operators do with a board besides its definition: closing it, making periods final, moving it to other shards, and
//! deleting it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::address::address;
use super::board::{Heading, Opening};
use super::boards::Defined;
use super::forms::Form;
use super::page::{self, Frame, Page, html, to};
use super::session::Viewer;
use super::shown::{Clock, done};
use crate::domain::access::Scope;
use crate::domain::board::FieldError;
use crate::domain::state::PeriodState;
use crate::http::extract::Path;
use crate::http::problem::{BOARD_NOT_FOUND, Problem};
use crate::http::results::PeriodBody;
use crate::http::summary::SummaryBody;
use crate::service::shards::Spread;

/// How many periods of a window are looked at, the newest first.
const PERIODS_MAX: &str = "20";

/// A period that is over, and not final yet.
struct Waiting {
    window: String,
    period: PeriodBody,
}

/// What was done before the page was shown.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    done: String,
}

#[derive(Template)]
#[template(path = "console/upkeep.html")]
pub(super) struct UpkeepPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    done: Option<&'static str>,
    definition: Defined,
    waiting: Vec<Waiting>,
    /// Whether the viewer may see which periods wait.
    may_read: bool,
    shards: Spread,
    problem: Option<Problem>,
    curl: String,
}

impl Page for UpkeepPage {
    type Of = String;
    type Params = Params;

    async fn read(viewer: &Viewer, board: &String, params: Params) -> Result<Self, Problem> {
        let of_board = |part: &[&str]| address(&[&["v1", "boards", board], part].concat(), &[]);
        let definition: Defined = viewer.read(&of_board(&[])).await?;
        let shards = viewer.read(&of_board(&["shards"])).await?;
        let summary = viewer.summary_if_shown(board).await?;
        let waiting = match &summary {
            Some(_) if definition.finalize.is_some() => waiting(viewer, board, &definition).await?,
            _ => Vec::new(),
        };
        let Opening {
            frame,
            heading,
            clock,
        } = Opening::new(viewer, board, summary.as_ref(), "Upkeep");
        let closing = json!({"closes_at": "2027-01-01T00:00:00Z"});
        let closed_by = of_board(&["standings", "WINDOW", "periods", "KEY", "close"]);
        let curl = [
            viewer.curl_to(&Method::PATCH, &of_board(&[]), Some(&closing)),
            viewer.curl_to(&Method::POST, &closed_by, None),
            viewer.curl_to(
                &Method::PUT,
                &of_board(&["shards"]),
                Some(&json!({"count": 2})),
            ),
            viewer.curl_to(&Method::DELETE, &of_board(&[]), None),
        ];
        Ok(Self {
            frame,
            heading,
            may_read: summary.is_some(),
            clock,
            done: done(&params.done),
            definition,
            waiting,
            shards,
            problem: None,
            curl: curl.join("\n"),
        })
    }
}

/// The newest periods that are over and wait to become final.
async fn waiting(
    viewer: &Viewer,
    board: &str,
    definition: &Defined,
) -> Result<Vec<Waiting>, Problem> {
    let mut waiting = Vec::new();
    for window in &definition.windows {
        let newest = [("limit", PERIODS_MAX)];
        let periods = viewer.periods(board, window, &newest).await?;
        let over = periods.into_iter().map(|listed| listed.period);
        let over = over.filter(|period| period.state == Some(PeriodState::Closing));
        waiting.extend(over.map(|period| Waiting {
            window: window.clone(),
            period,
        }));
    }
    Ok(waiting)
}

/// Carries out what a form asks, which tells what was done; if it is refused, the page says so.
async fn carry_out(
    viewer: &Viewer,
    board: &String,
    what: impl Future<Output = Result<&'static str, Problem>>,
) -> Result<Response, Problem> {
    let path = ["console", "boards", board, "upkeep"];
    let back = async { what.await.map(|done| to(&path, &[("done", done)])) };
    let page = UpkeepPage::read(viewer, board, Params::default());
    page::carry_out(back, page, |page, problem| page.problem = Some(problem)).await
}

/// Says until when the board takes events.
pub(super) async fn close(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let closed = async {
        let closes_at = match form.field("step") {
            "now" => {
                let clock = &viewer.visitor.console.app.service.engine.clock;
                Some(clock.now().to_rfc3339_seconds())
            }
            "never" => None,
            _ => {
                form.required("closes_at")?;
                form.instant("closes_at")
            }
        };
        let change = json!({"closes_at": closes_at});
        let own = address(&["v1", "boards", &board], &[]);
        viewer.order(Method::PATCH, &own, Some(&change)).await?;
        Ok("changed")
    };
    carry_out(&viewer, &board, closed).await
}

/// Makes a period final.
pub(super) async fn close_period(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let closed = async {
        let (window, key) = (form.required("window")?, form.required("key")?);
        form.confirm(key)?;
        let path = [
            "v1",
            "boards",
            &board,
            "standings",
            window,
            "periods",
            key,
            "close",
        ];
        let closed_by = address(&path, &[]);
        viewer.order(Method::POST, &closed_by, None).await?;
        Ok("final")
    };
    carry_out(&viewer, &board, closed).await
}

/// Moves the board to another number of shards.
pub(super) async fn spread(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let spread = async {
        let count = form.required("count")?.parse::<u16>();
        let wrong = |_| {
            let error = FieldError::new("/count", "is no number of shards");
            Problem::invalid(vec![error])
        };
        let wanted = json!({"count": count.map_err(wrong)?});
        let own = address(&["v1", "boards", &board, "shards"], &[]);
        let spread: Spread = viewer.call(Method::PUT, &own, Some(&wanted)).await?;
        Ok(spread.moving_to.map_or("changed", |_| "moving"))
    };
    carry_out(&viewer, &board, spread).await
}

#[derive(Template)]
#[template(path = "console/delete.html")]
struct DeletePage {
    frame: Frame,
    heading: Heading,
    /// What is lost; none if the board can't be read.
    summary: Option<SummaryBody>,
    curl: String,
}

/// The page on which a board is deleted. Nothing is read for it that a board could lack which can't be read.
pub(super) async fn last_page(
    viewer: Viewer,
    Path(board): Path<String>,
) -> Result<Response, Problem> {
    viewer.require_on(Scope::Configure, &board)?;
    let summary = match viewer.summary(&board).await {
        Err(problem) if problem.kind == BOARD_NOT_FOUND => return Err(problem),
        summary => summary.ok(),
    };
    let title = |name: &str| format!("Delete {name}");
    let opening = Opening::titled(&viewer, &board, summary.as_ref(), "Upkeep", title);
    let own = address(&["v1", "boards", &board], &[]);
    html(&DeletePage {
        frame: opening.frame,
        heading: opening.heading,
        summary,
        curl: viewer.curl_to(&Method::DELETE, &own, None),
    })
}

/// Deletes a board.
pub(super) async fn delete(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    form.confirm(&board)?;
    let own = address(&["v1", "boards", &board], &[]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["console", "boards"], &[("done", "deleted")]))
}
