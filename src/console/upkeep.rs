//! What operators do with a board besides its definition: closing it, making periods final, moving it to other shards, and
//! deleting it.

use axum::response::Response;

use super::boards::Defined;
use super::prelude::*;
use super::result::period_path;
use super::settings::settings;
use crate::domain::state::PeriodState;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::http::problem::BOARD_NOT_FOUND;
use crate::moves::work::BoardShards;
use crate::standings::routes::summary::{PeriodBody, SummaryBody};

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
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [board] = frame.params(["board"])?;
        let (own, shards_at) = (["boards", &board], ["boards", &board, "shards"]);
        let definition: Defined = frame.visitor.read(&v1(&own)).await?;
        let shards = frame.visitor.read(&v1(&shards_at)).await?;
        let may_read = frame.read_board(&board, "Maintenance").await?.is_some();
        frame.clock.zone = definition.timezone.unwrap_or(Zone::UTC);
        let mut waiting = Vec::new();
        if may_read && definition.finalize.is_some() {
            waiting = read_waiting(&frame.visitor, &board, &definition).await?;
        }
        let closing = json!({"closes_at": "2027-01-01T00:00:00Z"});
        frame.example(&Method::PATCH, &own, Some(&closing));
        let closed_by = period_path(&board, "WINDOW", "KEY", &["close"]);
        frame.example(&Method::POST, &closed_by, None);
        frame.example(&Method::PUT, &shards_at, Some(&json!({"count": 2})));
        frame.example(&Method::DELETE, &own, None);
        Ok(Self {
            frame,
            definition,
            waiting,
            may_read,
            shards,
        })
    }
}

/// The newest periods that have ended and wait to become final.
async fn read_waiting(
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
fn back(form: &Form, done: &str) -> Response {
    to(
        &["boards", form.field("board"), "upkeep"],
        &[("done", done)],
    )
}

/// Sets until when the board takes events.
pub(super) async fn close(viewer: Viewer, form: Form) -> Answer {
    let board = form.field("board");
    let closed = async {
        let now = viewer.console.app.engine.clock.now();
        let closes_at = match form.field("step") {
            "now" => {
                form.confirm(board)?;
                Some(now.to_rfc3339_seconds())
            }
            "never" => None,
            _ => {
                form.required("closes_at")?;
                form.local("closes_at", viewer.zone(board).await?)?
            }
        };
        let at = closes_at.as_deref().map(Timestamp::parse);
        if form.field("step") != "now" && at.is_some_and(|at| at.is_ok_and(|at| at <= now)) {
            let detail = "is over: to close the board at once, choose Close now";
            return Err(Problem::invalid_field("/closes_at", detail));
        }
        let change = json!({"closes_at": closes_at});
        viewer
            .order(Method::PATCH, &["boards", board], Some(&change))
            .await?;
        Ok(back(&form, "changed"))
    };
    carry_out::<UpkeepPage>(&viewer, &form, closed).await
}

/// Moves the board to another number of shards.
pub(super) async fn spread(viewer: Viewer, form: Form) -> Answer {
    let spread = async {
        let wrong = |_| Problem::invalid_field("/count", "must be a number from 1 to 64");
        let count: u16 = form.required("count")?.parse().map_err(wrong)?;
        let own = v1(&["boards", form.field("board"), "shards"]);
        let wanted = json!({"count": count});
        let spread: BoardShards = viewer.call(Method::PUT, &own, Some(&wanted)).await?;
        Ok(back(
            &form,
            spread.moving_to.map_or("changed", |_| "moving"),
        ))
    };
    carry_out::<UpkeepPage>(&viewer, &form, spread).await
}

/// The page on which a board is deleted.
#[derive(Template)]
#[template(path = "console/delete.html")]
pub(super) struct DeletePage {
    frame: Frame,
    /// What is lost; none if the board can't be read.
    summary: Option<SummaryBody>,
}

impl Page for DeletePage {
    /// It works even for a board that can't be read.
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [board] = frame.params(["board"])?;
        frame.visitor.require_on(Scope::Configure, &board)?;
        let summary = match frame.summary(&board).await {
            Err(problem) if problem.kind == BOARD_NOT_FOUND => return Err(problem),
            summary => summary.ok(),
        };
        frame.set_board(&board, summary.as_ref(), "Maintenance");
        frame.title = format!("Delete {}", frame.heading.name());
        frame.example(&Method::DELETE, &["boards", &board], None);
        Ok(Self { frame, summary })
    }
}
