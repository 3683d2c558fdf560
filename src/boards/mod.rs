//! Definitions: creating, changing, listing and deleting boards; previews of changes; initial scores.
//!
//! A request has a whole definition or a patch (`draft.rs`); `Definition::check` (`domain/board.rs`) checks fields against
//! each other; `preview.rs` describes what a change would do; `core/board/` stores and announces it. Once the board has
//! events, changes that would alter stored data are refused (`frozen_changes`). A `PUT` without `windows` keeps
//! them. `shards` counts when a board is created; afterwards only `moves/` changes where data is.

pub mod draft;
pub mod initial;
pub mod preview;
pub mod routes;
pub mod templates;
pub mod work;
