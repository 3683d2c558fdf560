//! What members have won in final sections (`scripts/lib/rewards.lua`): notes it, lets callers claim it, and lists it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::league::Section;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::call::ScriptCall;
use crate::redis::decode::{Done, Flat, Packed, ms, packed};
use crate::redis::dispatch::Store;
use crate::redis::reply::require;
use crate::redis::script::{self, Script};
use crate::redis::{StoreError, keys};

/// How many members one call hands rewards to: about two milliseconds of Redis.
pub const HANDED_OUT_MAX: usize = 200;
/// How many rewards one call looks at to take some back: about two milliseconds of Redis.
const TAKEN_BACK_MAX: usize = 200;
/// How many rewards, or changes of rewards, one call reads.
pub const REWARDS_READ_MAX: usize = 1_001;

/// A walk over a final standing, which decides who wins. Only the last of all walks changes anything.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RewardWalk {
    /// The number of the lease that its caller holds.
    pub lease: u64,
    /// Under which revision of the result it decides.
    pub revision: u64,
    /// Its own number.
    pub number: u64,
}

/// What a member wins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Winner {
    /// Who, as the standing names it.
    pub member: String,
    /// At which rank, as it is shown.
    pub rank: u64,
    /// With which score.
    pub score: Score,
    /// By the rules with these indexes.
    pub rules: Vec<usize>,
}

/// Whether a reward was claimed, and is still won.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RewardState {
    /// It can be claimed.
    Open,
    /// It was claimed.
    Claimed,
    /// It was claimed, and is not won any more.
    Revoked,
    /// It is not won any more.
    Lost,
}

/// How a revision has changed a reward.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RewardChange {
    /// It is won.
    Gained,
    /// It is not won any more, and was not claimed.
    Lost,
    /// It is not won any more, and was claimed.
    Revoked,
    /// It was revoked, and is won again.
    Restored,
}

/// The first claim of a reward.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Claim {
    /// Under which name.
    pub by: String,
    /// When.
    #[serde(deserialize_with = "ms")]
    pub at: Timestamp,
    /// Which rank the member had.
    pub rank: u64,
}

/// What a member has won by a rule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct RewardEntry {
    /// The index of the rule.
    pub rule: usize,
    /// The rank of the member when it had won last.
    pub rank: u64,
    /// The score of the member.
    pub score: Score,
    /// What has become of it.
    pub state: RewardState,
    /// Its claim, if it was claimed.
    #[serde(default)]
    pub claim: Option<Claim>,
}

/// How a claim ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Claimed {
    /// The reward is claimed now.
    #[serde(deserialize_with = "packed")]
    New(RewardEntry),
    /// It was claimed before, under the same name.
    #[serde(deserialize_with = "packed")]
    Same(RewardEntry),
    /// It was claimed before, under another name.
    #[serde(deserialize_with = "packed")]
    Taken(RewardEntry),
    /// It was claimed before, and is not won any more.
    #[serde(deserialize_with = "packed")]
    Revoked(RewardEntry),
    /// The member has not won it, or is hidden.
    None,
    /// The result has to be revised first.
    Behind,
}

/// What is claimed.
#[derive(Clone, Copy, Debug)]
pub struct Claiming<'a> {
    /// Whose reward.
    pub member: &'a str,
    /// The index of its rule.
    pub rule: usize,
    /// Under which name.
    pub by: &'a str,
    /// When.
    pub at: Timestamp,
    /// The revision of the result that the caller knows.
    pub revision: u64,
    /// Up to which number of the shard's hides the result was revised.
    pub hides: u64,
}

/// A place in the list of rewards of a section, or in that of changes: both sort by the bytes of their places.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
pub struct RewardPlace(String);

impl RewardPlace {
    /// Of a reward: by the rule with this index, at this rank, of this member.
    pub fn of_reward(rule: usize, rank: u64, member: &str) -> Self {
        Self(format!("l{rule:02}{rank:015}{member}"))
    }

    /// The index of the rule.
    fn rule(&self) -> Option<usize> {
        let range = match self.0.as_bytes().first()? {
            b'l' => 1..3,
            _ => 16..18,
        };
        self.0.get(range)?.parse().ok()
    }

    /// The member.
    pub fn member(&self) -> &str {
        self.0.get(18..).unwrap_or_default()
    }
}

/// Notes what members of this shard win in a section; of no more than [`HANDED_OUT_MAX`] of them at once. From now on the
/// shard refuses earlier leases as stale, also if nobody wins.
pub async fn hand_out(
    store: &Store,
    shard: &Shard,
    section: &Section,
    walk: RewardWalk,
    winners: &[Winner],
) -> Result<(), StoreError> {
    let members = winners.iter().map(|winner| {
        let scaled = winner.score.scaled();
        (&winner.member, winner.rank, scaled, &winner.rules)
    });
    let handed_out = call_walk(store, &script::HAND_OUT, shard, section, walk)
        .field("members", members.collect::<Vec<_>>());
    handed_out.write::<Done>().await.map(drop)
}

/// Takes back what some members of this shard do not win any more, behind a place. Returns how many of the rewards that
/// it has looked at are won, and where it has come to, `None` at the end.
pub async fn take_back(
    store: &Store,
    shard: &Shard,
    section: &Section,
    walk: RewardWalk,
    after: Option<&str>,
) -> Result<(u64, Option<String>), StoreError> {
    let taken_back = call_walk(store, &script::TAKE_BACK, shard, section, walk)
        .field("after", after.unwrap_or_default())
        .field("count", TAKEN_BACK_MAX);
    let Done::Ok(met) = taken_back.write().await?;
    Ok(met)
}

/// Claims what a member of this shard has won in a section.
pub async fn claim(
    store: &Store,
    shard: &Shard,
    section: &Section,
    claiming: Claiming<'_>,
) -> Result<Claimed, StoreError> {
    call_section(store, &script::CLAIM, shard, section)
        .field("member", claiming.member)
        .field("rule", claiming.rule)
        .field("by", claiming.by)
        .field("at", claiming.at.ms())
        .field("revision", claiming.revision)
        .field("hides", claiming.hides)
        .write()
        .await
}

/// What members of this shard have won in a section, in the order of places, behind one: `count` rewards at the most,
/// no more than [`REWARDS_READ_MAX`].
pub async fn list(
    store: &Store,
    shard: &Shard,
    section: &Section,
    after: Option<&RewardPlace>,
    count: usize,
) -> Result<Vec<(RewardPlace, RewardEntry)>, StoreError> {
    let from = after.map_or_else(|| "[l".to_owned(), |RewardPlace(name)| format!("({name}"));
    let range = (from, "(m".to_owned());
    let read = read(store, shard, section, range, count, None);
    let rewards = read.await?.into_iter();
    Ok(rewards
        .map(|(place, Packed(entry))| (place, entry))
        .collect())
}

/// What a member of this shard has won in a section.
pub async fn of_member(
    store: &Store,
    shard: &Shard,
    section: &Section,
    member: &str,
) -> Result<Vec<RewardEntry>, StoreError> {
    let range = (String::new(), String::new());
    let read = read::<String, _>(store, shard, section, range, 0, Some(member));
    let entries = read.await?.into_iter().map(|(_, Packed(entry))| entry);
    let mut rewards: Vec<RewardEntry> = entries.collect();
    rewards.sort_unstable_by_key(|entry| entry.rule);
    Ok(rewards)
}

/// How a revision has changed what members of this shard have won, in the order of places: `count` changes at the
/// most, no more than [`REWARDS_READ_MAX`]. Each with the index of its rule and its member.
pub async fn changes(
    store: &Store,
    shard: &Shard,
    section: &Section,
    revision: u64,
    count: usize,
) -> Result<Vec<(usize, String, RewardChange)>, StoreError> {
    let range = (
        format!("[c{revision:015}"),
        format!("(c{:015}", revision + 1),
    );
    let read = read(store, shard, section, range, count, None);
    let changes = read.await?.into_iter();
    changes
        .map(|(place, change): (RewardPlace, _)| {
            let rule = require(place.rule(), "a change names its rule")?;
            Ok((rule, place.member().to_owned(), change))
        })
        .collect()
}

/// Names in the index, and what they stand for.
async fn read<N: DeserializeOwned, T: DeserializeOwned>(
    store: &Store,
    shard: &Shard,
    section: &Section,
    (from, to): (String, String),
    count: usize,
    member: Option<&str>,
) -> Result<Vec<(N, T)>, StoreError> {
    let read = call_section(store, &script::READ_REWARDS, shard, section)
        .field("from", from)
        .field("to", to)
        .field("count", count.min(REWARDS_READ_MAX))
        .field("member", member);
    let Done::Ok((Flat(found),)) = read.read::<Done<(Flat<(N, T)>,)>>().await?;
    Ok(found)
}

/// A call about the rewards of a section in a shard.
fn call_section<'a>(
    store: &'a Store,
    script: &'static Script,
    shard: &Shard,
    section: &Section,
) -> ScriptCall<'a> {
    store
        .call_version(script, shard)
        .key(keys::rewards(shard, section))
}

/// The same for a step of a walk.
fn call_walk<'a>(
    store: &'a Store,
    script: &'static Script,
    shard: &Shard,
    section: &Section,
    walk: RewardWalk,
) -> ScriptCall<'a> {
    call_section(store, script, shard, section)
        .field("lease", walk.lease)
        .field("revision", walk.revision)
        .field("walk", walk.number)
}
