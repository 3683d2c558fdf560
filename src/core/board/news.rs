//! What an instance knows of changes: of boards, or of API keys.

use std::collections::BTreeMap;

use super::store::boards::News;

/// How far an instance has read the announcements of a kind of thing.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The history of data that each server was at.
    histories: BTreeMap<String, String>,
    epoch: Option<String>,
    /// The last change.
    pub(crate) sequence: u64,
}

impl Heard {
    /// Updates where the servers are; returns whether one of them may have gone back to older data, or to none.
    pub(crate) fn has_gone_back(
        &mut self,
        histories: BTreeMap<String, String>,
        news: &News,
    ) -> bool {
        let is_same = |(server, history)| self.histories.get(server) == Some(history);
        let is_known = histories.iter().all(is_same)
            && self.epoch.as_ref() == Some(&news.epoch)
            && self.sequence <= news.sequence;
        self.histories.extend(histories);
        self.epoch = Some(news.epoch.clone());
        self.sequence = news.sequence;
        !is_known
    }
}
