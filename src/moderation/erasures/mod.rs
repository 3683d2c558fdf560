//! Erasures in a file, to carry them out again after an older backup was restored (`standings erasures`).
//!
//! The file (`file.rs`) has what Redis keeps of erasures: keyed hashes of the members' ids, and their key, but no ids. So whoever
//! applies it looks at all ids that the restored data has, and computes the hash of each (`walk.rs`).
//!
//! - **An erasure is carried out again under its number and its instant**, by the function that `DELETE` calls. So a board that
//!   knows the erasure, or a later one of the member, does nothing: what the member got since then stays. And events from after
//!   the erasure count, also those that come from a log again.
//! - **What is not found is stored as erased** once the search has ended, so that older events of these members are refused, and
//!   the next application has nothing to do. If an application is interrupted, the next one searches again.
//! - **A board takes only erasures that are later than its generation.** An older one was made on a former board of this name.

pub mod file;
mod store;
mod walk;
pub mod work;

pub(crate) use self::store::note_everywhere;
