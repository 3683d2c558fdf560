//! Describes to an operator what a change of a definition would do.

pub mod model;
