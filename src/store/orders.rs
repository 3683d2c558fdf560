//! Standing orders: whom a task hides on all boards is hidden on boards that are created later, too.

use super::dispatch::Store;
use super::{StoreError, keys, script};
use crate::domain::hide::Hide;
use crate::domain::ids::MemberId;
use crate::domain::time::Timestamp;

/// How many standing orders one call reads.
const CALL_ORDERS_MAX: usize = 500;
/// How many standing orders one call ends.
const CALL_ENDED_MAX: u32 = 500;

/// A standing order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Order {
    /// The member that it hides.
    pub member: MemberId,
    /// How.
    pub hide: Hide,
    /// The number of the task that carries it out on the boards that there are.
    pub task: u64,
}

impl Store {
    /// The number of the task that carries out a member's standing order, if there is one.
    pub async fn task_of_order(&self, member: &MemberId) -> Result<Option<u64>, StoreError> {
        let args = vec![keys::ORDERS.to_owned(), member.to_string()];
        let stored: Option<String> = self.command("HGET", args).await?;
        let parsed = stored.map(|stored| parse(member, &stored)).transpose()?;
        Ok(parsed.map(|order| order.task))
    }

    /// Up to `count` members with a standing order, in the order of their bytes, behind `after`.
    pub async fn order_members(
        &self,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<Vec<MemberId>, StoreError> {
        let members = self.listed(keys::ORDER_MEMBERS, after.map(MemberId::as_str), count);
        let members = members.await?.into_iter();
        Ok(members.flat_map(|id| MemberId::parse(&id)).collect())
    }

    /// The standing orders of these members, as far as they have one.
    pub async fn orders_of(&self, members: &[MemberId]) -> Result<Vec<Order>, StoreError> {
        let mut orders = Vec::with_capacity(members.len());
        for members in members.chunks(CALL_ORDERS_MAX) {
            let fields = members.iter().map(ToString::to_string);
            let args = [keys::ORDERS.to_owned()].into_iter().chain(fields);
            let stored: Vec<Option<String>> = self.command("HMGET", args.collect()).await?;
            for (member, stored) in members.iter().zip(stored) {
                if let Some(stored) = stored {
                    orders.push(parse(member, &stored)?);
                }
            }
        }
        Ok(orders)
    }

    /// Whether there are standing orders.
    pub async fn has_orders(&self) -> Result<bool, StoreError> {
        let count: u64 = self.command("HLEN", vec![keys::ORDERS.to_owned()]).await?;
        Ok(count > 0)
    }

    /// All standing orders.
    pub async fn all_orders(&self) -> Result<Vec<Order>, StoreError> {
        let mut all: Vec<MemberId> = Vec::new();
        loop {
            let members = self.order_members(all.last(), CALL_ORDERS_MAX).await?;
            let is_last = members.len() < CALL_ORDERS_MAX;
            all.extend(members);
            if is_last {
                return self.orders_of(&all).await;
            }
        }
    }

    /// Ends some of the standing orders whose time has come; returns whether there may be more.
    pub async fn end_orders(&self, now: Timestamp) -> Result<bool, StoreError> {
        let keys = [keys::ORDERS, keys::ORDER_MEMBERS, keys::ORDERS_END];
        let args = vec![
            now.ms().to_string().into(),
            CALL_ENDED_MAX.to_string().into(),
        ];
        let keys = keys.map(str::to_owned).to_vec();
        let ended = self.write_at(keys::ORDERS, &script::END_ORDERS, keys, args);
        let ended = ended.await?.as_u64();
        let ended =
            ended.ok_or_else(|| StoreError::Unexpected("a count of standing orders".into()))?;
        Ok(ended >= u64::from(CALL_ENDED_MAX))
    }
}

/// Reads `number hide`.
fn parse(member: &MemberId, stored: &str) -> Result<Order, StoreError> {
    let fault = |detail: String| StoreError::Unexpected(format!("a standing order: {detail}"));
    let parts = stored.split_once(' ');
    let parts = parts.and_then(|(task, hide)| Some((task.parse().ok()?, hide)));
    let (task, hide) = parts.ok_or_else(|| fault("it has no number".to_owned()))?;
    let hide = serde_json::from_str(hide).map_err(|error| fault(error.to_string()))?;
    let member = member.clone();
    Ok(Order { member, hide, task })
}
