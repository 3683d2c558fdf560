//! The overview: what needs a look, which periods close next, and how many events boards had in the last hour. The counts
//! in the side bar come from the same sample.

use std::fmt::Write;
use std::sync::Arc;

use askama::Template;

use super::shown::{counted, sentence};
use super::{Answer, Frame, Viewer, Visitor, address, html, to};
use crate::domain::access::Scope;
use crate::domain::time::Timestamp;
use crate::http::problem::Problem;
use crate::operations::health::{FaultBody, Ready};
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
    /// The name of what it is about, and the address of its page; empty without one.
    what: String,
    address: String,
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
    let looks = Looker {
        configures: viewer.may(Scope::Configure),
        frame: &frame,
        overview: &overview,
        looks: Vec::new(),
    };
    let looks = looks.all(&viewer.ready().await);
    html(&OverviewPage {
        frame,
        overview,
        looks,
    })
}

/// Collects what needs a look, the worst first.
struct Looker<'a> {
    /// Whether the viewer may follow links to webhooks and queues.
    configures: bool,
    frame: &'a Frame,
    overview: &'a Overview,
    looks: Vec<Look>,
}

impl Looker<'_> {
    fn all(mut self, ready: &Result<Ready, Problem>) -> Vec<Look> {
        self.of_service(ready);
        self.of_webhooks();
        self.of_queues();
        let names = self.overview.pending_names;
        if names > 0 && self.frame.may(Scope::Moderate) {
            let says = format!("{} to review.", counted(names, "name"));
            self.add(("", "Review"), ("Name review", &["names"]), says);
        }
        self.looks
    }

    fn add(
        &mut self,
        (class, state): (&'static str, &'static str),
        (what, page): (&str, &[&str]),
        says: String,
    ) {
        let is_linked = self.configures || page.first() == Some(&"names");
        let page = Some(page).filter(|page| is_linked && !page.is_empty());
        self.looks.push(Look {
            class,
            state,
            what: what.to_owned(),
            address: page.map_or_else(String::new, |page| {
                address(&[&["console"], page].concat(), &[])
            }),
            says,
        });
    }

    /// The warnings and faults of the sample, and those of this instance.
    fn of_service(&mut self, ready: &Result<Ready, Problem>) {
        let (mut warnings, mut faults) = (self.overview.warnings.clone(), Vec::new());
        faults.extend(&self.overview.faults);
        match ready {
            Ok(ready) => {
                warnings.extend(ready.warnings.iter().cloned());
                faults.extend(&ready.faults);
            }
            Err(problem) => {
                let says = sentence(&problem.detail);
                self.add(("harm", "Not ready"), ("Service", &["service"]), says);
            }
        }
        // Counts in a warning change from one instance to the next.
        let words = |warning: &String| warning.replace(|letter: char| letter.is_ascii_digit(), "");
        warnings.sort_by_key(words);
        warnings.dedup_by_key(|warning| words(warning));
        for warning in &warnings {
            self.add(("warn", "Warning"), ("", &[]), sentence(warning));
        }
        faults.sort_by_key(|fault: &&FaultBody| (&fault.board, &fault.job));
        faults.dedup_by_key(|fault| (&fault.board, &fault.job));
        for fault in faults {
            let since = self.frame.clock.distance(&fault.since);
            let says = format!("`{}` has failed for {since}: {}", fault.job, fault.error);
            match fault.board.as_str() {
                "*" => self.add(("harm", "Fault"), ("Background work", &["service"]), says),
                board => self.add(("harm", "Fault"), (board, &["boards", board]), says),
            }
        }
    }

    fn of_webhooks(&mut self) {
        let webhooks = &self.overview.webhooks;
        for (names, state, says) in [
            (
                &webhooks.disabled,
                "Disabled",
                "gets no messages until it is enabled.",
            ),
            (
                &webhooks.failing,
                "Failing",
                "refuses messages, which are sent again.",
            ),
        ] {
            for name in names {
                let what = format!("Webhook {name}");
                self.add(
                    ("harm", state),
                    (&what, &["webhooks", name]),
                    says.to_owned(),
                );
            }
        }
        if webhooks.failed_deliveries > 0 {
            let messages = counted(webhooks.failed_deliveries, "message");
            let says = format!("could not deliver {messages} within a day.");
            self.add(("harm", "Undelivered"), ("Webhooks", &["webhooks"]), says);
        }
    }

    fn of_queues(&mut self) {
        let letters = &self.overview.dead_letters;
        let mut left = letters.total;
        for board in &letters.boards {
            left -= board.count.min(left);
            let says = format!("{} could not be applied.", counted(board.count, "event"));
            let page = ["boards", &board.board, "queue"];
            self.add(("harm", "Dead letters"), (&board.board, &page), says);
        }
        if left > 0 {
            let says = format!(
                "{} of other boards could not be applied.",
                counted(left, "event")
            );
            self.add(("harm", "Dead letters"), ("Queues", &["queues"]), says);
        }
        for queue in self.overview.late() {
            let (events, clock) = (counted(queue.events, "event"), self.frame.clock);
            let since = queue.waiting_since.map(|since| clock.distance(&since));
            let says = format!(
                "{events} wait, the oldest for {}.",
                since.unwrap_or_default()
            );
            let page = ["boards", &queue.board, "queue"];
            self.add(("warn", "Waiting"), (&queue.board, &page), says);
        }
    }
}

impl OverviewPage {
    /// The figures on top: each with its name, the page that it leads to, and whether it is bad.
    fn tiles(&self) -> [(&'static str, String, &'static str, bool); 4] {
        let Overview {
            webhooks,
            dead_letters,
            queues,
            pending_names,
            ..
        } = &*self.overview;
        let failing = (webhooks.failing.len() + webhooks.disabled.len()) as u64;
        let oldest = queues.waiting_since.as_ref();
        let oldest = oldest.map_or_else(
            || "None".to_owned(),
            |at: &Timestamp| self.frame.clock.distance(at),
        );
        let number = |count: &u64| super::shown::grouped(count);
        let mut tiles = [
            (
                "Failing webhooks",
                number(&failing),
                "webhooks",
                failing > 0,
            ),
            (
                "Dead letters",
                number(&dead_letters.total),
                "queues",
                dead_letters.total > 0,
            ),
            ("Oldest waiting event", oldest, "queues", false),
            ("Names to review", number(pending_names), "names", false),
        ];
        for (.., page, _) in &mut tiles {
            let scope = if *page == "names" {
                Scope::Moderate
            } else {
                Scope::Configure
            };
            if !self.frame.may(scope) {
                *page = "";
            }
        }
        tiles
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
