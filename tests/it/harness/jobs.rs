//! The jobs of the background work, which tests run when they want to.

use std::time::Duration;

pub use standings::engine::announcements::Announcements;
pub use standings::engine::closings::ClosePeriods;
pub use standings::engine::ended_hides::EndedHides;
pub use standings::engine::erasures::Erasures;
pub use standings::engine::hidden::HiddenLists;
use standings::engine::left_behind::LeftBehind;
pub use standings::engine::moves::Moves;
pub use standings::engine::outboxes::Outboxes;
pub use standings::engine::purge::Purge;
pub use standings::engine::queue::applying::ApplyQueues;
pub use standings::engine::queue::listing::ListQueues;
pub use standings::engine::revisions::Revisions;
pub use standings::engine::rollover::Rollover;
pub use standings::engine::sweep::Sweep;
pub use standings::engine::tasks::Tasks;

/// Settles all reservations that are open, however young.
pub const SETTLE_ALL: LeftBehind = LeftBehind {
    older_than: Duration::ZERO,
    interval: Duration::ZERO,
};
