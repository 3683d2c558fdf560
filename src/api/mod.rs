//! The interface as a whole: the table of routes, and the OpenAPI document that follows from it.
//!
//! `table.rs` has a row for each route, with its access; no route exists without a row. `router.rs` makes the service of them.
//! `values.rs` describes the domain's values. The document is `openapi/openapi.json`: `tests/it/openapi/document.rs` makes it
//! from the table, with example responses of a session that a test plays (`openapi/examples.json`). `docs.rs` serves it from
//! the binary.

pub(crate) mod docs;
pub mod router;
pub mod table;
pub mod values;
