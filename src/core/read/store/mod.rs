//! Script calls that read standings, and complete derived ones.

pub mod rollover;
pub mod standings;
