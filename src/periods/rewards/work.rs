//! Lists and claims the rewards of final periods.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::store::{
    self, ClaimOutcome, Claiming, REWARDS_READ_MAX, RewardEntry, RewardPlace, RewardState,
};
use crate::core::board::store::boards;
use crate::core::read::period::Choice;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId, shown_member};
use crate::domain::league::Section;
use crate::domain::part::Part;
use crate::domain::plan::StandingName;
use crate::domain::problems::{ALREADY_CLAIMED, Problem, REWARD_REVOKED};
use crate::domain::reward::{Reward, Rule, RuleId};
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;
use crate::periods::results::periods::PeriodName;
use crate::periods::results::store::PeriodResult;
use crate::periods::results::{self, histories};
use crate::periods::revisions;
use crate::runtime::join::try_join_all;

/// What a member has won by a rule.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Reward)]
pub struct RewardBody {
    /// The id of the rule.
    pub rule: RuleId,
    /// The member that won it; null if it was erased.
    pub member: Option<String>,
    /// The member's public rank. For a revoked reward: the rank with which the member last won it. Null in a claim without the
    /// scope `read` on a board that is not public.
    pub rank: Option<u64>,
    /// The member's score; null if the rank is null.
    pub score: Option<ShownScore>,
    /// What is won, as the rule defines it.
    pub reward: Reward,
    /// `open` until it is claimed, then `claimed`. `revoked`: it was claimed, but the member has since lost it, because a
    /// member was hidden or brought back.
    #[schema(inline)]
    pub state: RewardState,
    /// The name under which it was claimed; null if it is open.
    pub by: Option<String>,
    /// When it was claimed; null if it is open.
    pub claimed_at: Option<Timestamp>,
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

/// Rewards of a final period, sorted by rule, rank and member: up to `count` after `after`, or all of one
/// member.
pub async fn list(
    engine: &Engine,
    at: &PeriodName,
    whose: Whose<'_>,
    after: Option<&str>,
    count: usize,
) -> Result<Part<RewardBody>, Error> {
    revisions::work::revise(engine, &at.board).await?;
    engine
        .with_board(&at.board, async |live| {
            let Some((section, _)) = final_section(engine, &live, at, whose).await? else {
                return Ok(Part::last(Vec::new()));
            };
            let rules = live.board.all_rules_of(&section.period);
            let (found, limit) = if let (_, Some(member)) = whose {
                let shard = &live.shard_in(section, member).shard;
                let won = store::of_member(&engine.store, shard, &section, member.as_str())
                    .await?
                    .into_iter()
                    .map(|entry| (member.to_string(), entry));
                (won.collect(), usize::MAX)
            } else {
                let after = after.map(|after| place_of(rules, after)).transpose()?;
                let limit = count.min(REWARDS_READ_MAX - 1);
                let found = rewards_behind(engine, &live, &section, after.as_ref(), limit + 1);
                (found.await?, limit)
            };
            let is_more = found.len() > limit;
            // The last one whose rule is known names the next part.
            let (mut items, mut last) = (Vec::new(), None);
            for (member, entry) in found.into_iter().take(limit) {
                let rule = rules.get(entry.rule).map(|rule| &rule.id);
                last = rule
                    .map(|rule| format!("{rule}:{}:{member}", entry.rank))
                    .or(last);
                items.extend(RewardBody::new(&live.board, rules, member, entry));
            }
            Ok(Part {
                items,
                next: last.filter(|_| is_more),
            })
        })
        .await
}

/// Claims a reward. Returns it as it was then, the board, and whether this call was the first to claim it.
///
/// # Errors
///
/// [`Problem::reward_not_found`] if the member has not won it or is hidden, [`ALREADY_CLAIMED`] if it was claimed under
/// another name, [`REWARD_REVOKED`] if it was claimed and later revoked.
pub async fn claim(
    engine: &Engine,
    request: &ClaimRequest,
) -> Result<(RewardBody, Arc<LiveBoard>, bool), Error> {
    let ClaimRequest { board, member, .. } = request;
    let at = &PeriodName {
        board: board.clone(),
        window: request.window.clone(),
        choice: Choice::Key(request.key.clone()),
    };
    let not_found = || {
        let standing = StandingName {
            window: request.window.as_str().into(),
            key: request.key.as_str().into(),
        };
        let (rule, member) = (&request.rule, member.as_str());
        Error::from(Problem::reward_not_found(board, &standing, rule, member))
    };
    engine
        .with_board(board, async |live| {
            let revised = revisions::work::revise(engine, board).await?;
            let (section, result) = final_section(engine, &live, at, (None, Some(member)))
                .await?
                .ok_or_else(not_found)?;
            let mut rules = live.board.rules_of(&section.period);
            let named = rules.find(|(_, rule)| rule.id == request.rule);
            let (rule, _) = named.ok_or_else(not_found)?;
            let shard = &live.shard_in(section, member).shard;
            let hides = results::store::change_counters(&engine.store, shard)
                .await?
                .hides;
            let mut is_revised = revised.has(shard.tag(), hides);
            if is_revised && live.board.is_league() {
                // The first shard of a league has all hides.
                let first = &live.shards[0].shard;
                let hides = results::store::change_counters(&engine.store, first)
                    .await?
                    .hides;
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
                revision: result.revision,
                hides,
            };
            let refused =
                |kind, entry: RewardEntry| Err(Problem::claimed(kind, claim_of(&entry)).into());
            let claimed = store::claim(&engine.store, shard, &section, claiming);
            let (mut entry, is_new) = match claimed.await? {
                ClaimOutcome::Behind => return Err(Error::Again(Outdated::Read)),
                ClaimOutcome::None => return Err(not_found()),
                ClaimOutcome::New(entry) => (entry, true),
                ClaimOutcome::Same(entry) => (entry, false),
                ClaimOutcome::Taken(entry) => return refused(ALREADY_CLAIMED, entry),
                ClaimOutcome::Revoked(entry) => return refused(REWARD_REVOKED, entry),
            };
            let rules = live.board.all_rules_of(&section.period);
            // A later response to the same claimant is the same as the first.
            entry.rank = entry.claim.as_ref().map_or(entry.rank, |claim| claim.rank);
            let reward = RewardBody::new(&live.board, rules, member.to_string(), entry);
            Ok((reward.ok_or_else(not_found)?, Arc::clone(&live), is_new))
        })
        .await
}

/// A section that has a result, and the result, without names of erased members; `None` if the member had no seat in this
/// period of a league.
pub(crate) async fn final_section(
    engine: &Engine,
    live: &LiveBoard,
    at: &PeriodName,
    whose: Whose<'_>,
) -> Result<Option<(Section, PeriodResult)>, Error> {
    let board = &live.board;
    engine.forget_all(&board.id).await?;
    engine.require_current(live)?;
    let mut target = at.target(engine, live)?;
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
    if let Some(recorded) = results::store::read(&engine.store, board, &section).await? {
        return Ok(Some((section, recorded.result)));
    }
    let closings = boards::closings(&engine.store, &board.id).await?;
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

impl RewardBody {
    /// A member's reward on a board whose period has these rules; `None` if its rule is not one of them.
    fn new(board: &Board, rules: &[Rule], member: String, entry: RewardEntry) -> Option<Self> {
        let rule = rules.get(entry.rule)?;
        let (by, claimed_at) = entry.claim.map(|claim| (claim.by, claim.at)).unzip();
        Some(Self {
            rule: rule.id.clone(),
            member: shown_member(member),
            rank: Some(entry.rank),
            score: Some(entry.score.shown(board.definition.decimals)),
            reward: rule.reward.clone(),
            state: entry.state,
            by,
            claimed_at,
        })
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
