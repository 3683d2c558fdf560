//! Stores, claims and lists the rewards of final sections (`scripts/lib/rewards.lua`).

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

/// How many members one call hands rewards to: takes about two milliseconds in Redis.
pub const HANDED_OUT_MAX: usize = 200;
/// How many rewards one call checks in order to revoke some: takes about two milliseconds in Redis.
const TAKEN_BACK_MAX: usize = 200;
/// How many rewards, or changes of rewards, one call reads.
pub const REWARDS_READ_MAX: usize = 1_001;

/// A walk over a final standing, which decides who wins. Only the last walk changes anything.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RewardWalk {
    /// The number of the caller's lease.
    pub lease: u64,
    /// The revision of the result under which it decides.
    pub revision: u64,
    pub number: u64,
}

/// A member that wins rewards.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RewardedMember {
    /// Its id, as in the standing.
    pub member: String,
    /// Its rank, as shown.
    pub rank: u64,
    pub score: Score,
    /// The indexes of the rules by which it wins.
    pub rules: Vec<usize>,
}

// One that was lost without a claim is not returned.
/// The state of a reward.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RewardState {
    /// It can be claimed.
    Open,
    /// It was claimed.
    Claimed,
    /// It was claimed, but is no longer won.
    Revoked,
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
    /// The name of the claimant.
    pub by: String,
    #[serde(deserialize_with = "ms")]
    pub at: Timestamp,
    /// The member's rank at that time.
    pub rank: u64,
}

/// What a member has won by a rule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct RewardEntry {
    /// The index of the rule.
    pub rule: usize,
    /// The member's rank when it last won.
    pub rank: u64,
    pub score: Score,
    pub state: RewardState,
    #[serde(default)]
    pub claim: Option<Claim>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum ClaimOutcome {
    /// The reward is claimed now.
    #[serde(deserialize_with = "packed")]
    New(RewardEntry),
    /// It was claimed before, under the same name.
    #[serde(deserialize_with = "packed")]
    Same(RewardEntry),
    /// It was claimed before, under another name.
    #[serde(deserialize_with = "packed")]
    Taken(RewardEntry),
    /// It was claimed before, and is no longer won.
    #[serde(deserialize_with = "packed")]
    Revoked(RewardEntry),
    /// The member has not won it, or is hidden.
    None,
    /// The result must be revised first.
    Behind,
}

#[derive(Clone, Copy, Debug)]
pub struct Claiming<'a> {
    /// The member that won the reward.
    pub member: &'a str,
    /// The index of its rule.
    pub rule: usize,
    /// The name of the claimant.
    pub by: &'a str,
    pub at: Timestamp,
    /// The revision of the result that the caller knows.
    pub revision: u64,
    /// The last hide of the shard that the result covers.
    pub hides: u64,
}

/// A place in a section's list of rewards or of reward changes; both are sorted bytewise by place.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
pub struct RewardPlace(String);

impl RewardPlace {
    /// The place of a member's reward by the rule with this index, at this rank.
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

    pub fn member(&self) -> &str {
        self.0.get(18..).unwrap_or_default()
    }
}

/// Stores what members of this shard win in a section, at most [`HANDED_OUT_MAX`] at once. From then on the shard refuses
/// earlier leases as stale, even if nobody wins.
pub async fn hand_out(
    store: &Store,
    shard: &Shard,
    section: &Section,
    walk: RewardWalk,
    winners: &[RewardedMember],
) -> Result<(), StoreError> {
    let members = winners.iter().map(|winner| {
        let scaled = winner.score.scaled();
        (&winner.member, winner.rank, scaled, &winner.rules)
    });
    let handed_out = call_walk(store, &script::HAND_OUT, shard, section, walk)
        .field("members", members.collect::<Vec<_>>());
    handed_out.write::<Done>().await.map(drop)
}

/// Revokes rewards of members of this shard that are no longer won, after a place. Returns how many of the rewards checked
/// are won, and the next place, `None` at the end.
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

/// Claims a reward of a member of this shard in a section.
pub async fn claim(
    store: &Store,
    shard: &Shard,
    section: &Section,
    claiming: Claiming<'_>,
) -> Result<ClaimOutcome, StoreError> {
    call_section(store, &script::CLAIM, shard, section)
        .field("member", claiming.member)
        .field("rule", claiming.rule)
        .field("by", claiming.by)
        .field("at", claiming.at.ms())
        .field("revision", claiming.revision)
        .field("hides", claiming.hides)
        .field("section", shard.section_title(section))
        .write()
        .await
}

/// Rewards of members of this shard in a section, in order, after a place: at most `count`, and at most
/// [`REWARDS_READ_MAX`].
pub async fn list(
    store: &Store,
    shard: &Shard,
    section: &Section,
    after: Option<&RewardPlace>,
    count: usize,
) -> Result<Vec<(RewardPlace, RewardEntry)>, StoreError> {
    let from = after.map_or_else(|| "[l".to_owned(), |RewardPlace(name)| format!("({name}"));
    let range = (from, "(m".to_owned());
    Ok(read(store, shard, section, range, count, None)
        .await?
        .into_iter()
        .map(|(place, Packed(entry))| (place, entry))
        .collect())
}

/// The rewards of a member of this shard in a section.
pub async fn of_member(
    store: &Store,
    shard: &Shard,
    section: &Section,
    member: &str,
) -> Result<Vec<RewardEntry>, StoreError> {
    let range = (String::new(), String::new());
    let mut rewards: Vec<RewardEntry> =
        read::<String, _>(store, shard, section, range, 0, Some(member))
            .await?
            .into_iter()
            .map(|(_, Packed(entry))| entry)
            .collect();
    rewards.sort_unstable_by_key(|entry| entry.rule);
    Ok(rewards)
}

/// Reward changes of a revision for members of this shard, each with the index of its rule and its member, in order: at
/// most `count`, and at most [`REWARDS_READ_MAX`].
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
    read(store, shard, section, range, count, None)
        .await?
        .into_iter()
        .map(|(place, change): (RewardPlace, _)| {
            let rule = require(place.rule(), "a change does not name its rule")?;
            Ok((rule, place.member().to_owned(), change))
        })
        .collect()
}

/// Places in the index, and the data stored for them.
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

/// A call for a step of a walk.
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
