//! Stores tasks for all boards and their progress.

use serde::Deserialize;

use super::model::{Action, KEPT, Task, TaskStatus};
use crate::domain::hide::Hide;
use crate::domain::ids::MemberId;
use crate::domain::time::Timestamp;
use crate::moderation::orders;
use crate::moderation::orders::store::{ORDER_KEYS, parse};
use crate::redis::decode::{Coded, Flat};
use crate::redis::dispatch::Store;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// How many standing orders there may be.
pub const ORDERS_MAX: usize = 10_000;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BegunTask {
    pub number: u64,
    /// The hide of the member's former standing order.
    pub order_before: Option<Hide>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct StoredTask {
    pub number: u64,
    /// Its JSON. A newer release may have written it.
    json: String,
}

impl StoredTask {
    pub fn read(&self) -> Result<Task, StoreError> {
        read_json("a task", &self.json)
    }
}

/// Begins the task of an action. In the same step a hide becomes a standing order of the member, and an unhide ends that.
/// `None`, and no effect, if there are [`ORDERS_MAX`] standing orders already.
pub async fn begin(
    store: &Store,
    task: &Task,
    action: &Action,
) -> Result<Option<BegunTask>, StoreError> {
    let (member, hide) = match action {
        Action::Hide(member, hide) => (Some(member), Some(hide)),
        Action::Unhide(member) => (Some(member), None),
        Action::Forget(..) => (None, None),
    };
    let name = match member {
        Some(member) => orders::store::stored_name(store, member).await?,
        None => String::new(),
    };
    let Some((number, before)) = store
        .call(&script::BEGIN_TASK, keys::TASKS)
        .keys([keys::TASKS, keys::OPEN_TASKS, keys::TASK_NUMBER])
        .keys(ORDER_KEYS)
        .json(task)
        .arg(member.map(MemberId::as_str))
        .json_or_none(hide)
        .arg(hide.and_then(|hide| hide.until))
        .arg(ORDERS_MAX)
        .arg(&name)
        .write::<Coded<(u64, Option<String>)>>()
        .await?
        .after("OK", "FULL")?
    else {
        return Ok(None);
    };
    let before = before.map(|before| parse(&name, &before)).transpose()?;
    Ok(Some(BegunTask {
        number,
        order_before: before.map(|order| order.hide),
    }))
}

/// A task; `None` if there is none with this number, or it ended long ago.
pub async fn load(store: &Store, number: u64) -> Result<Option<StoredTask>, StoreError> {
    let field = [keys::TASKS, &number.to_string()];
    let json: Option<String> = store.command("HGET", field).await?;
    Ok(json.map(|json| StoredTask { number, json }))
}

/// Up to `count` tasks after one of them: running ones oldest first, or finished ones latest first.
pub async fn list(
    store: &Store,
    status: TaskStatus,
    after: Option<u64>,
    count: usize,
) -> Result<Vec<StoredTask>, StoreError> {
    let (list, has_ended) = match status {
        TaskStatus::Running => (keys::OPEN_TASKS, false),
        TaskStatus::Done => (keys::ENDED_TASKS, true),
    };
    let listed = store
        .call(&script::TASKS, keys::TASKS)
        .keys([keys::TASKS, list])
        .arg(has_ended)
        .arg(after)
        .arg(count);
    let Flat(tasks) = listed.read::<Flat<StoredTask>>().await?;
    Ok(tasks)
}

/// Up to `count` numbers of unfinished tasks, oldest first.
pub async fn open_numbers(store: &Store, count: usize) -> Result<Vec<u64>, StoreError> {
    let last = count.saturating_sub(1).to_string();
    let range = [keys::OPEN_TASKS, "0", &last];
    let numbers: Vec<String> = store.command("ZRANGE", range).await?;
    Ok(numbers.iter().flat_map(|number| number.parse()).collect())
}

/// Stores the new state of a task if the stored one is what the caller saw. Returns whether it was.
pub async fn note(
    store: &Store,
    seen: &StoredTask,
    task: &Task,
    now: Timestamp,
) -> Result<bool, StoreError> {
    store
        .call(&script::NOTE_TASK, keys::TASKS)
        .keys([keys::TASKS, keys::OPEN_TASKS, keys::ENDED_TASKS])
        .arg(seen.number)
        .arg(&seen.json)
        .json(task)
        .arg(task.finished_at)
        .arg(now.saturating_sub(KEPT))
        .write::<Coded>()
        .await?
        .is("OK", "CHANGED")
}

/// How many boards there are.
pub async fn board_count(store: &Store) -> Result<u64, StoreError> {
    store.command("ZCARD", [keys::LIVE]).await
}
