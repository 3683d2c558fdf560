//! Checks the list of all boards against the definitions, and reports definitions that are lost.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, LOOK_AGAIN_AFTER, Place, RepairOutcome, store};
use crate::core::board::store::boards;
use crate::domain::ids::BoardId;
use crate::redis::{StoreError, keys};

/// An entry of the list of boards, and the definition.
#[derive(Debug, Eq, PartialEq)]
struct Listed {
    is_defined: bool,
    version: Option<String>,
    is_in_list: bool,
    /// Whether there is proof that a board of this name was deleted, and nothing else is left.
    is_deleted: bool,
}

impl Check<'_> {
    /// Compares the list of all boards with the definitions. Both change in two steps, so suspects are checked again.
    /// `undefined`: how many keys of boards without a definition there are for which nothing proves that their board was deleted.
    pub(super) async fn check_list(
        &mut self,
        ids: &BTreeSet<BoardId>,
        undefined: &BTreeMap<BoardId, u64>,
    ) -> Result<(), StoreError> {
        let mut seemed = Vec::new();
        for id in ids {
            let has_data = undefined.contains_key(id);
            if let Some(wrong) = self.wrong_in_list(id, has_data).await? {
                seemed.push((id, has_data, wrong));
            }
        }
        if seemed.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        for (id, has_data, wrong) in seemed {
            let before = store::last_changes(self.store, &[id]).await?;
            if self.wrong_in_list(id, has_data).await?.as_ref() != Some(&wrong) {
                continue;
            }
            if before == [None] || before != store::last_changes(self.store, &[id]).await? {
                self.note_changing(id);
            } else if !wrong.is_defined && !wrong.is_deleted {
                let left = undefined.get(id).copied().unwrap_or_default();
                self.report_lost(id, left);
            } else {
                self.repair_list(id, &wrong).await?;
            }
        }
        Ok(())
    }

    pub(super) fn note_changing(&mut self, id: &BoardId) {
        self.report.note(format!(
            "board {id} is being created, changed or deleted: its keys were not compared with the list of boards"
        ));
    }

    fn report_lost(&mut self, id: &BoardId, left: u64) {
        let detail = format!(
            "its definition is missing, and there is no record of a deletion, so its data ({left} keys) is kept. Restore {} \
             from a backup; or, if the board is not needed, create it again and delete it",
            keys::head(id.as_str())
        );
        self.report
            .add(&Place::of_board(id), "lost", RepairOutcome::Left, detail);
    }

    async fn repair_list(&mut self, id: &BoardId, wrong: &Listed) -> Result<(), StoreError> {
        let outcome = match (wrong.is_defined, &wrong.version) {
            (true, Some(_)) => self.repair.writing(),
            (true, None) => RepairOutcome::Left,
            (false, _) => self.repair.removing(),
        };
        if outcome == RepairOutcome::Repaired {
            boards::announce(self.store, id, None).await?;
        }
        let detail = match (wrong.is_defined, wrong.is_in_list) {
            (false, _) => "it is in the list of boards, but was deleted",
            (true, false) => "it is defined, but missing from the list of boards",
            (true, true) => "it is in the wrong place in the list of boards",
        };
        self.report
            .add(&Place::of_board(id), "list", outcome, detail);
        Ok(())
    }

    /// What is wrong with a board in the list, if anything.
    async fn wrong_in_list(
        &self,
        id: &BoardId,
        has_data: bool,
    ) -> Result<Option<Listed>, StoreError> {
        let score = store::live_score(self.store, id).await?;
        let head = self.head(id.as_str()).await?;
        if !head.is_sound() {
            return Ok(None);
        }
        let is_defined = head.definition.is_some();
        let is_left = head.has_board || has_data;
        let is_right = if is_defined {
            score.is_some_and(|score| score.abs() < f64::EPSILON)
        } else {
            score.is_none() && !is_left
        };
        Ok((!is_right).then_some(Listed {
            is_defined,
            version: head.version,
            is_in_list: score.is_some(),
            is_deleted: head.deleted.is_some() && !is_left,
        }))
    }
}
