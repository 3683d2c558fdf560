//! What operators do with a board besides its definition: closing it, making periods final, moving it to other shards, and
//! deleting it.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::boards::Defined;
use super::{Answer, Form, Frame, Page, Path, Viewer, carry_out, html, to, v1};
use crate::domain::access::Scope;
use crate::domain::state::PeriodState;
use crate::http::problem::{BOARD_NOT_FOUND, Problem};
use crate::http::results::PeriodBody;
use crate::http::summary::SummaryBody;
use crate::service::shards::Spread;

/// How many periods of a window are looked at, the newest first.
const PERIODS_MAX: &str = "20";

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
    definition: Defined,
    /// The periods that are over and not final yet, each with its window.
    waiting: Vec<(String, PeriodBody)>,
    /// Whether the viewer may see which periods wait.
    may_read: bool,
    shards: Spread,
}

impl Page for UpkeepPage {
    type Of = String;
    type Params = Params;

    async fn read(viewer: &Viewer, board: &String, params: Params) -> Result<Self, Problem> {
        let own = v1(&["boards", board]);
        let shards_at = format!("{own}/shards");
        let definition: Defined = viewer.read(&own).await?;
        let shards = viewer.read(&shards_at).await?;
        let summary = viewer.summary_if_shown(board).await?;
        let waiting = match &summary {
            Some(_) if definition.finalize.is_some() => waiting(viewer, board, &definition).await?,
            _ => Vec::new(),
        };
        let closing = json!({"closes_at": "2027-01-01T00:00:00Z"});
        let closed_by = format!("{own}/standings/WINDOW/periods/KEY/close");
        let frame = Frame::of_board(viewer, board, summary.as_ref(), "Upkeep");
        Ok(Self {
            frame: frame.done(&params.done).curl([
                viewer.curl_to(&Method::PATCH, &own, Some(&closing)),
                viewer.curl_to(&Method::POST, &closed_by, None),
                viewer.curl_to(&Method::PUT, &shards_at, Some(&json!({"count": 2}))),
                viewer.curl_to(&Method::DELETE, &own, None),
            ]),
            may_read: summary.is_some(),
            definition,
            waiting,
            shards,
        })
    }
}

/// The newest periods that are over and wait to become final.
async fn waiting(
    viewer: &Viewer,
    board: &str,
    definition: &Defined,
) -> Result<Vec<(String, PeriodBody)>, Problem> {
    let mut waiting = Vec::new();
    for window in &definition.windows {
        let newest = [("limit", PERIODS_MAX)];
        let periods = viewer.periods(board, window, &newest).await?;
        let over = periods.into_iter().map(|listed| listed.period);
        let over = over.filter(|period| period.state == Some(PeriodState::Closing));
        waiting.extend(over.map(|period| (window.clone(), period)));
    }
    Ok(waiting)
}

/// Carries out what a form asks, which tells what was done; if it is refused, the page says so.
async fn act(
    viewer: &Viewer,
    board: &String,
    form: &Form,
    what: impl Future<Output = Result<&'static str, Problem>>,
) -> Answer {
    let path = ["boards", board, "upkeep"];
    let back = async { Ok(to(&path, &[("done", what.await?)])) };
    let page = UpkeepPage::read(viewer, board, Params::default());
    carry_out(form, back, page, |page| &mut page.frame).await
}

/// Says until when the board takes events.
pub(super) async fn close(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
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
        let own = v1(&["boards", &board]);
        viewer.order(Method::PATCH, &own, Some(&change)).await?;
        Ok("changed")
    };
    act(&viewer, &board, &form, closed).await
}

/// Makes a period final.
pub(super) async fn close_period(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let closed = async {
        let (window, key) = (form.required("window")?, form.required("key")?);
        form.confirm(key)?;
        let period = v1(&["boards", &board, "standings", window, "periods", key]);
        let closed_by = format!("{period}/close");
        viewer.order(Method::POST, &closed_by, None).await?;
        Ok("final")
    };
    act(&viewer, &board, &form, closed).await
}

/// Moves the board to another number of shards.
pub(super) async fn spread(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let spread = async {
        let wrong = |_| Problem::invalid_field("/count", "is no number of shards");
        let count: u16 = form.required("count")?.parse().map_err(wrong)?;
        let own = v1(&["boards", &board, "shards"]);
        let wanted = json!({"count": count});
        let spread: Spread = viewer.call(Method::PUT, &own, Some(&wanted)).await?;
        Ok(spread.moving_to.map_or("changed", |_| "moving"))
    };
    act(&viewer, &board, &form, spread).await
}

#[derive(Template)]
#[template(path = "console/delete.html")]
struct DeletePage {
    frame: Frame,
    /// What is lost; none if the board can't be read.
    summary: Option<SummaryBody>,
}

/// The page on which a board is deleted. Nothing is read for it that a board could lack which can't be read.
pub(super) async fn last_page(viewer: Viewer, Path(board): Path<String>) -> Answer {
    viewer.require_on(Scope::Configure, &board)?;
    let summary = match viewer.summary(&board).await {
        Err(problem) if problem.kind == BOARD_NOT_FOUND => return Err(problem),
        summary => summary.ok(),
    };
    let mut frame = Frame::of_board(&viewer, &board, summary.as_ref(), "Upkeep");
    frame.title = format!("Delete {}", frame.heading.name());
    let delete = viewer.curl_to(&Method::DELETE, &v1(&["boards", &board]), None);
    html(&DeletePage {
        frame: frame.curl([delete]),
        summary,
    })
}

/// Deletes a board.
pub(super) async fn delete(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    form.confirm(&board)?;
    let own = v1(&["boards", &board]);
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["boards"], &[("done", "deleted")]))
}
