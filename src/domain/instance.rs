//! What an instance reports about itself to operators.

use serde::{Deserialize, Serialize};

use super::time::{Span, Timestamp};

/// How long an instance is remembered after its last report.
pub const REMEMBERED: Span = Span::minutes(10);

/// After how long without a report an instance counts as silent; instances report every ten seconds.
pub const SILENT_AFTER: Span = Span::minutes(1);

/// Which part of the work an instance does.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It answers requests, and does background work.
    #[default]
    Both,
    /// It answers requests, and does background work, but leaves queued events to others.
    WithoutQueues,
    /// It answers requests only.
    Serving,
    /// It does background work only.
    Working,
}

impl Part {
    /// Whether such an instance applies queued events.
    pub fn applies_queues(self) -> bool {
        matches!(self, Self::Both | Self::Working)
    }
}

/// An instance, as of its last report.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Instance {
    /// The version of the program.
    pub version: String,
    /// The name of its machine or container, if known.
    pub host: Option<String>,
    /// Its part of the work.
    pub part: Part,
    /// When it started.
    pub started_at: Timestamp,
    /// The time of its last report.
    pub seen_at: Timestamp,
    /// How many faults its background work has.
    pub fault_count: usize,
}

impl Instance {
    /// Whether it is still remembered at this time.
    pub fn is_remembered(&self, now: Timestamp) -> bool {
        self.seen_at.saturating_add(REMEMBERED) > now
    }

    /// Whether it has not reported for so long that it may have died.
    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.seen_at.saturating_add(SILENT_AFTER) < now
    }
}
