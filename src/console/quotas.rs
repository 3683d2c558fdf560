//! The remaining quotas of a board for a voter, a member, a device or an address.

use askama::Template;
use serde::Deserialize;

use super::{Answer, Frame, Path, Query, Viewer, html};
use crate::domain::access::Scope;
use crate::events::quotas::routes::{QuotaState, QuotaStates};

/// Where an event would come from.
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
    params: Params,
    quotas: Vec<QuotaState>,
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path(board): Path<String>,
    Query(params): Query<Params>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "");
    let path = ["boards", &board, "quotas"];
    let QuotaStates { quotas } = frame.read(&path, &params.named()).await?;
    frame.read_board(&board, "Quotas").await?;
    html(&QuotasPage {
        frame,
        params,
        quotas,
    })
}
