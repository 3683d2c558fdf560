//! The service: its version, whether it is ready, and what somebody should see to.

use askama::Template;
use axum::response::Response;
use chrono_tz::Tz;
use serde::Deserialize;

use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::time::Timestamp;
use crate::http::problem::Problem;

/// What `GET /readyz` tells.
#[derive(Deserialize)]
pub(super) struct Ready {
    windows_complete: bool,
    pub(super) warnings: Vec<String>,
    pub(super) faults: Vec<Fault>,
    fault_count: usize,
}

/// Background work that fails.
#[derive(Deserialize)]
pub(super) struct Fault {
    pub(super) board: String,
    pub(super) job: String,
    pub(super) error: String,
    since: Timestamp,
}

/// The version of the program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Viewer {
    /// What the service says of itself, or why it is not ready.
    pub(super) async fn ready(&self) -> Result<Ready, Problem> {
        self.read("/readyz").await
    }
}

#[derive(Template)]
#[template(path = "console/service.html")]
struct ServicePage {
    frame: Frame,
    clock: Clock,
    version: &'static str,
    ready: Result<Ready, Problem>,
    curl: String,
}

/// The page.
pub(super) async fn show(viewer: Viewer) -> Result<Response, Problem> {
    html(&ServicePage {
        frame: Frame::new(&viewer, "Service"),
        clock: Clock(Tz::UTC),
        version: VERSION,
        ready: viewer.ready().await,
        curl: viewer.curl("/readyz"),
    })
}
