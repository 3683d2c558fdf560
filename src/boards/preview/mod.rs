//! What a change of a definition would do, for an operator who wants to know before.

pub mod model;
