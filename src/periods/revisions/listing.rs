//! Lists the revisions of results, with the rewards that each has changed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::store::{self, Moderation, RevisedMember};
use super::work::revise;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::shown_member;
use crate::domain::league::Section;
use crate::domain::part::Part;
use crate::domain::reward::RuleId;
use crate::domain::time::Timestamp;
use crate::periods::results::periods::PeriodName;
use crate::periods::rewards::store::{RewardChange, changes};
use crate::periods::rewards::work::final_section;
use crate::runtime::join::try_join_all;

/// How many reward changes of one revision are returned at most.
pub const CHANGES_MAX: usize = 100;

/// How the result of a period was revised.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Revision)]
pub struct RevisionBody {
    /// The resulting revision: 2 or more.
    pub revision: u64,
    /// When it was made.
    pub at: Timestamp,
    /// The members of the standing that were hidden or brought back since the previous revision; at most 100.
    pub members: Vec<RevisedMemberBody>,
    /// Whether events of the period were retracted, restored or corrected since the previous revision.
    pub corrected: bool,
    /// How many members the standing had before.
    pub total_before: u64,
    /// How many members it has.
    pub total: u64,
    /// The rewards that have changed; at most 100.
    pub rewards: Vec<RewardChangeBody>,
    /// Whether more rewards than these have changed.
    pub more_rewards: bool,
}

/// A member that was hidden or brought back.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = RevisedMember)]
pub struct RevisedMemberBody {
    /// The member; null if it was erased.
    pub member: Option<String>,
    /// Whether it was hidden or brought back.
    #[schema(inline)]
    pub action: Moderation,
    /// 1 + the number of members with a better score, without hidden ones.
    pub place: u64,
}

/// How a revision changed a reward.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = RewardChange)]
pub struct RewardChangeBody {
    /// The id of the rule.
    pub rule: RuleId,
    /// The member; null if it was erased.
    pub member: Option<String>,
    /// `gained`: it can now be claimed. `lost`: it can no longer be claimed. `revoked`: it was claimed, but is no longer
    /// won. `restored`: it was revoked, and is claimed again.
    #[schema(inline)]
    pub change: RewardChange,
}

impl From<(RevisedMember, Option<String>)> for RevisedMemberBody {
    fn from((revised, member): (RevisedMember, Option<String>)) -> Self {
        Self {
            member,
            action: revised.action,
            place: revised.place,
        }
    }
}

/// Up to `count` revisions of the result of a final period, after the given one.
pub async fn list(
    engine: &Engine,
    at: &PeriodName,
    cohort: Option<&str>,
    after: u64,
    count: usize,
) -> Result<Part<RevisionBody, u64>, Error> {
    revise(engine, &at.board).await?;
    engine
        .with_board(&at.board, async |live| {
            let found = final_section(engine, &live, at, (cohort, None)).await?;
            let Some((section, result)) = found else {
                return Ok(Part::last(Vec::new()));
            };
            // Revision 1 is the original result.
            let before = after.max(1);
            let last = before.saturating_add(count as u64).min(result.revision);
            let found = store::read(&engine.store, &live.board, &section, before + 1..=last)
                .await?
                .into_iter()
                .map(async |(revision, change, members)| {
                    let mut rewards = changes_of(engine, &live, &section, revision).await?;
                    let more_rewards = rewards.len() > CHANGES_MAX;
                    rewards.truncate(CHANGES_MAX);
                    let members = change.members.into_iter().zip(members);
                    Ok::<_, Error>(RevisionBody {
                        revision,
                        at: change.at,
                        members: members.map(RevisedMemberBody::from).collect(),
                        corrected: change.corrected,
                        total_before: change.total_before,
                        total: change.total,
                        rewards,
                        more_rewards,
                    })
                });
            let items = try_join_all(found).await?;
            let next = (last < result.revision).then_some(last);
            Ok(Part { items, next })
        })
        .await
}

/// The reward changes of a revision, up to one more than are returned.
async fn changes_of(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    revision: u64,
) -> Result<Vec<RewardChangeBody>, Error> {
    let store = &engine.store;
    let rules = live.board.all_rules_of(&section.period);
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let of_shards = live
        .shards_of(*section)
        .iter()
        .map(|shard| changes(store, &shard.shard, section, revision, CHANGES_MAX + 1));
    let mut all = try_join_all(of_shards).await?.concat();
    all.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    Ok(all
        .into_iter()
        .take(CHANGES_MAX + 1)
        .filter_map(|(rule, member, change)| {
            Some(RewardChangeBody {
                rule: rules.get(rule)?.id.clone(),
                member: shown_member(member),
                change,
            })
        })
        .collect())
}
