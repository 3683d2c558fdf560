//! The calls that take a snapshot of a shard.

use bytes::Bytes;

use super::shard::ShardSnapshot;
use crate::core::read::store::standings::SortKey;
use crate::domain::edition::Changed;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::redis::args::LayoutArgs;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::{Reply, require, unknown_code};
use crate::redis::{StoreError, keys, script};

/// For how long a standing is named in a trail, in seconds.
const NAMED_S: u64 = 60;

/// What a step has found.
pub(super) enum Step {
    /// A derived standing is not complete.
    Incomplete,
    /// No links lead here.
    Broken,
    Part(Box<Part>),
}

/// The next entries of a standing, and what has changed before.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) changed: Changed,
    /// How many entries the standing has, those of hidden members included.
    pub(super) count: u64,
    /// Those since the step before.
    pub(super) links: Vec<Bytes>,
    /// Whether there are no more entries.
    pub(super) is_last: bool,
    /// How many of the entries that were read are left out.
    pub(super) left_out: u64,
    /// The last entry that was read, if any was.
    pub(super) last: Option<SortKey>,
    /// Those that are not left out.
    pub(super) entries: Vec<SortKey>,
    /// Which of them are those of hidden members: the sorted-set members.
    pub(super) hidden: Vec<Bytes>,
}

/// Names a standing in the trail of its shard, and returns the trail's token.
pub(super) async fn begin_trail(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
) -> Result<String, StoreError> {
    let named = store
        .call_version(&script::BEGIN_TRAIL, shard)
        .key(keys::trail(shard))
        .field("standing", keys::sorted_set(shard, standing))
        .field("seconds", NAMED_S);
    let Done::Ok(token) = named.derive().await?;
    Ok(token)
}

/// Reads the `count` entries after those that a snapshot has. `token`: that of the trail in which its standing is named.
pub(super) async fn step(
    store: &Store,
    shard: &Shard,
    snapshot: &ShardSnapshot,
    token: Option<&str>,
    count: u64,
) -> Result<Step, StoreError> {
    let standing = snapshot.standing;
    let is_derived = shard.derived_as(standing.series).is_some();
    let state = is_derived.then(|| keys::state(shard, standing.series));
    let of_hides = [Kind::Hides, Kind::Hidden, Kind::HideJournal, Kind::Erasing];
    let mark = snapshot.mark.as_ref();
    let reply = store
        .call_version(&script::SNAPSHOT, shard)
        .key(keys::trail(shard))
        .keys(of_hides.map(|kind| keys::single(shard, kind)))
        .keys(keys::standing(shard, &standing))
        .keys(state)
        .field("layout", LayoutArgs::new(shard))
        .field("start", is_derived.then_some(standing.period.start_ms))
        .field("count", count)
        .field("token", token)
        .field("changed", snapshot.changed.map(Changed::stored))
        .field("score", mark.map(|mark| mark.score))
        .field("all", snapshot.hidden.is_some())
        .arg(mark.map_or_else(Bytes::new, |mark| mark.member.clone()))
        .read_for_reply()
        .await?;
    let mut reply = Reply::new(reply)?;
    match reply.text()?.as_str() {
        "OK" => Ok(Step::Part(Box::new(read_part(&mut reply)?))),
        "INCOMPLETE" => Ok(Step::Incomplete),
        "BROKEN" => Ok(Step::Broken),
        "STALE" => Err(StoreError::Stale),
        other => unknown_code(other),
    }
}

fn read_part(reply: &mut Reply) -> Result<Part, StoreError> {
    let changed = Changed::from_stored(&reply.text()?);
    Ok(Part {
        changed: require(changed, "a head lacks the number of its changes")?,
        count: reply.read()?,
        links: reply.list()?.all(Reply::bytes)?,
        is_last: reply.integer()? == 1,
        left_out: reply.read()?,
        last: reply.list()?.all(read_entry)?.pop(),
        entries: reply.list()?.all(read_entry)?,
        hidden: reply.list()?.all(Reply::bytes)?,
    })
}

/// The next entry of a flat list of members and scores.
fn read_entry(flat: &mut Reply) -> Result<SortKey, StoreError> {
    let (member, score) = (flat.bytes()?, flat.integer()?);
    Ok(SortKey { score, member })
}
