//! What operators do with a board besides its definition: closing it, making periods final, moving it to other shards, and
//! deleting it.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};

use super::boards::Defined;
use super::result::period_path;
use super::settings::settings;
use super::{
    Answer, Form, Frame, Page, PartParams, Path, Viewer, Visitor, carry_out, html, refused, to, v1,
};
use crate::domain::access::Scope;
use crate::domain::state::PeriodState;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::http::problem::{BOARD_NOT_FOUND, Problem};
use crate::moves::work::BoardShards;
use crate::standings::routes::summary::PeriodBody;
use crate::standings::routes::summary::SummaryBody;

/// How many periods of a window are checked, newest first.
const PERIODS_MAX: &str = "20";

#[derive(Template)]
#[template(path = "console/upkeep.html")]
pub(super) struct UpkeepPage {
    frame: Frame,
    definition: Defined,
    /// The periods that have ended and are not final yet, each with its window.
    waiting: Vec<(String, PeriodBody)>,
    /// Whether the viewer may see which periods wait.
    may_read: bool,
    shards: BoardShards,
}

impl UpkeepPage {
    fn closing(&self) -> String {
        what_closing_does(self.definition.finalize.as_ref().unwrap_or(&Value::Null))
    }
}

impl Page for UpkeepPage {
    type Of = String;
    type Params = PartParams;

    async fn read(mut frame: Frame, board: &String, params: PartParams) -> Result<Self, Problem> {
        let (own, shards_at) = (["boards", board], ["boards", board, "shards"]);
        let definition: Defined = frame.visitor.read(&v1(&own)).await?;
        let shards = frame.visitor.read(&v1(&shards_at)).await?;
        let may_read = frame.read_board(board, "Maintenance").await?.is_some();
        frame.clock.zone = definition.timezone.unwrap_or(Zone::UTC);
        let waiting = if may_read && definition.finalize.is_some() {
            waiting(&frame.visitor, board, &definition).await?
        } else {
            Vec::new()
        };
        let closing = json!({"closes_at": "2027-01-01T00:00:00Z"});
        frame.example(&Method::PATCH, &own, Some(&closing));
        let closed_by = period_path(board, "WINDOW", "KEY", &["close"]);
        frame.example(&Method::POST, &closed_by, None);
        frame.example(&Method::PUT, &shards_at, Some(&json!({"count": 2})));
        frame.example(&Method::DELETE, &own, None);
        Ok(Self {
            frame: frame.done(&params.done),
            may_read,
            definition,
            waiting,
            shards,
        })
    }
}

/// The newest periods that have ended and wait to become final.
async fn waiting(
    visitor: &Visitor,
    board: &str,
    definition: &Defined,
) -> Result<Vec<(String, PeriodBody)>, Problem> {
    let mut waiting = Vec::new();
    for window in &definition.windows {
        let newest = [("limit", PERIODS_MAX)];
        let periods = visitor.periods(board, window, &newest).await?;
        let over = periods.into_iter().map(|listed| listed.period);
        let over = over.filter(|period| period.state == Some(PeriodState::Closing));
        waiting.extend(over.map(|period| (window.clone(), period)));
    }
    Ok(waiting)
}

/// What closing the board now does, in sentences, with this `finalize`.
pub(super) fn what_closing_does(finalize: &Value) -> String {
    if finalize.is_null() {
        return "Its running periods end, and it refuses all further events. You can open it again later."
            .to_owned();
    }
    let setting = settings().find(|setting| setting.path == "finalize");
    let after = setting.map_or_else(String::new, |setting| setting.words(finalize, Zone::UTC));
    format!(
        "Its running periods become final {after} after that, and no event counts ever again. Once they are final, the board \
         can't be opened again."
    )
}

/// Redirects to the page with a notice of what was done.
fn back(board: &str, done: &str) -> Response {
    to(&["boards", board, "upkeep"], &[("done", done)])
}

/// Whether this instant, as a form has it, is not after now. One that is not an instant is refused later.
fn is_over(instant: Option<&str>, now: Timestamp) -> bool {
    let instant = instant.map(Timestamp::parse);
    matches!(instant, Some(Ok(instant)) if instant <= now)
}

/// Sets until when the board takes events.
pub(super) async fn close(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let closed = async {
        let now = viewer.console.app.engine.clock.now();
        let closes_at = match form.field("step") {
            "now" => {
                form.confirm(&board)?;
                Some(now.to_rfc3339_seconds())
            }
            "never" => None,
            _ => {
                form.required("closes_at")?;
                let zone = viewer.zone(&board).await?;
                let closes_at = form.local("closes_at", zone)?;
                if is_over(closes_at.as_deref(), now) {
                    let detail = "is over: to close the board at once, choose Close now";
                    return Err(Problem::invalid_field("/closes_at", detail));
                }
                closes_at
            }
        };
        let change = json!({"closes_at": closes_at});
        let own = ["boards", &board];
        viewer.order(Method::PATCH, &own, Some(&change)).await?;
        Ok(back(&board, "changed"))
    };
    carry_out::<UpkeepPage>(&viewer, &board, &form, closed).await
}

/// Makes a period final.
pub(super) async fn close_period(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let closed = async {
        let (window, key) = (form.required("window")?, form.required("key")?);
        form.confirm(key)?;
        let closed_by = period_path(&board, window, key, &["close"]);
        viewer.order(Method::POST, &closed_by, None).await?;
        Ok(back(&board, "final"))
    };
    carry_out::<UpkeepPage>(&viewer, &board, &form, closed).await
}

/// Moves the board to another number of shards.
pub(super) async fn spread(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let spread = async {
        let wrong = |_| Problem::invalid_field("/count", "must be a number from 1 to 64");
        let count: u16 = form.required("count")?.parse().map_err(wrong)?;
        let own = v1(&["boards", &board, "shards"]);
        let wanted = json!({"count": count});
        let spread: BoardShards = viewer.call(Method::PUT, &own, Some(&wanted)).await?;
        let done = spread.moving_to.map_or("changed", |_| "moving");
        Ok(back(&board, done))
    };
    carry_out::<UpkeepPage>(&viewer, &board, &form, spread).await
}

#[derive(Template)]
#[template(path = "console/delete.html")]
struct DeletePage {
    frame: Frame,
    /// What is lost; none if the board can't be read.
    summary: Option<SummaryBody>,
}

impl DeletePage {
    /// It works even for a board that can't be read.
    async fn read(viewer: &Viewer, board: &str) -> Result<Self, Problem> {
        viewer.require_on(Scope::Configure, board)?;
        let summary = match viewer.summary(board).await {
            Err(problem) if problem.kind == BOARD_NOT_FOUND => return Err(problem),
            summary => summary.ok(),
        };
        let mut frame = Frame::new(viewer, "");
        frame.set_board(board, summary.as_ref(), "Maintenance");
        frame.title = format!("Delete {}", frame.heading.name());
        frame.example(&Method::DELETE, &["boards", board], None);
        Ok(Self { frame, summary })
    }
}

/// The page on which a board is deleted.
pub(super) async fn last_page(viewer: Viewer, Path(board): Path<String>) -> Answer {
    html(&DeletePage::read(&viewer, &board).await?)
}

/// Deletes a board.
pub(super) async fn delete(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    if let Err(problem) = form.confirm(&board) {
        let mut page = DeletePage::read(&viewer, &board).await?;
        page.frame.form = form;
        let status = page.frame.refuse(problem);
        return refused(status, &page);
    }
    let own = ["boards", &board];
    viewer.order(Method::DELETE, &own, None).await?;
    Ok(to(&["boards"], &[("done", "deleted")]))
}
