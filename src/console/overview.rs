//! The overview: what needs a look, which periods close next, and how many events boards had in the last hour. The counts
//! in the side bar come from the same sample.

use std::fmt::Write;
use std::sync::Arc;

use askama::Template;

use super::shown::{Clock, counted, sentence};
use super::{Answer, Frame, Viewer, Visitor, html, to};
use crate::domain::access::Scope;
use crate::http::problem::Problem;
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

/// Something that needs a look.
struct Look {
    /// The colour of the state: `harm`, `warn`, or nothing.
    class: &'static str,
    state: &'static str,
    /// What it is about, and the address of its page; empty without one.
    what: String,
    page: String,
    says: String,
}

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    frame: Frame,
    overview: Arc<Overview>,
    looks: Vec<Look>,
}

impl Visitor {
    /// Whether the visitor may see what waits or fails.
    pub(super) fn may_look_around(&self) -> bool {
        self.may(Scope::Moderate) || self.may(Scope::Configure)
    }

    /// Reads what waits or fails. A page works without it.
    pub(super) async fn look_around(&mut self) {
        if self.may_look_around() {
            self.overview = self.read("/v1/overview").await.ok().map(Arc::new);
        }
    }

    /// How many things wait or fail that a page of the side bar is about, with the class of this count.
    pub(super) fn count(&self, page: &str) -> Option<(u64, &'static str)> {
        let overview = self.overview.as_ref()?;
        let webhooks = &overview.webhooks;
        let (count, class) = match page {
            "Name review" => (overview.pending_names, "calm"),
            "Webhooks" => (
                (webhooks.failing.len() + webhooks.disabled.len()) as u64,
                "",
            ),
            "Queues" if overview.dead_letters.total > 0 => (overview.dead_letters.total, ""),
            "Queues" => (overview.queues.events, "calm"),
            _ => return None,
        };
        (count > 0).then_some((count, class))
    }

    /// Whether no instance applied queued events when the sample was taken.
    pub(super) fn overview_warns_of_queues(&self) -> bool {
        let warnings = self.overview.iter().flat_map(|overview| &overview.warnings);
        warnings
            .into_iter()
            .any(|warning| warning.starts_with(UNAPPLIED))
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
}

impl Frame {
    /// The queue of the page's board, if its events have waited for long.
    pub(super) fn waiting(&self) -> Option<&QueueBody> {
        let overview = self.visitor.overview.as_ref()?;
        overview
            .late()
            .find(|queue| queue.board == self.heading.board)
    }
}

/// The page. Viewers that may not see it get the list of boards.
pub(super) async fn show(viewer: Viewer) -> Answer {
    if !viewer.may_look_around() {
        return Ok(to(&["boards"], &[]));
    }
    let mut frame = Frame::new(&viewer, "Overview");
    let read_at = frame.reading(&["overview"], &[]);
    let overview = match &viewer.overview {
        Some(overview) => Arc::clone(overview),
        None => Arc::new(viewer.read(&read_at).await?),
    };
    let mut looks = of_service(frame.clock, &overview, &viewer.ready().await);
    looks.extend(of_webhooks(&overview));
    looks.extend(of_queues(frame.clock, &overview));
    if !viewer.may(Scope::Configure) {
        looks.iter_mut().for_each(|look| look.page.clear());
    }
    if overview.pending_names > 0 && viewer.may(Scope::Moderate) {
        let says = format!(
            "to review: {}.",
            super::shown::grouped(&overview.pending_names)
        );
        looks.push(Look::of(("", "Review"), "Names", "/console/names", says));
    }
    html(&OverviewPage {
        frame,
        overview,
        looks,
    })
}

impl Look {
    fn of(
        (class, state): (&'static str, &'static str),
        what: impl Into<String>,
        page: impl Into<String>,
        says: impl Into<String>,
    ) -> Self {
        Self {
            class,
            state,
            what: what.into(),
            page: page.into(),
            says: says.into(),
        }
    }
}

/// The warnings and faults of the sample, and those of this instance.
fn of_service(clock: Clock, overview: &Overview, ready: &Result<Ready, Problem>) -> Vec<Look> {
    let mut looks = Vec::new();
    let mut warnings = overview.warnings.clone();
    let mut faults: Vec<_> = overview.faults.iter().collect();
    match ready {
        Ok(ready) => {
            warnings.extend(ready.warnings.iter().cloned());
            faults.extend(&ready.faults);
        }
        Err(problem) => {
            let says = sentence(&problem.detail);
            looks.push(Look::of(
                ("harm", "Not ready"),
                "Service",
                "/console/service",
                says,
            ));
        }
    }
    // Counts in a warning differ from one instance to the next.
    let words = |warning: &mut String| warning.replace(|letter: char| letter.is_ascii_digit(), "");
    warnings.sort();
    warnings.dedup_by_key(words);
    faults.sort_by_key(|fault| (&fault.board, &fault.job));
    faults.dedup_by_key(|fault| (&fault.board, &fault.job));
    let warnings = warnings
        .iter()
        .map(|warning| Look::of(("warn", "Warning"), "", "", sentence(warning)));
    looks.extend(warnings);
    looks.extend(faults.into_iter().map(|fault| {
        let (job, error) = (&fault.job, &fault.error);
        let says = format!(
            "`{job}` has failed for {}: {error}",
            clock.distance(&fault.since)
        );
        let board = if fault.board == "*" {
            "Background work"
        } else {
            &fault.board
        };
        Look::of(("harm", "Fault"), board, "/console/service", says)
    }));
    looks
}

fn of_webhooks(overview: &Overview) -> Vec<Look> {
    let troubles = &overview.webhooks;
    let page = "/console/webhooks";
    let look = |state, name: &String, says: &str| {
        Look::of(
            ("harm", state),
            format!("Webhook {name}"),
            format!("{page}/{name}"),
            says,
        )
    };
    let disabled = troubles.disabled.iter();
    let disabled =
        disabled.map(|name| look("Disabled", name, "gets no messages until it is enabled."));
    let failing = troubles.failing.iter();
    let failing =
        failing.map(|name| look("Failing", name, "refuses messages, which are sent again."));
    let mut looks: Vec<_> = disabled.chain(failing).collect();
    if troubles.failed_deliveries > 0 {
        let says = format!(
            "{} not delivered within a day.",
            counted(troubles.failed_deliveries, "message")
        );
        looks.push(Look::of(("harm", "Undelivered"), "Webhooks", page, says));
    }
    looks
}

fn of_queues(clock: Clock, overview: &Overview) -> Vec<Look> {
    let page = |board: &str| format!("/console/boards/{board}/queue");
    let dead = |count| format!("{} not applied.", counted(count, "event"));
    let letters = &overview.dead_letters;
    let state = ("harm", "Dead letters");
    let boards = letters.boards.iter();
    let mut looks: Vec<_> = boards
        .map(|letters| {
            Look::of(
                state,
                &letters.board,
                page(&letters.board),
                dead(letters.count),
            )
        })
        .collect();
    let listed: u64 = letters.boards.iter().map(|letters| letters.count).sum();
    if letters.total > listed {
        let others = dead(letters.total - listed);
        looks.push(Look::of(state, "Other boards", "/console/queues", others));
    }
    looks.extend(overview.late().map(|queue| {
        let since = queue.waiting_since.map(|since| clock.distance(&since));
        let waiting = counted(queue.events, "event");
        let says = format!(
            "{waiting} waiting, the oldest for {}.",
            since.unwrap_or_default()
        );
        Look::of(("warn", "Waiting"), &queue.board, page(&queue.board), says)
    }));
    looks
}

impl OverviewPage {
    /// The figures on top: each with its name, the page that it leads to, and whether it is bad.
    fn tiles(&self) -> [(&'static str, String, &'static str, bool); 4] {
        let webhooks = &self.overview.webhooks;
        let failing = webhooks.failing.len() + webhooks.disabled.len();
        let dead = self.overview.dead_letters.total;
        let oldest = self.overview.queues.waiting_since;
        let oldest = oldest.map(|since| self.frame.clock.distance(&since));
        let names = super::shown::grouped(&self.overview.pending_names);
        let may = |scope, page| if self.frame.may(scope) { page } else { "" };
        let queues = may(Scope::Configure, "queues");
        let of_webhooks = may(Scope::Configure, "webhooks");
        let of_names = may(Scope::Moderate, "names");
        [
            (
                "Failing webhooks",
                failing.to_string(),
                of_webhooks,
                failing > 0,
            ),
            (
                "Dead letters",
                super::shown::grouped(&dead),
                queues,
                dead > 0,
            ),
            (
                "Oldest waiting event",
                oldest.unwrap_or_else(|| "None".to_owned()),
                queues,
                false,
            ),
            ("Names to review", names, of_names, false),
        ]
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
