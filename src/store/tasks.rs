//! Tasks for all boards: what is left of each, and how far it has come.

use fred::types::Value;

use super::dispatch::Store;
use super::orders::parse;
use super::reply::{Reply, require, unknown_code};
use super::stored::{read_json, to_json};
use super::{StoreError, keys, script};
use crate::domain::hide::Hide;
use crate::domain::ids::MemberId;
use crate::domain::task::{KEPT, Task, TaskStatus};
use crate::domain::time::Timestamp;

/// The most standing orders.
pub const ORDERS_MAX: usize = 10_000;

/// What a task changes of the standing orders in the step that begins it.
#[derive(Clone, Copy, Debug)]
pub enum OrderChange<'a> {
    /// Nothing.
    None,
    /// The member is hidden, also on boards that are created later.
    Give(&'a MemberId, &'a Hide),
    /// The member's standing order ends, if there is one.
    End(&'a MemberId),
}

/// A task that was begun.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BegunTask {
    /// Its number.
    pub number: u64,
    /// The hide of the standing order that its member had before.
    pub order_before: Option<Hide>,
}

/// A task as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredTask {
    /// Its number.
    pub number: u64,
    /// Its JSON. A newer release may have written it.
    json: String,
}

impl StoredTask {
    /// Reads it.
    pub fn read(&self) -> Result<Task, StoreError> {
        read_json("a task", &self.json)
    }
}

impl Store {
    /// Begins a task, and changes the standing orders in the same step. `None`: there are [`ORDERS_MAX`] standing orders
    /// already, and nothing is done.
    pub async fn begin_task(
        &self,
        task: &Task,
        change: OrderChange<'_>,
    ) -> Result<Option<BegunTask>, StoreError> {
        let (member, hide) = match change {
            OrderChange::None => (None, None),
            OrderChange::Give(member, hide) => (Some(member), Some(hide)),
            OrderChange::End(member) => (Some(member), None),
        };
        let name = match member {
            Some(member) => self.name_of_order(member).await?,
            None => String::new(),
        };
        let ends_at = hide.and_then(|hide| hide.until);
        let args: Vec<Value> = vec![
            to_json(task)?.into(),
            member.map_or("", MemberId::as_str).into(),
            hide.map(to_json).transpose()?.unwrap_or_default().into(),
            ends_at.map(ms_text).unwrap_or_default().into(),
            ORDERS_MAX.to_string().into(),
            name.as_str().into(),
        ];
        let keys = [
            keys::TASKS,
            keys::OPEN_TASKS,
            keys::TASK_NUMBER,
            keys::ORDERS,
            keys::ORDER_MEMBERS,
            keys::ORDERS_END,
        ];
        let keys = keys.map(str::to_owned).to_vec();
        let reply = self.write_at(keys::TASKS, &script::BEGIN_TASK, keys, args);
        let mut reply = Reply::new(reply.await?)?;
        match reply.text()?.as_str() {
            "OK" => {
                let (number, before) = (reply.count()?, reply.text()?);
                let before = (!before.is_empty()).then(|| parse(&name, &before));
                let order_before = before.transpose()?.map(|order| order.hide);
                Ok(Some(BegunTask {
                    number,
                    order_before,
                }))
            }
            "FULL" => Ok(None),
            other => unknown_code(other),
        }
    }

    /// A task; `None` if there is none with this number, or it ended long ago.
    pub async fn load_task(&self, number: u64) -> Result<Option<StoredTask>, StoreError> {
        let args = vec![keys::TASKS.to_owned(), number.to_string()];
        let json: Option<String> = self.command("HGET", args).await?;
        Ok(json.map(|json| StoredTask { number, json }))
    }

    /// Up to `count` tasks, behind one of them: those that are under way, in the order in which they were begun; or those at their
    /// end, the one first that ended last.
    pub async fn tasks(
        &self,
        status: TaskStatus,
        after: Option<u64>,
        count: usize,
    ) -> Result<Vec<StoredTask>, StoreError> {
        let (list, has_ended) = match status {
            TaskStatus::Running => (keys::OPEN_TASKS, ""),
            TaskStatus::Done => (keys::ENDED_TASKS, "1"),
        };
        let args = [
            has_ended.to_owned(),
            after.map_or_else(String::new, |number| number.to_string()),
            count.to_string(),
        ];
        let keys = [keys::TASKS, list].map(str::to_owned).to_vec();
        let args = args.map(Value::from).to_vec();
        let reply = self.read(&script::TASKS, keys, args);
        let mut reply = Reply::new(reply.await?)?;
        let mut tasks = Vec::new();
        while !reply.is_empty() {
            let (number, json) = (reply.text()?, reply.text()?);
            let number = number.parse().ok();
            let number = require(number, "a task has a number")?;
            tasks.push(StoredTask { number, json });
        }
        Ok(tasks)
    }

    /// Up to `count` numbers of tasks that are not at their end, the oldest first.
    pub async fn open_tasks(&self, count: usize) -> Result<Vec<u64>, StoreError> {
        let last = count.saturating_sub(1).to_string();
        let range = [keys::OPEN_TASKS, "0", &last].map(str::to_owned);
        let numbers: Vec<String> = self.command("ZRANGE", range.to_vec()).await?;
        Ok(numbers
            .iter()
            .filter_map(|number| number.parse().ok())
            .collect())
    }

    /// Stores what has become of a task, if it is still what the caller saw. Returns whether it was.
    pub async fn note_task(
        &self,
        seen: &StoredTask,
        task: &Task,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let args: Vec<Value> = vec![
            seen.number.to_string().into(),
            seen.json.as_str().into(),
            to_json(task)?.into(),
            task.finished_at.map(ms_text).unwrap_or_default().into(),
            ms_text(now.saturating_sub(KEPT)).into(),
        ];
        let keys = [keys::TASKS, keys::OPEN_TASKS, keys::ENDED_TASKS];
        let keys = keys.map(str::to_owned).to_vec();
        let reply = self.write_at(keys::TASKS, &script::NOTE_TASK, keys, args);
        match Reply::new(reply.await?)?.text()?.as_str() {
            "OK" => Ok(true),
            "CHANGED" => Ok(false),
            other => unknown_code(other),
        }
    }

    /// How many boards there are.
    pub async fn board_count(&self) -> Result<u64, StoreError> {
        self.command("ZCARD", vec![keys::LIVE.to_owned()]).await
    }
}

fn ms_text(at: Timestamp) -> String {
    at.ms().to_string()
}
