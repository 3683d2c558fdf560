//! What an instance tells of itself, for people who look after the service.

use serde::{Deserialize, Serialize};

use super::time::{Span, Timestamp};

/// For how long an instance is remembered that is not heard of any more.
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

/// An instance, as it was when it was last heard of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Instance {
    /// The version of the program.
    pub version: String,
    /// The name of its machine, or container, if that can be told.
    pub host: Option<String>,
    /// What it does.
    pub part: Part,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// How many faults its background work has.
    pub fault_count: usize,
}

impl Instance {
    /// Whether it is still remembered then.
    pub fn is_remembered(&self, now: Timestamp) -> bool {
        self.seen_at.saturating_add(REMEMBERED) > now
    }
}
