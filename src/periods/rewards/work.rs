//! Lists and claims the rewards of final periods.

use std::sync::Arc;

use super::store::{self, Claimed, Claiming, REWARDS_READ_MAX, RewardEntry, RewardPlace};
use crate::core::board::store::boards;
use crate::core::read::period::{Choice, Target};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::part::Part;
use crate::domain::plan::StandingName;
use crate::domain::problems::{ALREADY_CLAIMED, Problem, REWARD_REVOKED};
use crate::domain::reward::{Reward, Rule, RuleId};
use crate::domain::series::Track;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::periods::results::periods::unit_of;
use crate::periods::results::store::PeriodResult;
use crate::periods::results::{self, histories};
use crate::periods::revisions;
use crate::runtime::join::try_join_all;

/// What a member has won by a rule.
#[derive(Clone, Debug)]
pub struct FoundReward {
    pub rule: RuleId,
    /// What it gives.
    pub reward: Reward,
    pub member: String,
    /// Its rank, score, state and claim.
    pub entry: RewardEntry,
}

/// A request to claim a reward.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub board: BoardId,
    pub window: String,
    pub key: String,
    pub rule: RuleId,
    pub member: MemberId,
    /// The name of the claimant.
    pub by: String,
}

/// Selects a section: in a league the named cohort (as users call it) or that of the member; otherwise the whole period.
pub(crate) type Whose<'a> = (Option<&'a str>, Option<&'a MemberId>);

pub(crate) struct FinalSection {
    pub section: Section,
    /// Its name among the results.
    pub name: String,
    pub window: Window,
    pub result: PeriodResult,
}

/// The board, and rewards of a final period sorted by rule, rank and member: up to `count` after `after`, or all of one
/// member.
pub async fn list(
    engine: &Engine,
    (id, window, choice): (&BoardId, &str, &Choice),
    whose: Whose<'_>,
    after: Option<&str>,
    count: usize,
) -> Result<(Arc<LiveBoard>, Part<FoundReward>), Error> {
    revisions::work::revise(engine, id).await?;
    engine
        .with_board(id, async |live| {
            let Some(at) = final_section(engine, &live, window, choice, whose).await? else {
                return Ok((live, Part::last(Vec::new())));
            };
            let rules = live.board.all_rules_of(&at.section.period);
            let store = &engine.store;
            let (found, limit) = if let (_, Some(member)) = whose {
                let shard = &live.shard_in(at.section, member).shard;
                let won = store::of_member(store, shard, &at.section, member.as_str())
                    .await?
                    .into_iter()
                    .map(|entry| (member.to_string(), entry));
                (won.collect(), usize::MAX)
            } else {
                let after = after.map(|after| place_of(rules, after)).transpose()?;
                let limit = count.min(REWARDS_READ_MAX - 1);
                let found = rewards_behind(engine, &live, &at.section, after.as_ref(), limit + 1);
                (found.await?, limit)
            };
            let is_more = found.len() > limit;
            let items: Vec<_> = found
                .into_iter()
                .take(limit)
                .filter_map(|(member, entry)| FoundReward::new(rules, member, entry))
                .collect();
            let next = items.last().filter(|_| is_more).map(FoundReward::cursor);
            Ok((live, Part { items, next }))
        })
        .await
}

/// Claims a reward. Returns it, and whether this call was the first to claim it.
///
/// # Errors
///
/// [`Problem::reward_not_found`] if the member has not won it or is hidden, [`ALREADY_CLAIMED`] if it was claimed under
/// another name, [`REWARD_REVOKED`] if it was claimed and later revoked.
pub async fn claim(
    engine: &Engine,
    request: &ClaimRequest,
) -> Result<(FoundReward, Arc<LiveBoard>, bool), Error> {
    let member = &request.member;
    let not_found = || {
        let standing = StandingName {
            window: request.window.as_str().into(),
            key: request.key.as_str().into(),
        };
        let (board, rule, member) = (&request.board, &request.rule, member.as_str());
        Error::from(Problem::reward_not_found(board, &standing, rule, member))
    };
    let choice = Choice::Key(request.key.clone());
    engine
        .with_board(&request.board, async |live| {
            let revised = revisions::work::revise(engine, &request.board).await?;
            let whose = (None, Some(member));
            let at = final_section(engine, &live, &request.window, &choice, whose)
                .await?
                .ok_or_else(not_found)?;
            let mut rules = live.board.rules_of(&at.section.period);
            let named = rules.find(|(_, rule)| rule.id == request.rule);
            let (rule, _) = named.ok_or_else(not_found)?;
            let shard = &live.shard_in(at.section, member).shard;
            let hides = results::store::moderated(&engine.store, shard).await?.hides;
            let mut is_revised = revised.has(shard.tag(), hides);
            if is_revised && live.board.is_league() {
                // The first shard of a league has all hides.
                let first = &live.shards[0].shard;
                let hides = results::store::moderated(&engine.store, first).await?.hides;
                is_revised = revised.has(first.tag(), hides);
            }
            if !is_revised {
                return Err(Error::Again(Outdated::Read));
            }
            let claiming = Claiming {
                member: member.as_str(),
                rule,
                by: &request.by,
                at: engine.clock.now(),
                revision: at.result.revision,
                hides,
            };
            let refused =
                |kind, entry: RewardEntry| Err(Problem::claimed(kind, claim_of(&entry)).into());
            let claimed = store::claim(&engine.store, shard, &at.section, claiming);
            let (entry, is_new) = match claimed.await? {
                Claimed::Behind => return Err(Error::Again(Outdated::Read)),
                Claimed::None => return Err(not_found()),
                Claimed::New(entry) => (entry, true),
                Claimed::Same(entry) => (entry, false),
                Claimed::Taken(entry) => return refused(ALREADY_CLAIMED, entry),
                Claimed::Revoked(entry) => return refused(REWARD_REVOKED, entry),
            };
            let rules = live.board.all_rules_of(&at.section.period);
            let found = FoundReward::new(rules, member.to_string(), entry);
            Ok((found.ok_or_else(not_found)?, Arc::clone(&live), is_new))
        })
        .await
}

/// A section that has a result, without names of erased members; `None` if the member had no seat in this period of a
/// league.
pub(crate) async fn final_section(
    engine: &Engine,
    live: &LiveBoard,
    window: &str,
    choice: &Choice,
    whose: Whose<'_>,
) -> Result<Option<FinalSection>, Error> {
    let board = &live.board;
    engine.forget_all(&board.id).await?;
    engine.require_current(live)?;
    let (named, _) = unit_of(live, window)?;
    let mut target = Target::find(live, window, Track::Shown, choice, engine.clock.now())?;
    let period = target.standing.period;
    match whose {
        (None, Some(member)) if board.is_league() => {
            let seat = histories::rewarded_seat(engine, live, member, &period).await?;
            let Some(cohort) = seat.and_then(|seat| seat.cohort) else {
                return Ok(None);
            };
            target = target.of_cohort(board, cohort);
        }
        (None, Some(_)) => {}
        (cohort, _) => target = target.in_cohort(board, cohort)?,
    }
    let section = target.standing.section();
    let name = board.section_key(&section);
    if let Some(recorded) = results::store::read(&engine.store, board, named, &name).await? {
        return Ok(Some(FinalSection {
            section,
            name,
            window: named,
            result: recorded.result,
        }));
    }
    let closings = boards::closings(&engine.store, &board.id)
        .await?
        .unwrap_or_default();
    let end = board.end_of(&period);
    let is_closed = end.is_some_and(|end| closings.results_until >= Some(end));
    Err(match &target.cohort {
        Some(cohort) if is_closed => target.cohort_not_found(board, cohort),
        _ => target.without_result(board, is_closed),
    })
}

/// The first rewards of all shards after a place.
async fn rewards_behind(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    after: Option<&RewardPlace>,
    count: usize,
) -> Result<Vec<(String, RewardEntry)>, Error> {
    let shards = live.shards_of(*section).iter();
    let store = &engine.store;
    let of_shards = shards.map(|shard| store::list(store, &shard.shard, section, after, count));
    let mut all = try_join_all(of_shards).await?.concat();
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(all
        .into_iter()
        .take(count)
        .map(|(place, entry)| (place.member().to_owned(), entry))
        .collect())
}

impl FoundReward {
    fn new(rules: &[Rule], member: String, entry: RewardEntry) -> Option<Self> {
        let rule = rules.get(entry.rule)?;
        Some(Self {
            rule: rule.id.clone(),
            reward: rule.reward.clone(),
            member,
            entry,
        })
    }

    /// The cursor (`after`) for the rewards that follow.
    fn cursor(&self) -> String {
        format!("{}:{}:{}", self.rule, self.entry.rank, self.member)
    }
}

/// The place in the list that a cursor names.
fn place_of(rules: &[Rule], cursor: &str) -> Result<RewardPlace, Error> {
    let place = cursor.split_once(':').and_then(|(rule, rest)| {
        let (rank, member) = rest.split_once(':')?;
        let index = rules.iter().position(|own| own.id.as_str() == rule)?;
        Some(RewardPlace::of_reward(index, rank.parse().ok()?, member))
    });
    place.ok_or_else(|| Problem::invalid_parameter("after", "is not a `next` of this list").into())
}

/// The claimant of a reward, and the time of the claim.
fn claim_of(entry: &RewardEntry) -> (String, Timestamp) {
    let claim = entry
        .claim
        .as_ref()
        .expect("invariant: a reward that is claimed or revoked has its claim");
    (claim.by.clone(), claim.at)
}
