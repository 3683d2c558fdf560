//! The interface as a whole: the table of routes, and the `OpenAPI` document that follows from it.
//!
//! `table.rs` has a row for each route, with its access; there is no route without it. `document.rs` makes the document of the
//! table, `document/values.rs` describes the domain's values, `document/schemas.rs` gives the schemas of requests and answers
//! their forms. `docs.rs` serves both from the binary. The examples of answers are those of a session that a test plays
//! (`openapi/examples.json`).

pub(crate) mod docs;
pub mod document;
pub mod router;
pub mod table;
