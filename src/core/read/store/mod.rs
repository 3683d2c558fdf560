//! Script calls that read standings, complete derived ones, and count voters.

pub mod rollover;
pub mod standings;
pub mod voters;
