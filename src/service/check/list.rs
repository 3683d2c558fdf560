//! The list of boards beside what is defined.

use std::collections::BTreeSet;

use super::{Check, LOOK_AGAIN_AFTER, Place};
use crate::domain::ids::BoardId;
use crate::store::StoreError;

impl Check<'_> {
    /// The list of all boards beside what is defined. Both change in two steps, so what seems wrong is looked at again.
    pub(super) async fn check_list(&mut self, ids: &BTreeSet<BoardId>) -> Result<(), StoreError> {
        let mut seemed = Vec::new();
        for id in ids {
            if let Some(wrong) = self.wrong_in_list(id).await? {
                seemed.push((id, wrong));
            }
        }
        if seemed.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        for (id, wrong) in seemed {
            if self.wrong_in_list(id).await?.as_ref() != Some(&wrong) {
                continue;
            }
            if self.mends {
                let store = self.store;
                let was_defined = wrong.version.is_some();
                store.announce_board(id, was_defined, None).await?;
                // Nobody else may have defined or deleted it meanwhile.
                let head = store.load_head(id.as_str()).await?;
                let is_defined = head.definition.is_some();
                if is_defined != was_defined {
                    store.announce_board(id, is_defined, None).await?;
                }
            }
            let detail = match (&wrong.version, wrong.is_listed) {
                (None, _) => "it is in the list of boards, and not defined",
                (Some(_), false) => "it is defined, and not in the list of boards",
                (Some(_), true) => "it is not in its place in the list of boards",
            };
            self.report
                .tell(Place::of_board(id), "list", self.mends, detail);
        }
        Ok(())
    }

    /// What is wrong with a board in the list, if anything is.
    async fn wrong_in_list(&self, id: &BoardId) -> Result<Option<Listed>, StoreError> {
        let score = self.store.live_score(id).await?;
        let head = self.store.load_head(id.as_str()).await?;
        if !matches!(head.found.as_str(), "none" | "hash") {
            return Ok(None);
        }
        let is_defined = head.definition.is_some();
        let is_right = match score {
            Some(score) => is_defined && score.abs() < f64::EPSILON,
            None => !is_defined,
        };
        Ok((!is_right).then_some(Listed {
            version: head.version.filter(|_| is_defined),
            is_listed: score.is_some(),
        }))
    }
}

/// What is in the list of boards, and what is defined.
#[derive(Debug, Eq, PartialEq)]
struct Listed {
    /// The version of the definition.
    version: Option<String>,
    is_listed: bool,
}
