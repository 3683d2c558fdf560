//! The jobs of the background work, which tests run when they want to.

use std::time::Duration;

pub use standings::core::board::announcements::Announcements;
pub use standings::core::board::purge::Purge;
pub use standings::core::board::registries::Registries;
pub use standings::core::board::sweep::Sweep;
pub use standings::core::hide::erasures::Erasures;
pub use standings::core::hide::hidden::HiddenLists;
pub use standings::core::read::rollover::Rollover;
use standings::core::write::left_behind::LeftBehind;
pub use standings::corrections::revocations::job::Revocations;
pub use standings::history::job::Histories;
pub use standings::moderation::ended_hides::EndedHides;
pub use standings::moderation::tasks::job::Tasks;
pub use standings::moves::job::Moves;
pub use standings::periods::closings::work::ClosePeriods;
pub use standings::periods::revisions::job::Revisions;
pub use standings::queue::applying::ApplyQueues;
pub use standings::queue::listing::ListQueues;
pub use standings::webhooks::outbox::job::Outboxes;

/// Settles all reservations that are open, however young.
pub const SETTLE_ALL: LeftBehind = LeftBehind {
    older_than: Duration::ZERO,
    interval: Duration::ZERO,
};
