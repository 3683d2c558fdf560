//! `/`: the first steps on a service without keys; otherwise a redirect to the console.

use askama::Template;
use axum::response::{IntoResponse, Redirect};

use super::service::VERSION;
use super::{Answer, Frame, Visitor, html};
use crate::boards::templates::TEMPLATES;
use crate::http::problem::Problem;
use crate::operations::health::Ready;
use crate::standings::routes::summary::SummaryBody;

/// The board that `make demo` fills.
const DEMO_BOARD: &str = "demo_flights";

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

/// The page.
pub(super) async fn show(visitor: Visitor) -> Answer {
    if !visitor.is_anybody() {
        return Ok(Redirect::to("/console").into_response());
    }
    html(&Home {
        frame: Frame::new(&visitor, "First steps"),
        origin: visitor.origin(),
        is_local: visitor.console.is_local,
        version: VERSION,
        ready: visitor.ready().await,
        // The page is useful without it.
        demo: visitor.summary(DEMO_BOARD).await.ok(),
    })
}
