//! Hides a member on many boards, or brings it back, and tells how far that has come on all boards.

use std::time::Instant;

use futures::stream::{self, StreamExt};

use super::{Error, Service};
use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::task::{Action, Task};
use crate::store::orders::Order;
use crate::store::tasks::OrderChange;

/// How many boards are changed side by side.
const BOARDS_AT_ONCE: usize = 16;

/// Some of the standing orders.
#[derive(Clone, Debug)]
pub struct FoundOrders {
    /// The orders, in the order of the bytes of their members.
    pub orders: Vec<Order>,
    /// Behind whom the next part begins; `None`: this was the last.
    pub next: Option<MemberId>,
}

impl Service {
    /// Hides a member on some boards, or brings it back. Tells for each board what has become of that: the hide of a member
    /// that is hidden now. When this returns, it holds for every read that begins later, by any instance.
    pub async fn moderate(
        &self,
        boards: &[BoardId],
        action: &Action,
    ) -> Result<Vec<Result<Option<Hide>, Error>>, Error> {
        let moderated = boards.iter().map(|board| self.moderate_one(board, action));
        let moderated: Vec<_> = moderated.collect();
        let results = stream::iter(moderated)
            .buffered(BOARDS_AT_ONCE)
            .collect()
            .await;
        self.engine.wait_for_replicas(Instant::now()).await?;
        Ok(results)
    }

    async fn moderate_one(&self, board: &BoardId, action: &Action) -> Result<Option<Hide>, Error> {
        match action {
            Action::Hide(member, hide) => self.engine.hide(board, member, hide).await.map(Some),
            Action::Unhide(member) => {
                let (board, member) = (board.clone(), member.clone());
                let was_hidden = self.engine.unhide(&board, &member, None).await?;
                was_hidden
                    .then_some(None)
                    .ok_or(Error::NotHidden { board, member })
            }
            Action::Forget(member, number) => {
                let ended = self.engine.end_erasure(board, member, *number);
                ended.await.map(|()| None)
            }
        }
    }

    /// Hides a member on all boards, also on those that are created later, or brings it back on all boards. That is done in
    /// the background; this returns the number of the task.
    pub async fn moderate_all(&self, action: Action) -> Result<u64, Error> {
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
        let stored = stored.ok_or_else(|| Error::JobNotFound(number.to_string()))?;
        Ok(stored.read()?)
    }

    /// Lists standing orders: up to `count` of them, behind `after`.
    pub async fn orders(
        &self,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<FoundOrders, Error> {
        // One more than wanted tells whether there is a next part.
        let mut members = self.engine.store.order_members(after, count + 1).await?;
        let is_more = members.len() > count;
        members.truncate(count);
        Ok(FoundOrders {
            orders: self.engine.store.orders_of(&members).await?,
            next: members.pop().filter(|_| is_more),
        })
    }
}
