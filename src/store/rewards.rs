//! What members have won in final sections (`scripts/lib/rewards.lua`): notes it, lets callers claim it, and lists it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::args::pack;
use super::dispatch::Store;
use super::reply::{Reply, require, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::league::Section;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

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

/// What became of a step of a walk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Walked<T> {
    /// It was taken.
    On(T),
    /// Somebody else walks by now.
    Superseded,
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
    /// When, in milliseconds since the epoch.
    at: i64,
    /// Which rank the member had.
    pub rank: u64,
}

impl Claim {
    /// When it was made.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_ms_clamped(self.at)
    }
}

/// What a member has won by a rule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct RewardEntry {
    /// The index of the rule.
    pub rule: usize,
    /// The rank of the member when it had won last.
    pub rank: u64,
    score: i64,
    /// What has become of it.
    pub state: RewardState,
    /// Its claim, if it was claimed.
    #[serde(default)]
    pub claim: Option<Claim>,
}

impl RewardEntry {
    /// The score of the member.
    pub fn score(&self) -> Score {
        Score::from_stored(self.score)
    }
}

/// How a claim ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Claimed {
    /// The reward is claimed now.
    New(RewardEntry),
    /// It was claimed before, under the same name.
    Same(RewardEntry),
    /// It was claimed before, under another name.
    Taken(RewardEntry),
    /// It was claimed before, and is not won any more.
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
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
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

#[derive(Serialize)]
struct HandOutArgs<'a> {
    version: String,
    lease: u64,
    revision: u64,
    walk: u64,
    members: Vec<(&'a str, u64, i64, &'a [usize])>,
}

#[derive(Serialize)]
struct TakeBackArgs<'a> {
    version: String,
    lease: u64,
    revision: u64,
    walk: u64,
    after: &'a str,
    count: usize,
}

#[derive(Serialize)]
struct ClaimArgs<'a> {
    version: String,
    member: &'a str,
    rule: usize,
    by: &'a str,
    at: i64,
    revision: u64,
    hides: u64,
}

#[derive(Serialize)]
struct ReadArgs<'a> {
    version: String,
    from: String,
    to: String,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
}

impl Store {
    /// Notes what members of this shard win in a section; of no more than [`HANDED_OUT_MAX`] of them at once. From now on the
    /// shard refuses earlier leases, also if nobody wins.
    pub async fn hand_out(
        &self,
        shard: &Shard,
        section: &Section,
        walk: RewardWalk,
        winners: &[Winner],
    ) -> Result<Walked<()>, StoreError> {
        let members = winners.iter().map(|winner| {
            let score = winner.score.scaled();
            (
                winner.member.as_str(),
                winner.rank,
                score,
                &winner.rules[..],
            )
        });
        let args = HandOutArgs {
            version: shard.version(),
            lease: walk.lease,
            revision: walk.revision,
            walk: walk.number,
            members: members.collect(),
        };
        let keys = keys_of(shard, section);
        let reply = self.write(shard, &script::HAND_OUT, keys, vec![pack(&args)?]);
        Ok(match walked(reply.await?)? {
            Walked::On(_) => Walked::On(()),
            Walked::Superseded => Walked::Superseded,
        })
    }

    /// Takes back what some members of this shard do not win any more, behind a place. Returns how many of the rewards that
    /// it has looked at are won, and where it has come to, `None` at the end.
    pub async fn take_back(
        &self,
        shard: &Shard,
        section: &Section,
        walk: RewardWalk,
        after: Option<&str>,
    ) -> Result<Walked<(u64, Option<String>)>, StoreError> {
        let args = TakeBackArgs {
            version: shard.version(),
            lease: walk.lease,
            revision: walk.revision,
            walk: walk.number,
            after: after.unwrap_or_default(),
            count: TAKEN_BACK_MAX,
        };
        let keys = keys_of(shard, section);
        let reply = self.write(shard, &script::TAKE_BACK, keys, vec![pack(&args)?]);
        Ok(match walked(reply.await?)? {
            Walked::On(mut reply) => {
                let (won, last) = (reply.count()?, reply.text()?);
                Walked::On((won, Some(last).filter(|last| !last.is_empty())))
            }
            Walked::Superseded => Walked::Superseded,
        })
    }

    /// Claims what a member of this shard has won in a section.
    pub async fn claim(
        &self,
        shard: &Shard,
        section: &Section,
        claiming: Claiming<'_>,
    ) -> Result<Claimed, StoreError> {
        let args = ClaimArgs {
            version: shard.version(),
            member: claiming.member,
            rule: claiming.rule,
            by: claiming.by,
            at: claiming.at.ms(),
            revision: claiming.revision,
            hides: claiming.hides,
        };
        let keys = keys_of(shard, section);
        let reply = self.write(shard, &script::CLAIM, keys, vec![pack(&args)?]);
        let (code, mut reply) = Reply::versioned(reply.await?)?;
        let mut entry = || unpacked(&reply.bytes()?);
        Ok(match code.as_str() {
            "NEW" => Claimed::New(entry()?),
            "SAME" => Claimed::Same(entry()?),
            "TAKEN" => Claimed::Taken(entry()?),
            "REVOKED" => Claimed::Revoked(entry()?),
            "NONE" => Claimed::None,
            "BEHIND" => Claimed::Behind,
            other => return unknown_code(other),
        })
    }

    /// What members of this shard have won in a section, in the order of places, behind one: `count` rewards at the most,
    /// no more than [`REWARDS_READ_MAX`].
    pub async fn rewards(
        &self,
        shard: &Shard,
        section: &Section,
        after: Option<&RewardPlace>,
        count: usize,
    ) -> Result<Vec<(RewardPlace, RewardEntry)>, StoreError> {
        let from = after.map_or_else(|| "[l".to_owned(), |RewardPlace(name)| format!("({name}"));
        let range = (from, "(m".to_owned());
        let read = self.read_rewards(shard, section, range, count, None);
        let mut found = read.await?;
        let mut rewards = Vec::new();
        while !found.is_empty() {
            rewards.push((RewardPlace(found.text()?), unpacked(&found.bytes()?)?));
        }
        Ok(rewards)
    }

    /// What a member of this shard has won in a section.
    pub async fn rewards_of(
        &self,
        shard: &Shard,
        section: &Section,
        member: &str,
    ) -> Result<Vec<RewardEntry>, StoreError> {
        let range = (String::new(), String::new());
        let read = self.read_rewards(shard, section, range, 0, Some(member));
        let mut found = read.await?;
        let mut rewards: Vec<RewardEntry> = Vec::new();
        while !found.is_empty() {
            found.text()?;
            rewards.push(unpacked(&found.bytes()?)?);
        }
        rewards.sort_unstable_by_key(|entry| entry.rule);
        Ok(rewards)
    }

    /// How a revision has changed what members of this shard have won, in the order of places: `count` changes at the
    /// most, no more than [`REWARDS_READ_MAX`]. Each with the index of its rule and its member.
    pub async fn reward_changes(
        &self,
        shard: &Shard,
        section: &Section,
        revision: u64,
        count: usize,
    ) -> Result<Vec<(usize, String, RewardChange)>, StoreError> {
        let range = (
            format!("[c{revision:015}"),
            format!("(c{:015}", revision + 1),
        );
        let read = self.read_rewards(shard, section, range, count, None);
        let mut found = read.await?;
        let mut changes = Vec::new();
        while !found.is_empty() {
            let place = RewardPlace(found.text()?);
            let rule = require(place.rule(), "a change names its rule")?;
            let change = match found.text()?.as_str() {
                "gained" => RewardChange::Gained,
                "lost" => RewardChange::Lost,
                "revoked" => RewardChange::Revoked,
                "restored" => RewardChange::Restored,
                other => return unknown_code(other),
            };
            changes.push((rule, place.member().to_owned(), change));
        }
        Ok(changes)
    }

    async fn read_rewards(
        &self,
        shard: &Shard,
        section: &Section,
        (from, to): (String, String),
        count: usize,
        member: Option<&str>,
    ) -> Result<Reply, StoreError> {
        let args = ReadArgs {
            version: shard.version(),
            from,
            to,
            count: count.min(REWARDS_READ_MAX),
            member,
        };
        let keys = keys_of(shard, section);
        let reply = self.read(&script::READ_REWARDS, keys, vec![pack(&args)?]);
        Reply::answer(reply.await?)?.list()
    }
}

/// The head, the registry and the reward lines of a section.
fn keys_of(shard: &Shard, section: &Section) -> Vec<String> {
    let mut keys = keys::head_and_registry(shard);
    keys.push(keys::rewards(shard, section));
    keys
}

fn walked(value: fred::types::Value) -> Result<Walked<Reply>, StoreError> {
    let (code, reply) = Reply::versioned(value)?;
    Ok(match code.as_str() {
        "OK" => Walked::On(reply),
        "SUPERSEDED" => Walked::Superseded,
        other => return unknown_code(other),
    })
}

fn unpacked(packed: &Bytes) -> Result<RewardEntry, StoreError> {
    rmp_serde::from_slice(packed)
        .map_err(|error| StoreError::Unexpected(format!("an entry of a reward line: {error}")))
}
