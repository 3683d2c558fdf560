//! Every part of the design system in every state, for who changes it. Debug builds only.

use super::movement::Moved;
use super::prelude::*;
use crate::domain::profile::Profile;

#[derive(Template)]
#[template(path = "console/showcase.html")]
struct Showcase {
    frame: Frame,
    /// Ranks, with how their members have moved.
    rows: [(Option<u64>, Option<Moved>); 6],
}

impl Showcase {
    /// Members here have no profiles.
    fn profile() -> Option<&'static Profile> {
        None
    }
}

/// The page.
pub(super) async fn show(frame: Frame) -> Answer {
    html(&Showcase {
        frame: frame.named("Parts").under("Console", "/console"),
        rows: [
            (Some(1), Some(Moved::Up(1_217))),
            (Some(2), Some(Moved::Down(1))),
            (Some(3), Some(Moved::Stayed)),
            (Some(4), Some(Moved::New)),
            (Some(12_345), None),
            (None, None),
        ],
    })
}
