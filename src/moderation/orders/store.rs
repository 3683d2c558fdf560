//! Stores standing orders: hides that also apply to boards created later.

use crate::core::board::store::boards;
use crate::core::hide::store::erasures;
use crate::domain::hide::Hide;
use crate::domain::ids::MemberId;
use crate::domain::time::Timestamp;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// How many standing orders one call reads.
const CALL_ORDERS_MAX: usize = 500;
/// How many standing orders one call ends.
const CALL_ENDED_MAX: u32 = 500;

pub(crate) const ORDER_KEYS: [&str; 3] = [keys::ORDERS, keys::ORDER_MEMBERS, keys::ORDERS_END];

/// Prefix of erased members' names among the members with an order: no id has control characters.
const NAMELESS: char = '\u{1e}';
/// Sorts after all names of erased members, and before all ids.
const BEHIND_NAMELESS: &str = "\u{1f}";

/// The member that a standing order hides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Whom {
    Member(MemberId),
    /// A member who was erased since: `erasures::erased_name` names it.
    Erased(String),
}

impl Whom {
    /// Reads the name that a standing order is stored under.
    fn parse(stored: &str) -> Result<Self, StoreError> {
        if let Some(name) = stored.strip_prefix(NAMELESS) {
            return Ok(Self::Erased(name.to_owned()));
        }
        let member = MemberId::parse(stored);
        let fault = |error| {
            StoreError::Unexpected(format!("a stored standing order can't be read: {error}"))
        };
        member.map(Self::Member).map_err(fault)
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StandingOrder {
    /// The member that it hides.
    pub whom: Whom,
    pub hide: Hide,
    /// The number of the task that carries it out on existing boards.
    pub task: u64,
}

/// The name that a member's standing order is stored under once the member is erased.
pub(crate) async fn stored_name(store: &Store, member: &MemberId) -> Result<String, StoreError> {
    let name = erasures::erased_name(store, member).await?;
    Ok(format!("{NAMELESS}{name}"))
}

/// Removes the member's id from its standing order, if there is one. The order still holds.
pub async fn forget_member(store: &Store, member: &MemberId) -> Result<(), StoreError> {
    let forgotten = store
        .call(&script::FORGET_ORDER, keys::ORDERS)
        .keys(ORDER_KEYS)
        .arg(member.as_str())
        .arg(stored_name(store, member).await?);
    forgotten.write::<Done>().await.map(drop)
}

/// The number of the task that carries out a member's standing order, if there is one.
pub async fn task_of(store: &Store, member: &MemberId) -> Result<Option<u64>, StoreError> {
    let names = [member.to_string(), stored_name(store, member).await?];
    let orders = stored_under(store, &names).await?;
    Ok(orders.first().map(|order| order.task))
}

/// Up to `count` members with a standing order after `after`, in byte order, without erased ones.
pub async fn members(
    store: &Store,
    after: Option<&MemberId>,
    count: usize,
) -> Result<Vec<MemberId>, StoreError> {
    let after = after.map_or(BEHIND_NAMELESS, MemberId::as_str);
    Ok(
        boards::listed(store, keys::ORDER_MEMBERS, Some(after), count)
            .await?
            .into_iter()
            .flat_map(|id| MemberId::parse(&id))
            .collect(),
    )
}

/// The standing orders of those of these members that have one.
pub async fn of_members(
    store: &Store,
    members: &[MemberId],
) -> Result<Vec<StandingOrder>, StoreError> {
    let names: Vec<String> = members.iter().map(ToString::to_string).collect();
    stored_under(store, &names).await
}

/// The standing orders that are stored under these names.
async fn stored_under(store: &Store, names: &[String]) -> Result<Vec<StandingOrder>, StoreError> {
    let mut orders = Vec::with_capacity(names.len());
    for names in names.chunks(CALL_ORDERS_MAX) {
        let fields = names.iter().map(String::as_str);
        let args = std::iter::once(keys::ORDERS).chain(fields);
        let stored: Vec<Option<String>> = store.command("HMGET", args).await?;
        for (name, stored) in names.iter().zip(stored) {
            if let Some(stored) = stored {
                orders.push(parse(name, &stored)?);
            }
        }
    }
    Ok(orders)
}

/// Whether there are standing orders.
pub async fn has_any(store: &Store) -> Result<bool, StoreError> {
    let count: u64 = store.command("HLEN", [keys::ORDERS]).await?;
    Ok(count > 0)
}

/// All standing orders.
pub async fn all(store: &Store) -> Result<Vec<StandingOrder>, StoreError> {
    let names = boards::all_listed(store, keys::ORDER_MEMBERS).await?;
    stored_under(store, &names).await
}

/// Ends some standing orders that are over; returns whether there may be more.
pub async fn end_some(store: &Store, now: Timestamp) -> Result<bool, StoreError> {
    let ended = store
        .call(&script::END_ORDERS, keys::ORDERS)
        .keys(ORDER_KEYS)
        .arg(now)
        .arg(CALL_ENDED_MAX);
    Ok(ended.write::<u32>().await? >= CALL_ENDED_MAX)
}

/// Reads `number hide`.
pub(crate) fn parse(name: &str, stored: &str) -> Result<StandingOrder, StoreError> {
    let parts = stored
        .split_once(' ')
        .and_then(|(task, hide)| Some((task.parse().ok()?, hide)));
    let (task, hide) = parts.ok_or_else(|| {
        StoreError::Unexpected("a stored standing order has no number".to_owned())
    })?;
    let hide = read_json("a standing order", hide)?;
    let whom = Whom::parse(name)?;
    Ok(StandingOrder { whom, hide, task })
}
