//! Finds members by the words of their names, for moderators.
//!
//! Each bucket of profiles has an index of words next to it, in its slot (`scripts/lib/name_words.lua`). Whether a bucket has
//! one is stored with it, so every instance keeps an index that exists, whatever its own setting: `profiles.lua` writes
//! profiles and their words in one step. The setting decides whether the job fills the index or removes it, and whether the
//! route answers.
//!
//! The job writes each stored profile again, unchanged, so that `profiles.lua` adds its words, unless the profile has changed
//! since it was read: then the other write has added them. A bucket is marked as filled only if its index has not been removed
//! meanwhile.
//!
//! The index only proposes members. What is found is read from the profiles, and compared with their whole names.

pub mod job;
pub mod routes;
mod store;
pub mod work;

use crate::core::Engine;

/// Whether members can be found by their names.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameSearch {
    pub is_on: bool,
}

/// This instance's setting.
fn is_on(engine: &Engine) -> bool {
    engine.states.get::<NameSearch>().is_on
}
