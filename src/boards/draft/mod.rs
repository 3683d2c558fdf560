//! What a request says of a board's definition, and the definition that follows from it.

pub mod model;
