//! Hides a member on many boards, or brings it back, and tells how far that has come on all boards.

use std::time::Instant;

use futures::stream::{self, StreamExt};

use super::{Error, Service};
use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::task::{Action, Task, TaskStatus};
use crate::engine::hides::Hiding;
use crate::problems::Problem;
use crate::store::orders::{Order, Whom};
use crate::store::tasks::{BegunTask, OrderChange};

/// How many boards are changed side by side.
const BOARDS_AT_ONCE: usize = 16;

/// What has become of a member of a board.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moderated {
    /// Its hide before; `None` if it was not hidden.
    pub before: Option<Hide>,
    /// Its hide now; `None` if it is not hidden any more.
    pub hide: Option<Hide>,
}

impl Service {
    /// Hides a member on some boards, or brings it back. Tells for each board what has become of that. When this returns, it
    /// holds for every read that begins later, by any instance.
    pub async fn moderate(
        &self,
        boards: &[BoardId],
        action: &Action,
    ) -> Result<Vec<Result<Moderated, Error>>, Error> {
        let moderated = boards.iter().map(|board| self.moderate_one(board, action));
        let moderated: Vec<_> = moderated.collect();
        let results = stream::iter(moderated)
            .buffered(BOARDS_AT_ONCE)
            .collect()
            .await;
        self.engine.wait_for_replicas(Instant::now()).await?;
        Ok(results)
    }

    async fn moderate_one(&self, board: &BoardId, action: &Action) -> Result<Moderated, Error> {
        match action {
            Action::Hide(member, hide) => {
                let Hiding { hide, before } = self.engine.hide(board, member, hide).await?;
                let hide = Some(hide);
                Ok(Moderated { before, hide })
            }
            Action::Unhide(member) => {
                let before = self.engine.unhide(board, member, None).await?;
                let hide = None;
                match before {
                    Some(_) => Ok(Moderated { before, hide }),
                    None => Err(Problem::not_hidden(board, member.as_str()).into()),
                }
            }
            Action::Forget(member, number) => {
                self.engine.end_erasure(board, member, *number).await?;
                let (before, hide) = (None, None);
                Ok(Moderated { before, hide })
            }
        }
    }

    /// Hides a member on all boards, also on those that are created later, or brings it back on all boards. That is done in
    /// the background.
    pub async fn moderate_all(&self, action: Action) -> Result<BegunTask, Error> {
        let ordered = action.clone();
        let change = match &ordered {
            Action::Hide(member, hide) => OrderChange::Give(member, hide),
            Action::Unhide(member) => OrderChange::End(member),
            Action::Forget(..) => OrderChange::None,
        };
        self.engine.begin_task(action, change).await
    }

    /// The task with this number: what it does, and how far it has come.
    pub async fn task(&self, number: u64) -> Result<Task, Error> {
        let stored = self.engine.store.load_task(number).await?;
        let stored = stored.ok_or_else(|| Problem::job_not_found(&number.to_string()))?;
        Ok(stored.read()?)
    }

    /// Lists tasks with their numbers: up to `count` of them, behind `after`. Those under way come in the order in which they were begun; of those at
    /// their end, the one first that ended last. One that a newer release has begun, and that can't be read, is left out.
    pub async fn tasks(
        &self,
        status: TaskStatus,
        after: Option<u64>,
        count: usize,
    ) -> Result<Part<(u64, Task), u64>, Error> {
        let stored = self.engine.store.tasks(status, after, count + 1).await?;
        let stored = Part::split(stored, count, |last| last.number);
        let tasks = stored.items.iter();
        let tasks = tasks.filter_map(|stored| Some((stored.number, stored.read().ok()?)));
        Ok(Part {
            items: tasks.collect(),
            next: stored.next,
        })
    }

    /// Lists standing orders, members and how they are hidden, in the order of the bytes of the members: up to `count` of them, behind
    /// `after`. Those for members who were erased are not told.
    pub async fn orders(
        &self,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<Part<(MemberId, Hide), MemberId>, Error> {
        let members = self.engine.store.order_members(after, count + 1).await?;
        let members = Part::split(members, count, MemberId::clone);
        let orders = self
            .engine
            .store
            .orders_of(&members.items)
            .await?
            .into_iter();
        let orders = orders.filter_map(|Order { whom, hide, .. }| match whom {
            Whom::Member(member) => Some((member, hide)),
            Whom::Erased(_) => None,
        });
        Ok(Part {
            items: orders.collect(),
            next: members.next,
        })
    }
}
