//! The mirror of a standing of a shard.

use std::time::Instant;

use super::ranked::Ranked;
use super::trail::State;
use crate::core::read::store::standings::SortKey;
use crate::domain::series::Standing;
use crate::domain::ties::TIE_KEY_BYTES;

/// A copy of a standing, or of its beginning while it is filled.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) standing: Standing,
    /// The id under which the standing is named for the trail.
    pub(super) id: u64,
    pub(super) list: Ranked,
    /// The last entry that it has while it is filled; `None` once it has all.
    pub(super) filled_to: Option<SortKey>,
    /// When it was last read.
    pub(super) used_at: Instant,
    is_prefixed: bool,
}

impl Mirror {
    pub(super) fn new(standing: Standing, id: u64, is_prefixed: bool) -> Self {
        Self {
            standing,
            id,
            list: Ranked::new(is_prefixed),
            filled_to: Some(SortKey::FIRST),
            used_at: Instant::now(),
            is_prefixed,
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.filled_to.is_none()
    }

    /// Whether it has anything to follow.
    pub(super) fn has_begun(&self) -> bool {
        self.filled_to.as_ref() != Some(&SortKey::FIRST)
    }

    /// Follows what a call has written. What comes after the last entry so far is read later.
    pub(super) fn follow(&mut self, state: &State) {
        if state.was_empty {
            self.list = Ranked::new(self.is_prefixed);
        }
        for (score, member) in &state.written.0 {
            let is_later = self
                .filled_to
                .as_ref()
                .is_some_and(|mark| (*score, &member[..]) > (mark.score, &mark.member[..]));
            if is_later {
                self.list.remove(self.id_of(member));
            } else {
                self.list.put(*score, member);
            }
        }
        for gone in &state.gone {
            self.list.remove(&gone.0);
        }
    }

    fn id_of<'a>(&self, member: &'a [u8]) -> &'a [u8] {
        let from = if self.is_prefixed { TIE_KEY_BYTES } else { 0 };
        member.get(from..).unwrap_or_default()
    }

    /// Adds the next entries. `is_last`: there are no more.
    pub(super) fn fill(&mut self, entries: &[SortKey], is_last: bool) {
        for SortKey { score, member } in entries {
            self.list.put(*score, member);
        }
        if is_last {
            self.filled_to = None;
        } else if let Some(last) = entries.last() {
            self.filled_to = Some(last.clone());
        }
    }
}
