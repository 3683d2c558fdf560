//! The machinery between the use cases and the store: it knows no board, no event and no HTTP.

pub mod batcher;
