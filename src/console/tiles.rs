//! The figures above a standing.

use super::movement::Movement;
use super::prelude::*;
use super::shown::{grouped, padded};
use crate::standings::routes::answers::{PageBody, StandingBody, StatsBody};
use crate::standings::routes::summary::SummaryBody;

/// A figure above a standing.
pub(super) struct Tile {
    pub(super) label: String,
    pub(super) figure: String,
    /// The change since the period before, in percent.
    pub(super) change: Option<i64>,
}

impl Visitor {
    /// The voters and events of a standing, if the board counts them.
    pub(super) async fn stats(
        &self,
        standing: &StandingBody,
        is_counted: bool,
    ) -> Option<StatsBody> {
        if !is_counted {
            return None;
        }
        let StandingBody {
            board, window, key, ..
        } = standing;
        let path = ["boards", board, "standings", window, "stats"];
        self.read(&v1_with(&path, &[("key", key)])).await.ok()
    }
}

/// The figures above a standing.
pub(super) fn tiles(
    frame: &Frame,
    summary: &SummaryBody,
    found: &PageBody,
    movement: Option<&Movement>,
    stats: Option<&StatsBody>,
) -> Vec<Tile> {
    let plain = |label: &str, figure: String| Tile {
        label: label.to_owned(),
        figure,
        change: None,
    };
    let change = movement.and_then(|movement| {
        let (before, now) = (movement.total.cast_signed(), found.total.cast_signed());
        // More than tenfold says nothing in percent.
        let change = (now - before) * 100 / before.max(1);
        (before > 0 && change < 1_000).then_some(change)
    });
    let mut tiles = vec![Tile {
        change,
        ..plain("Members", grouped(&found.total))
    }];
    let counts = stats.map(|stats| [("Voters, about", stats.voters), ("Events", stats.events)]);
    for (label, count) in counts.into_iter().flatten() {
        tiles.extend(count.map(|count| plain(label, grouped(&count))));
    }
    if let ([first, second, ..], Some(1)) = (&found.entries[..], found.page) {
        let lead = first.score.distance(second.score);
        tiles.push(plain("Lead of rank 1", padded(&lead, summary.decimals)));
    }
    if let Some(events) = frame.events_a_minute() {
        tiles.push(plain("Events a minute", grouped(&events)));
    }
    if let Some(end) = found.standing.ends_at {
        let distance = frame.clock.distance(&end);
        tiles.push(if end > frame.clock.now {
            plain("Ends in", distance)
        } else {
            plain("Ended", format!("{distance} ago"))
        });
    }
    tiles
}
