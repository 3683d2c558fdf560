//! A definition or patch as a request has it, and the definition that follows from it.

pub mod model;
