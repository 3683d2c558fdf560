//! Lists the revisions of results, with the rewards that each has changed.

use super::store::{self, Revision};
use super::work::revise;
use crate::core::read::period::Choice;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::BoardId;
use crate::domain::league::Section;
use crate::domain::part::Part;
use crate::domain::reward::RuleId;
use crate::periods::rewards::store::{RewardChange, changes};
use crate::periods::rewards::work::final_section;
use crate::runtime::join::try_join_all;

/// How many reward changes of one revision are returned at most.
pub const CHANGES_MAX: usize = 100;

/// How the result of a period was revised.
#[derive(Clone, Debug)]
pub struct FoundRevision {
    pub revision: u64,
    pub change: Revision,
    /// The members hidden or brought back, in the order of the change; `None` once erased.
    pub members: Vec<Option<String>>,
    /// The reward changes, truncated if there are many.
    pub rewards: Vec<(RuleId, String, RewardChange)>,
    /// Whether `rewards` is truncated.
    pub has_more: bool,
}

/// Up to `count` revisions of the result of a final period, after the given one.
pub async fn list(
    engine: &Engine,
    (id, window, choice, cohort): (&BoardId, &str, &Choice, Option<&str>),
    after: u64,
    count: usize,
) -> Result<Part<FoundRevision, u64>, Error> {
    revise(engine, id).await?;
    engine
        .with_board(id, async |live| {
            let Some(at) = final_section(engine, &live, window, choice, (cohort, None)).await?
            else {
                return Ok(Part::last(Vec::new()));
            };
            // Revision 1 is the original result.
            let first = after.max(1) + 1;
            let last = after
                .max(1)
                .saturating_add(count as u64)
                .min(at.result.revision);
            let store = &engine.store;
            let found = store::read(store, &live.board, (at.window, &at.name), first..=last)
                .await?
                .into_iter()
                .map(async |(revision, change, members)| {
                    let rewards = changes_of(engine, &live, &at.section, revision).await?;
                    let has_more = rewards.len() > CHANGES_MAX;
                    Ok::<_, Error>(FoundRevision {
                        revision,
                        change,
                        members,
                        rewards: rewards.into_iter().take(CHANGES_MAX).collect(),
                        has_more,
                    })
                });
            let items = try_join_all(found).await?;
            let next = (last < at.result.revision).then_some(last);
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
) -> Result<Vec<(RuleId, String, RewardChange)>, Error> {
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
        .filter_map(|(rule, member, change)| Some((rules.get(rule)?.id.clone(), member, change)))
        .collect())
}
