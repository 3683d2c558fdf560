//! Tasks: moderation of all boards, and its progress. Over HTTP they are jobs: `/v1/jobs`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::texts::words;
use crate::domain::time::{Span, Timestamp};

/// How long a finished task is kept at least.
pub const KEPT: Span = Span::days(7);
/// How many failed boards a task lists at most.
pub const FAILED_MAX: usize = 1_000;

/// What is done on each board.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Hide(MemberId, Hide),
    /// Bring a member back.
    Unhide(MemberId),
    /// Remove the remaining data of a member that was erased under this number.
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
    /// It has boards left.
    Running,
    /// It has finished.
    Done,
}

/// Why a task failed on a board.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskFailure {
    /// The board has the maximum number of hidden members.
    Full,
    /// The stored definition can't be read.
    Unreadable,
    /// A fault of stored data or of the program; see the log.
    Fault,
}

/// A board on which a task failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FailedOn {
    pub board: BoardId,
    pub failure: TaskFailure,
    /// The reason, for people.
    pub detail: String,
}

/// The remaining work of a task.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLeft {
    /// The action on each board. It names a member, so it is deleted when the task is finished.
    pub action: Action,
    /// The last board that it handled, in the order of their ids; `None` before the first.
    pub after: Option<BoardId>,
}

/// An action on all boards, one after the other.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// The pseudonym of the member in the audit log, which an erasure deletes; `None` if the task is part of an erasure.
    #[serde(default)]
    pub pseudonym: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// How many boards there were when it began.
    pub total: u64,
    /// How many boards it has processed.
    pub done: u64,
    /// The first boards on which it failed.
    pub failed: Vec<FailedOn>,
    /// The remaining work; `None` once it is finished.
    pub left: Option<TaskLeft>,
}

impl Action {
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Hide(..) => TaskKind::Hide,
            Self::Unhide(_) => TaskKind::Unhide,
            Self::Forget(..) => TaskKind::Erase,
        }
    }
}

impl Task {
    /// A task that has not handled any board.
    pub fn new(action: Action, now: Timestamp, total: u64) -> Self {
        Self {
            kind: action.kind(),
            pseudonym: None,
            created_at: now,
            finished_at: None,
            total,
            done: 0,
            failed: Vec::new(),
            left: Some(TaskLeft {
                action,
                after: None,
            }),
        }
    }

    pub fn status(&self) -> TaskStatus {
        match self.finished_at {
            Some(_) => TaskStatus::Done,
            None => TaskStatus::Running,
        }
    }

    /// Records that it handled the next boards, in the order of their ids, and on which of them it failed.
    pub fn advance(&mut self, boards: &[BoardId], failed: Vec<FailedOn>) {
        let (Some(left), Some(last)) = (&mut self.left, boards.last()) else {
            return;
        };
        left.after = Some(last.clone());
        self.done += boards.len() as u64;
        self.add_failed(failed);
    }

    /// Records boards on which it failed, as long as there is room.
    pub fn add_failed(&mut self, failed: Vec<FailedOn>) {
        for new in failed {
            let is_known = self.failed.iter().any(|known| known.board == new.board);
            if !is_known && self.failed.len() < FAILED_MAX {
                self.failed.push(new);
            }
        }
    }

    pub fn finish(&mut self, now: Timestamp) {
        self.left = None;
        self.finished_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_task_names_no_member() {
        let now = Timestamp::from_ms_clamped(7);
        let member = MemberId::parse("ann").unwrap();
        let mut task = Task::new(Action::Unhide(member), now, 2);
        let boards = ["a", "b"].map(|id| BoardId::parse(id).unwrap());
        let failed: Vec<_> = (0..=FAILED_MAX)
            .map(|number| FailedOn {
                board: BoardId::parse(&format!("b{number}")).unwrap(),
                failure: TaskFailure::Fault,
                detail: "a fault".to_owned(),
            })
            .collect();
        task.add_failed(failed[..1].to_vec());
        task.advance(&boards, failed);
        task.advance(&[], Vec::new());
        assert_eq!((task.done, task.failed.len()), (2, FAILED_MAX));
        let stored = serde_json::to_string(&task).unwrap();
        assert!(stored.contains(r#""left":{"action":{"unhide":"ann"},"after":"b"}"#));
        assert_eq!(serde_json::from_str::<Task>(&stored).unwrap(), task);
        task.finish(now);
        assert!(!serde_json::to_string(&task).unwrap().contains("ann"));
    }
}
