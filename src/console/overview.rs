//! The overview: what needs a look, which periods close next, and how many events boards had in the last hour. The counts
//! in the side bar come from the same sample.

use std::fmt::Write;
use std::sync::Arc;

use super::prelude::*;
use crate::operations::health::Ready;
use crate::operations::overview::work::Overview;
use crate::operations::upkeep::routes::QueueBody;
use crate::operations::warnings::UNAPPLIED;

/// How many boards are shown with their events.
const BOARDS_MAX: usize = 20;
/// How long an event may wait before that needs a look, in seconds.
const WAIT_S: u64 = 60;
/// The height of a sparkline.
const SPARK: u64 = 24;

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    frame: Frame,
    overview: Arc<Overview>,
    /// What this instance reports of itself.
    ready: Result<Ready, Problem>,
}

impl Visitor {
    /// Whether the visitor may see what waits or fails.
    pub(super) fn may_look_around(&self) -> bool {
        self.may(Scope::Moderate) || self.may(Scope::Configure)
    }
}

impl Overview {
    /// The boards with events that had waited for long when the sample was taken.
    fn late(&self) -> impl Iterator<Item = &QueueBody> {
        let boards = self.queues.boards.iter();
        boards.filter(|queue| {
            let ages = self.sampled_at.zip(queue.waiting_since);
            ages.is_some_and(|(now, since)| now.seconds_after(since) >= WAIT_S)
        })
    }

    /// How many webhooks fail, or were disabled.
    fn failing_webhooks(&self) -> u64 {
        (self.webhooks.failing.len() + self.webhooks.disabled.len()) as u64
    }
}

impl Frame {
    /// How many things wait or fail that a page of the side bar is about, with the class of this count.
    pub(super) fn count(&self, page: &str) -> Option<(u64, &'static str)> {
        let overview = self.overview()?;
        let (count, class) = match page {
            "Name review" => (overview.pending_names, "calm"),
            "Webhooks" => (overview.failing_webhooks(), ""),
            "Queues" if overview.dead_letters.total > 0 => (overview.dead_letters.total, ""),
            "Queues" => (overview.queues.events, "calm"),
            _ => return None,
        };
        (count > 0).then_some((count, class))
    }

    /// Whether no instance applied queued events when the sample was taken.
    pub(super) fn has_no_applier(&self) -> bool {
        let mut warnings = self
            .overview()
            .into_iter()
            .flat_map(|overview| &overview.warnings);
        warnings.any(|warning| warning.starts_with(UNAPPLIED))
    }

    /// How many events of a board wait or could not be applied.
    pub(super) fn queued(&self, board: &str) -> u64 {
        let Some(overview) = self.overview() else {
            return 0;
        };
        let waiting = overview.queues.boards.iter();
        let waiting = waiting.filter(|queue| queue.board == board);
        let dead = overview.dead_letters.boards.iter();
        let dead = dead.filter(|letters| letters.board == board);
        let counts = waiting.map(|queue| queue.events);
        counts.chain(dead.map(|letters| letters.count)).sum()
    }

    /// How many events the page's board had in the last whole minute, if it had any in the last hour.
    pub(super) fn events_a_minute(&self) -> Option<u64> {
        let mut boards = self.overview()?.events.iter();
        let own = boards.find(|own| own.board == self.heading.board)?;
        own.minutes.iter().rev().nth(1).copied()
    }

    /// The queue of the page's board, if its events have waited for long.
    pub(super) fn waiting(&self) -> Option<&QueueBody> {
        let mut late = self.overview()?.late();
        late.find(|queue| queue.board == self.heading.board)
    }
}

/// The page. Viewers that may not see it get the list of boards.
pub(super) async fn show(mut frame: Frame) -> Answer {
    if !frame.visitor.may_look_around() {
        return Ok(to(&["boards"], &[]));
    }
    let read_at = frame.reading(&["overview"], &[]);
    let overview = match frame.look_around().await {
        Some(overview) => Arc::clone(overview),
        None => frame.visitor.read(&read_at).await.map(Arc::new)?,
    };
    html(&OverviewPage {
        overview,
        ready: frame.visitor.ready().await,
        frame: frame.named("Overview"),
    })
}

impl OverviewPage {
    /// The warnings of this instance that the sample doesn't have; the counts in them may differ.
    fn own_warnings(&self) -> Vec<&String> {
        let words = |warning: &String| warning.replace(|letter: char| letter.is_ascii_digit(), "");
        let known: Vec<_> = self.overview.warnings.iter().map(words).collect();
        let own = self.ready.iter().flat_map(|ready| &ready.warnings);
        own.filter(|warning| !known.contains(&words(warning)))
            .collect()
    }

    /// How many events, in dead letters, boards have that the sample doesn't list.
    fn other_letters(&self) -> u64 {
        let letters = &self.overview.dead_letters;
        let listed = letters.boards.iter().map(|board| board.count).sum();
        letters.total.saturating_sub(listed)
    }

    /// Whether nothing needs a look.
    fn is_well(&self) -> bool {
        let overview = &self.overview;
        let is_ready = |ready: &Ready| ready.fault_count == 0 && ready.warnings.is_empty();
        overview.warnings.is_empty()
            && overview.fault_count == 0
            && overview.failing_webhooks() == 0
            && overview.webhooks.failed_deliveries + overview.dead_letters.total == 0
            && overview.pending_names == 0
            && overview.late().next().is_none()
            && self.ready.as_ref().is_ok_and(is_ready)
    }
}

/// The outline of a chart of counts, from left to right, which is filled.
fn spark(counts: &[u64]) -> String {
    let most = counts.iter().max().copied().unwrap_or_default().max(1);
    let mut path = format!("M0 {SPARK}");
    for count in counts {
        // A minute with events is seen.
        let height = (count * SPARK).div_ceil(most);
        let _ = write!(path, "V{}h1", SPARK - height);
    }
    let _ = write!(path, "V{SPARK}z");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_shows_each_minute_with_events() {
        assert_eq!(spark(&[0, 1, 1_000]), "M0 24V24h1V23h1V0h1V24z");
        assert_eq!(spark(&[0]), "M0 24V24h1V24z");
    }
}
