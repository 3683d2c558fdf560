//! Script calls for hides, hidden lists and erasures.

pub mod erasures;
pub mod hidden;
pub mod hide_ends;
