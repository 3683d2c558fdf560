//! Definitions: creating, changing, listing and deleting boards; what a change would do; initial scores.
//!
//! A request says the whole definition or a patch (`draft.rs`); `Definition::check` (`domain/board.rs`) finds what is wrong
//! between fields; `preview.rs` says what the change would do; `core/board/` stores and announces it. What would alter stored
//! data is refused once the board has events (`frozen_changes`). `shards` counts when a board is created; afterwards only
//! `moves/` changes where data is.

pub mod draft;
pub mod initial;
pub mod preview;
pub mod routes;
pub mod work;
