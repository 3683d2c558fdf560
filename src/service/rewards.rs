//! What members have won in final periods: lists it, and lets callers claim it; and how results were revised.

use std::sync::Arc;

use super::period::{Choice, Target};
use super::results::unit_of;
use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::part::Part;
use crate::domain::plan::StandingName;
use crate::domain::reward::{Reward, Rule, RuleId};
use crate::domain::series::Track;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::engine::LiveBoard;
use crate::engine::Outdated;
use crate::engine::revisions::Revised;
use crate::join::try_join_all;
use crate::problems::{ALREADY_CLAIMED, Problem, REWARD_REVOKED};
use crate::store::results::PeriodResult;
use crate::store::revisions::Revision;
use crate::store::rewards::{
    Claimed, Claiming, REWARDS_READ_MAX, RewardChange, RewardEntry, RewardPlace,
};

/// The most changes of rewards that are shown of one revision.
pub const CHANGES_MAX: usize = 100;

/// What a member has won by a rule.
#[derive(Clone, Debug)]
pub struct FoundReward {
    /// The rule.
    pub rule: RuleId,
    /// What it gives.
    pub reward: Reward,
    /// Who has won it.
    pub member: String,
    /// The rest.
    pub entry: RewardEntry,
}

/// How the result of a period was revised.
#[derive(Clone, Debug)]
pub struct FoundRevision {
    /// Its number.
    pub revision: u64,
    /// What has changed.
    pub change: Revision,
    /// Who was hidden or brought back, in the order of the change; `None` once that member was erased.
    pub members: Vec<Option<String>>,
    /// Whose rewards have changed, some of them if they are many.
    pub rewards: Vec<(RuleId, String, RewardChange)>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A reward of which a claim is made.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Of which board.
    pub board: BoardId,
    /// Of which window.
    pub window: String,
    /// The key of the period.
    pub key: String,
    /// By which rule.
    pub rule: RuleId,
    /// Who has won it.
    pub member: MemberId,
    /// Under which name it is claimed.
    pub by: String,
}

/// Which part of a period is meant.
#[derive(Clone, Copy, Debug)]
enum Whose<'a> {
    /// Of a league this cohort, by what users call it; otherwise all of it.
    Cohort(Option<&'a str>),
    /// Of a league the cohort of this member; otherwise all of it.
    Member(&'a MemberId),
}

/// A final section.
struct FinalSection {
    live: Arc<LiveBoard>,
    section: Section,
    /// Its name among the results.
    name: String,
    window: Window,
    result: PeriodResult,
}

impl ClaimRequest {
    fn not_found(&self) -> Error {
        let standing = StandingName {
            window: self.window.as_str().into(),
            key: self.key.as_str().into(),
        };
        let member = self.member.as_str();
        Problem::reward_not_found(&self.board, &standing, &self.rule, member).into()
    }
}

impl Service {
    /// What members have won in a final period, by rules, ranks and members: up to `count` rewards behind `after`; or all that one
    /// member has won. With the board.
    pub async fn rewards(
        &self,
        (id, window, choice): (&BoardId, &str, &Choice),
        (cohort, member): (Option<&str>, Option<&MemberId>),
        after: Option<&str>,
        count: usize,
    ) -> Result<(Arc<LiveBoard>, Part<FoundReward>), Error> {
        self.engine.revise(id).await?;
        let whose = match (cohort, member) {
            (None, Some(member)) => Whose::Member(member),
            (cohort, _) => Whose::Cohort(cohort),
        };
        self.engine
            .with_board(id, async |live| {
                let at = self.final_section(&live, window, choice, whose);
                let Some(at) = at.await? else {
                    return Ok((live, Part::last(Vec::new())));
                };
                let rules = at.live.board.all_rules_of(&at.section.period);
                let mut found = if let Some(member) = member {
                    self.rewards_of(&at, member).await?
                } else {
                    let after = after.map(|after| place_of(rules, after)).transpose()?;
                    let count = count.min(REWARDS_READ_MAX - 1);
                    self.rewards_behind(&at, after.as_ref(), count + 1).await?
                };
                let is_more = member.is_none() && found.len() > count;
                if is_more {
                    found.truncate(count);
                }
                let known = found.into_iter();
                let rewards: Vec<FoundReward> = known
                    .filter_map(|(member, entry)| FoundReward::new(rules, member, entry))
                    .collect();
                let part = Part {
                    next: rewards.last().filter(|_| is_more).map(FoundReward::cursor),
                    items: rewards,
                };
                Ok((live, part))
            })
            .await
    }

    /// Claims a reward. Returns it, and whether it was claimed only now.
    ///
    /// # Errors
    ///
    /// [`Problem::reward_not_found`] if the member has not won it or is hidden, [`ALREADY_CLAIMED`] if it was claimed under
    /// another name, [`REWARD_REVOKED`] if it was claimed and is not won any more.
    pub async fn claim(
        &self,
        request: &ClaimRequest,
    ) -> Result<(FoundReward, Arc<LiveBoard>, bool), Error> {
        let claim = async |live| self.try_claim(live, request).await;
        self.engine.with_board(&request.board, claim).await
    }

    /// Whether all hides of a league are in all results. Its first shard tells of them; of other boards this says nothing.
    async fn has_all_hides(&self, live: &LiveBoard, revised: &Revised) -> Result<bool, Error> {
        if !live.board.is_league() {
            return Ok(true);
        }
        let first = &live.shards[0].shard;
        let hides = self.engine.store.moderated(first).await?.hides;
        Ok(revised.has(first.tag(), hides))
    }

    /// [`Error::Again`] also if the result has to be revised first.
    async fn try_claim(
        &self,
        live: Arc<LiveBoard>,
        request: &ClaimRequest,
    ) -> Result<(FoundReward, Arc<LiveBoard>, bool), Error> {
        let (board, member) = (&live.board, &request.member);
        let not_found = || request.not_found();
        let revised = self.engine.revise(&request.board).await?;
        let choice = Choice::Key(request.key.clone());
        let whose = Whose::Member(member);
        let at = self
            .final_section(&live, &request.window, &choice, whose)
            .await?;
        let at = at.ok_or_else(not_found)?;
        let mut rules = board.rules_of(&at.section.period);
        let named = rules.find(|(_, rule)| rule.id == request.rule);
        let (rule, _) = named.ok_or_else(not_found)?;
        let shard = &live.shard_in(at.section, member).shard;
        let hides = self.engine.store.moderated(shard).await?.hides;
        if !revised.has(shard.tag(), hides) || !self.has_all_hides(&live, &revised).await? {
            return Err(Error::Again(Outdated::Read));
        }
        let claiming = Claiming {
            member: member.as_str(),
            rule,
            by: &request.by,
            at: self.engine.clock.now(),
            revision: at.result.revision,
            hides,
        };
        let claimed = self.engine.store.claim(shard, &at.section, claiming);
        let (entry, is_new) = match claimed.await? {
            Claimed::Behind => return Err(Error::Again(Outdated::Read)),
            Claimed::None => return Err(not_found()),
            Claimed::New(entry) => (entry, true),
            Claimed::Same(entry) => (entry, false),
            Claimed::Taken(entry) => {
                return Err(Problem::claimed(ALREADY_CLAIMED, claim_of(&entry)).into());
            }
            Claimed::Revoked(entry) => {
                return Err(Problem::claimed(REWARD_REVOKED, claim_of(&entry)).into());
            }
        };
        let rules = board.all_rules_of(&at.section.period);
        let found = FoundReward::new(rules, member.to_string(), entry);
        let found = found.ok_or_else(not_found)?;
        Ok((found, Arc::clone(&live), is_new))
    }

    /// How the result of a final period was revised, behind a revision: up to `count` revisions.
    pub async fn revisions(
        &self,
        (id, window, choice, cohort): (&BoardId, &str, &Choice, Option<&str>),
        after: u64,
        count: usize,
    ) -> Result<Part<FoundRevision, u64>, Error> {
        self.engine.revise(id).await?;
        self.engine
            .with_board(id, async |live| {
                let at = self.final_section(&live, window, choice, Whose::Cohort(cohort));
                let Some(at) = at.await? else {
                    return Ok(Part::last(Vec::new()));
                };
                let board = &at.live.board;
                // The first has revised nothing.
                let first = after.max(1) + 1;
                let last = at
                    .result
                    .revision
                    .min(after.max(1).saturating_add(count as u64));
                let store = &self.engine.store;
                let known = store.revisions(board, (at.window, &at.name), first..=last);
                let found = known.await?.into_iter();
                let found = found.map(async |(revision, change, members)| {
                    let rewards = self.changes_of(&at, revision).await?;
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

    /// A section that has a result, in which nobody has a name any more who was erased; `None` if the member had no seat in this
    /// period of a league.
    async fn final_section(
        &self,
        live: &Arc<LiveBoard>,
        window: &str,
        choice: &Choice,
        whose: Whose<'_>,
    ) -> Result<Option<FinalSection>, Error> {
        self.engine.forget_all(&live.board.id).await?;
        self.engine.require_current(live)?;
        let (named, _) = unit_of(live, window)?;
        let now = self.engine.clock.now();
        let target = Target::find(live, window, Track::Shown, choice, now)?;
        let Some(target) = self.target_of(live, target, whose).await? else {
            return Ok(None);
        };
        let section = target.standing.section();
        let name = live.board.section_key(&section);
        let recorded = self.engine.store.result(&live.board, named, &name).await?;
        let Some(recorded) = recorded else {
            return Err(self.without_result(live, &target).await?);
        };
        Ok(Some(FinalSection {
            live: Arc::clone(live),
            section,
            name,
            window: named,
            result: recorded.result,
        }))
    }

    /// Why a section has no result.
    async fn without_result(&self, live: &LiveBoard, target: &Target) -> Result<Error, Error> {
        let board = &live.board;
        let closings = self.engine.store.closings(&board.id).await?;
        let end = board.end_of(&target.standing.period);
        let results_until = closings.unwrap_or_default().results_until;
        let is_closed = end.is_some_and(|end| results_until >= Some(end));
        Ok(match &target.cohort {
            Some(cohort) if is_closed => target.cohort_not_found(board, cohort),
            _ => target.without_result(board, is_closed),
        })
    }

    /// The same target in the cohort that is meant; `None` if the member had no seat in this period.
    async fn target_of(
        &self,
        live: &LiveBoard,
        target: Target,
        whose: Whose<'_>,
    ) -> Result<Option<Target>, Error> {
        let board = &live.board;
        let member = match whose {
            Whose::Member(member) if board.is_league() => member,
            Whose::Member(_) => return Ok(Some(target)),
            Whose::Cohort(cohort) => return target.in_cohort(board, cohort).map(Some),
        };
        let period = &target.standing.period;
        let seat = self.engine.rewarded_seat(live, member, period).await?;
        let cohort = seat.and_then(|seat| seat.cohort);
        Ok(cohort.map(|cohort| target.of_cohort(board, cohort)))
    }

    /// What a member has won.
    async fn rewards_of(
        &self,
        at: &FinalSection,
        member: &MemberId,
    ) -> Result<Vec<(String, RewardEntry)>, Error> {
        let shard = &at.live.shard_in(at.section, member).shard;
        let store = &self.engine.store;
        let found = store.rewards_of(shard, &at.section, member.as_str());
        let found = found.await?.into_iter();
        Ok(found.map(|entry| (member.to_string(), entry)).collect())
    }

    /// The first rewards of all shards behind a place.
    async fn rewards_behind(
        &self,
        at: &FinalSection,
        after: Option<&RewardPlace>,
        count: usize,
    ) -> Result<Vec<(String, RewardEntry)>, Error> {
        let shards = at.live.shards_of(at.section).iter();
        let store = &self.engine.store;
        let of_shards = shards.map(|shard| store.rewards(&shard.shard, &at.section, after, count));
        let mut all = try_join_all(of_shards).await?.concat();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all.truncate(count);
        let all = all.into_iter();
        Ok(all
            .map(|(place, entry)| (place.member().to_owned(), entry))
            .collect())
    }

    /// Whose rewards a revision has changed, one more than are shown if there are so many.
    async fn changes_of(
        &self,
        at: &FinalSection,
        revision: u64,
    ) -> Result<Vec<(RuleId, String, RewardChange)>, Error> {
        let (store, rules) = (
            &self.engine.store,
            at.live.board.all_rules_of(&at.section.period),
        );
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let shards = at.live.shards_of(at.section).iter();
        let of_shards = shards.map(|shard| {
            store.reward_changes(&shard.shard, &at.section, revision, CHANGES_MAX + 1)
        });
        let mut all = try_join_all(of_shards).await?.concat();
        all.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        all.truncate(CHANGES_MAX + 1);
        let all = all.into_iter();
        let all = all.filter_map(|(rule, member, change)| {
            Some((rules.get(rule)?.id.clone(), member, change))
        });
        Ok(all.collect())
    }
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

    /// What to send as `after` for those behind it.
    fn cursor(&self) -> String {
        format!("{}:{}:{}", self.rule, self.entry.rank, self.member)
    }
}

/// The place in the list that a cursor names.
fn place_of(rules: &[Rule], cursor: &str) -> Result<RewardPlace, Error> {
    let mut parts = cursor.splitn(3, ':');
    let mut part = || parts.next();
    let place = (|| {
        let (rule, rank, member) = (part()?, part()?, part()?);
        let index = rules.iter().position(|own| own.id.as_str() == rule)?;
        Some(RewardPlace::of_reward(index, rank.parse().ok()?, member))
    })();
    place.ok_or_else(|| {
        Problem::invalid_parameter("after", "is not what an answer has as `next`").into()
    })
}

/// Who has claimed a reward, and when.
fn claim_of(entry: &RewardEntry) -> (String, Timestamp) {
    let claim = entry.claim.as_ref();
    let claim = claim.expect("invariant: a reward that is claimed or revoked has its claim");
    (claim.by.clone(), claim.at)
}
