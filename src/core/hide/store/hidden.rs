//! Hides members of a board, and reads the hidden ones.

use serde::{Deserialize, Serialize};

use super::erasures;
use crate::domain::hide::{HIDDEN_MAX, Hide, HideId, Reason};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::args::LayoutArgs;
use crate::redis::decode::{Coded, Done, Flat, Packed};
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, random, script};

/// The maximum number of hides that one call reads.
pub const HIDES_READ_MAX: usize = 1_000;

/// How many random bytes the id of a hide has, each as two hexadecimal digits.
const HIDE_ID_BYTES: usize = 16;

/// How many lines of the journal one call follows: about a millisecond of Redis.
const LINES_MAX: u32 = 300;
/// How many members a call that widens a list looks at: about a millisecond of Redis.
const WIDENED_MAX: u32 = 300;
/// How many lines a call that prunes a journal looks at: about a millisecond of Redis.
const PRUNED_MAX: u32 = 300;

/// The maximum number of hides in one call of [`keep_hides`].
pub const KEPT_MAX: usize = 300;
/// How many erasures a call that ends hides looks at: about a millisecond of Redis.
const KEPT_LOOKED_AT: u32 = 300;
/// The cursor of a walk at its beginning, and at its end.
pub const WALK_BEGINS: &str = "0";

/// How far a hidden list follows the hides.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub struct Followed {
    /// The number of the last hide that it follows.
    pub number: u64,
    /// Whether its standing keeps a short list, of whose spare half is used up.
    pub is_narrow: bool,
}

/// A hide, and the one that the member had before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hiding {
    /// The hide that the member has now.
    pub hide: Hide,
    /// The one before, perhaps with another reason and end; `None` if the member was not hidden.
    pub before: Option<Hide>,
}

/// The hidden members of a shard, or some of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HiddenMembers {
    /// How many members of the shard are hidden.
    pub total: u64,
    /// Those that were requested, with their hides.
    pub members: Vec<(MemberId, Hide)>,
}

/// A hide as `scripts/lib/hides.lua` describes it.
#[derive(Deserialize, Serialize)]
struct StoredHide {
    id: HideId,
    reason: Reason,
    by: String,
    since: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

pub fn new_hide_id() -> Result<HideId, StoreError> {
    random::hexadecimal::<HIDE_ID_BYTES>("hide_").map(HideId::named)
}

impl From<&Hide> for StoredHide {
    fn from(hide: &Hide) -> Self {
        Self {
            id: hide.id.clone(),
            reason: hide.reason.clone(),
            by: hide.by.clone(),
            since: hide.since.ms(),
            until: hide.until.map(Timestamp::ms),
        }
    }
}

impl From<StoredHide> for Hide {
    fn from(stored: StoredHide) -> Self {
        Self {
            id: stored.id,
            reason: stored.reason,
            by: stored.by,
            since: Timestamp::from_ms_clamped(stored.since),
            until: stored.until.map(Timestamp::from_ms_clamped),
        }
    }
}

/// Hides a member of this shard, if then at most `hidden_max` of its members are hidden; [`HIDDEN_MAX`] at most. An
/// existing hide keeps its `id`, `since` and `by`. `None`, with nothing done: there are too many.
pub async fn hide(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
    hide: &Hide,
    hidden_max: u64,
) -> Result<Option<Hiding>, StoreError> {
    let hidden = store
        .call_version(&script::HIDE, shard)
        .field("member", member)
        .field("hide", StoredHide::from(hide))
        .field("hidden_max", hidden_max.min(HIDDEN_MAX))
        .write::<Coded<(Packed<StoredHide>, Option<Packed<StoredHide>>)>>()
        .await?
        .after("HIDDEN", "FULL")?;
    Ok(hidden.map(|(Packed(hide), before)| Hiding {
        hide: hide.into(),
        before: before.map(|Packed(before)| before.into()),
    }))
}

/// Brings a member of this shard back, with `ends` only from a hide with that end. Returns the hide that it had.
pub async fn unhide(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
    ends: Option<Timestamp>,
) -> Result<Option<Hide>, StoreError> {
    let hide = store
        .call_version(&script::HIDE, shard)
        .field("member", member)
        .field("ends", ends.map(Timestamp::ms))
        .write::<Coded<Packed<StoredHide>>>()
        .await?
        .after("BACK", "NOT_HIDDEN")?;
    Ok(hide.map(|Packed(hide)| hide.into()))
}

/// Hides erased members of this shard as soon as they have data there: up to [`KEPT_MAX`], by their names
/// (`erasures::erased_name`). A hide already stored with an erasure stays.
pub async fn keep_hides(
    store: &Store,
    shard: &Shard,
    hides: &[(&str, &Hide)],
) -> Result<(), StoreError> {
    let hides = hides
        .iter()
        .take(KEPT_MAX)
        .map(|(name, hide)| (*name, StoredHide::from(*hide)));
    let kept = store
        .call_version(&script::KEEP_HIDES, shard)
        .field("hides", hides.collect::<Vec<_>>())
        .field("key", erasures::hash_key(store).await?);
    kept.write::<Done>().await.map(drop)
}

/// Notes that an erased member of this shard has data again, and gives it the hide back that is stored with its erasure.
/// Does nothing for a member that was not erased. Returns false, with nothing done, if some data of the member is left.
pub async fn return_hide(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    store
        .call_shard(&script::HIDE_AGAIN, shard)
        .arg(shard.version())
        .arg(now)
        .arg(member.as_str())
        .write::<Coded>()
        .await?
        .is("OK", "ERASING")
}

/// Ends hides stored with erasures of this shard, up to `now`, in one bounded step of a walk that begins with
/// [`WALK_BEGINS`]. Returns where it continues; `None` at its end.
pub async fn end_kept_hides(
    store: &Store,
    shard: &Shard,
    now: Timestamp,
    cursor: &str,
) -> Result<Option<String>, StoreError> {
    let ended = store
        .call_version(&script::END_KEPT_HIDES, shard)
        .field("now", now.ms())
        .field("cursor", cursor)
        .field("count", KEPT_LOOKED_AT);
    let Done::Ok(cursor) = ended.write::<Done<String>>().await?;
    Ok((cursor != WALK_BEGINS).then_some(cursor))
}

/// Takes a bounded step to make the hidden list of a standing follow the hides. Returns how far it follows them once it is
/// up to date; `None` if more steps are needed.
pub async fn follow(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
) -> Result<Option<Followed>, StoreError> {
    let followed = store
        .call_version(&script::HIDDEN_LIST, shard)
        .keys(keys::standing(shard, standing))
        .field("layout", LayoutArgs::new(shard))
        .field("lines", LINES_MAX);
    followed
        .derive::<Coded<Followed>>()
        .await?
        .after("DONE", "MORE")
}

/// Forgets members of this shard that were brought back, in a bounded step over the lines of the journal after `after`, up to
/// `up_to`. Returns after which line the walk continues; `None` at its end.
pub async fn prune_journal(
    store: &Store,
    shard: &Shard,
    after: u64,
    up_to: u64,
) -> Result<Option<u64>, StoreError> {
    let pruned = store
        .call_version(&script::PRUNE_JOURNAL, shard)
        .field("after", after)
        .field("up_to", up_to)
        .field("count", PRUNED_MAX);
    let Done::Ok(next) = pruned.write::<Done<Option<u64>>>().await?;
    Ok(next)
}

/// Takes a bounded step to find more members for a short list with many hidden members. Returns whether it has enough.
pub async fn widen(store: &Store, shard: &Shard, standing: &Standing) -> Result<bool, StoreError> {
    let widened = store
        .call_version(&script::WIDEN_LIST, shard)
        .keys(keys::standing(shard, standing))
        .field("layout", LayoutArgs::new(shard))
        .field("count", WIDENED_MAX);
    widened.derive::<Coded>().await?.is("DONE", "MORE")
}

/// Notes that a list must be widened.
pub async fn mark_narrow(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
) -> Result<(), StoreError> {
    let args = [keys::NARROW, &keys::sorted_set(shard, standing)];
    store.command("SADD", args).await
}

/// The lists with such a note: the names of their sorted sets, and their boards.
pub async fn narrow_lists(store: &Store) -> Result<Vec<(String, BoardId)>, StoreError> {
    let names: Vec<String> = store.command("SMEMBERS", [keys::NARROW]).await?;
    Ok(names
        .into_iter()
        .filter_map(|name| {
            let board = keys::take_apart(&name)?.id;
            Some((name, board))
        })
        .collect())
}

/// Removes the note that the list with this name must be widened: it is wide enough, or deleted.
pub async fn forget_narrow(store: &Store, name: &str) -> Result<(), StoreError> {
    store.command("SREM", [keys::NARROW, name]).await
}

/// Those of these members of this shard that are hidden, in the given order; at most [`HIDES_READ_MAX`].
pub async fn among(
    store: &Store,
    shard: &Shard,
    members: &[MemberId],
) -> Result<HiddenMembers, StoreError> {
    let members = members.iter().take(HIDES_READ_MAX).map(MemberId::as_str);
    read(store, shard, Some(members.collect()), "", 0).await
}

/// The hidden members of this shard in byte order, after `after`: `count` of them, at most [`HIDES_READ_MAX`]. If fewer
/// come, there are no more.
pub async fn list(
    store: &Store,
    shard: &Shard,
    after: Option<&MemberId>,
    count: usize,
) -> Result<HiddenMembers, StoreError> {
    let after = after.map_or("", MemberId::as_str);
    let count = count.min(HIDES_READ_MAX);
    read(store, shard, None, after, count).await
}

async fn read(
    store: &Store,
    shard: &Shard,
    members: Option<Vec<&str>>,
    after: &str,
    count: usize,
) -> Result<HiddenMembers, StoreError> {
    let hidden = store
        .call_version(&script::HIDDEN, shard)
        .field("members", members)
        .field("after", after)
        .field("count", count);
    let Done::Ok((total, Flat(found))) = hidden.read::<Done<(_, Flat<_>)>>().await?;
    let members = found
        .into_iter()
        .map(|(member, Packed::<StoredHide>(hide))| (member, hide.into()));
    Ok(HiddenMembers {
        total,
        members: members.collect(),
    })
}
