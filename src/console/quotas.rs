//! The remaining quotas of a board for a voter, a member, a device or an address.

use super::prelude::*;
use crate::events::quotas::routes::{QuotaState, QuotaStates};

/// Where an event would come from.
const ORIGINS: [&str; 5] = ["voter", "member", "channel", "device", "ip"];

#[derive(Template)]
#[template(path = "console/quotas.html")]
struct QuotasPage {
    frame: Frame,
    quotas: Vec<QuotaState>,
}

impl QuotasPage {
    fn is_empty(&self) -> bool {
        let mut origins = ORIGINS.into_iter();
        origins.all(|name| self.frame.param(name).trim().is_empty())
    }
}

/// The page.
pub(super) async fn show(mut frame: Frame) -> Answer {
    let [board, voter, member, channel, device, ip] =
        frame.params(["board", "voter", "member", "channel", "device", "ip"])?;
    let origins = [&voter, &member, &channel, &device, &ip].map(|origin| origin.trim());
    let query: Vec<_> = ORIGINS.into_iter().zip(origins).collect();
    let QuotaStates { quotas } = frame.read(&["boards", &board, "quotas"], &query).await?;
    frame.read_board(&board, "Quotas").await?;
    html(&QuotasPage { frame, quotas })
}
