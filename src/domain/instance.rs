//! What an instance reports about itself to operators.

use serde::{Deserialize, Serialize};

use super::time::{Span, Timestamp};

/// How long an instance is remembered after its last report.
pub const REMEMBERED: Span = Span::minutes(10);

/// Which part of the work an instance does.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It answers requests, and does background work.
    #[default]
    Both,
    /// It answers requests only.
    Serving,
    /// It does background work only.
    Working,
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
}
