//! The interface as a whole: the table of routes, and the `OpenAPI` document that follows from it.
//!
//! `table.rs` has a row for each route, with its access; no route exists without a row. `document.rs` makes the document
//! from the table, `document/values.rs` describes the domain's values, `document/schemas.rs` gives the schemas of requests
//! and responses their forms. `docs.rs` serves both from the binary. The example responses are those of a session that a
//! test plays (`openapi/examples.json`).

pub(crate) mod docs;
pub mod document;
pub mod router;
pub mod table;
