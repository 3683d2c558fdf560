//! Tasks: what somebody has ordered for all boards, and how far it has come. Over HTTP they are jobs: `/v1/jobs`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::texts::words;
use crate::domain::time::{Span, Timestamp};

/// For how long a task is kept at least when it is at its end.
pub const KEPT: Span = Span::days(7);
/// The most boards that a task names because it has failed there.
pub const FAILED_MAX: usize = 1_000;

/// What is done on each board.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Hide a member.
    Hide(MemberId, Hide),
    /// Bring a member back.
    Unhide(MemberId),
    /// Remove what a member has left who was erased under this number.
    Forget(MemberId, u64),
}

words! {
    /// What a job does.
    #[derive(ToSchema)]
    pub enum TaskKind {
        /// It hides a member.
        Hide = "hide",
        /// It brings a member back.
        Unhide = "unhide",
        /// It removes what an erased member has left.
        Erase = "erase",
    }
}

/// Its status.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// It is under way.
    Running,
    /// It is at its end.
    Done,
}

/// Why a task has failed at a board.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// As many members are hidden there as may be.
    Full,
    /// The stored definition can't be read.
    Unreadable,
    /// A fault of the stored data or of the program: the log has it.
    Fault,
}

/// A board at which a task has failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// The board.
    pub board: BoardId,
    /// Why.
    pub failure: Failure,
    /// The same for people.
    pub detail: String,
}

/// What is left of a task.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// What is done on each board. It names a member, so nothing of it is kept at the end.
    pub action: Action,
    /// The board that it has come to, in the order of their ids; `None` before the first.
    pub after: Option<BoardId>,
}

/// Something that is done on all boards, one after the other.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// When it was ordered.
    pub created_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// How many boards there were when it began.
    pub total: u64,
    /// How many boards it has processed.
    pub done: u64,
    /// The first of the boards at which it has failed.
    pub failed: Vec<Failed>,
    /// What is left of it; `None` at its end.
    pub left: Option<Left>,
}

impl Action {
    /// What kind of task has it.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Hide(..) => TaskKind::Hide,
            Self::Unhide(_) => TaskKind::Unhide,
            Self::Forget(..) => TaskKind::Erase,
        }
    }
}

impl Task {
    /// A task that is at its beginning.
    pub fn new(action: Action, now: Timestamp, total: u64) -> Self {
        Self {
            kind: action.kind(),
            created_at: now,
            finished_at: None,
            total,
            done: 0,
            failed: Vec::new(),
            left: Some(Left {
                action,
                after: None,
            }),
        }
    }

    /// Its status.
    pub fn status(&self) -> TaskStatus {
        match self.finished_at {
            Some(_) => TaskStatus::Done,
            None => TaskStatus::Running,
        }
    }

    /// Notes that it has come to the next boards, in the order of their ids, and at which of them it has failed.
    pub fn advance(&mut self, boards: &[BoardId], failed: Vec<Failed>) {
        let (Some(left), Some(last)) = (&mut self.left, boards.last()) else {
            return;
        };
        left.after = Some(last.clone());
        self.done += boards.len() as u64;
        let room = FAILED_MAX.saturating_sub(self.failed.len());
        self.failed.extend(failed.into_iter().take(room));
    }

    /// Notes that it is at its end.
    pub fn finish(&mut self, now: Timestamp) {
        self.left = None;
        self.finished_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_has_ended_names_no_member() {
        let now = Timestamp::from_ms_clamped(7);
        let member = MemberId::parse("ann").unwrap();
        let mut task = Task::new(Action::Unhide(member), now, 2);
        let boards = ["a", "b"].map(|id| BoardId::parse(id).unwrap());
        let failed = Failed {
            board: boards[1].clone(),
            failure: Failure::Fault,
            detail: "a fault".to_owned(),
        };
        task.advance(&boards, vec![failed; FAILED_MAX + 1]);
        task.advance(&[], Vec::new());
        assert_eq!((task.done, task.failed.len()), (2, FAILED_MAX));
        let stored = serde_json::to_string(&task).unwrap();
        assert!(stored.contains(r#""left":{"action":{"unhide":"ann"},"after":"b"}"#));
        assert_eq!(serde_json::from_str::<Task>(&stored).unwrap(), task);
        task.finish(now);
        assert!(!serde_json::to_string(&task).unwrap().contains("ann"));
    }
}
