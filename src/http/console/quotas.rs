//! What is left of the quotas of a board for a voter, a member, a device or an address.

use askama::Template;
use axum::response::Response;
use serde::Deserialize;

use super::address::address;
use super::board::{Heading, Opening};
use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::access::Scope;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::http::quotas::{Allowance, QuotaState, QuotaStates};

impl Allowance {
    fn is_used_up(&self) -> bool {
        self.left.to_string() == "0"
    }
}

/// What an event would say of where it comes from.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    voter: String,
    member: String,
    channel: String,
    device: String,
    ip: String,
}

impl Params {
    fn named(&self) -> [(&'static str, &str); 5] {
        [
            ("voter", self.voter.trim()),
            ("member", self.member.trim()),
            ("channel", self.channel.trim()),
            ("device", self.device.trim()),
            ("ip", self.ip.trim()),
        ]
    }

    fn is_empty(&self) -> bool {
        self.named().iter().all(|(_, value)| value.is_empty())
    }
}

#[derive(Template)]
#[template(path = "console/quotas.html")]
struct QuotasPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    params: Params,
    /// Whether the viewer may ask about others.
    may_ask: bool,
    quotas: Vec<QuotaState>,
    curl: String,
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let read_at = address(&["v1", "boards", &board, "quotas"], &params.named());
    let found: QuotaStates = viewer.read(&read_at).await?;
    let summary = viewer.summary(&board).await?;
    let Opening {
        frame,
        heading,
        clock,
    } = Opening::new(&viewer, &board, Some(&summary), "Quotas");
    html(&QuotasPage {
        frame,
        heading,
        clock,
        may_ask: viewer.may_on(Scope::Configure, &board),
        params,
        quotas: found.quotas,
        curl: viewer.curl(&read_at),
    })
}
