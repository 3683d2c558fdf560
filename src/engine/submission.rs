//! Taking events.
//!
//! The events of a request are grouped by board, planned, and put into the board's line in groups of bounded
//! cost, which may share a call with those of other requests. Each event has its own result.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;

use super::batcher::Work;
use super::{ATTEMPTS_MAX, Engine, Error, LiveBoard, reservations};
use crate::domain::board::Board;
use crate::domain::event::{Detail, Event, Origin, Outcome};
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::plan::{Route, StandingName};
use crate::domain::score::Score;
use crate::domain::series::Track;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::store::events::{Answer, CALL_COST_US_MAX, CALL_EVENTS_MAX, Ready};
use crate::store::{Store, StoreError, Versioned};

/// The most events of one request.
pub const BATCH_MAX: usize = 1_000;
/// The pauses of events that wait for others on their way double from the one to the other, in milliseconds.
const PAUSE_MS_MIN: u64 = 5;
const PAUSE_MS_MAX: u64 = 100;
/// How many pauses there are: two seconds in all.
const PAUSES_MAX: usize = 23;

/// An event as it came in: its score is not read yet, since that takes the board's decimals.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Incoming {
    /// The board.
    pub board: BoardId,
    /// Makes a retry recognisable.
    pub id: Option<EventId>,
    /// Whose score.
    pub member: MemberId,
    /// The text of a JSON number.
    pub score: String,
    /// When it happened; without one, now.
    pub at: Option<Timestamp>,
    /// Where it comes from.
    pub origin: Origin,
}

/// What is asked of events that are taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// What the outcomes name.
    pub detail: Detail,
    /// Whether they tell what is left of the board's quotas.
    pub quotas: bool,
}

/// An event that was taken.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// What it did, now or the first time.
    pub outcome: Outcome,
    /// Whether it was known already.
    pub is_duplicate: bool,
    /// What it leaves of the board's quotas, if that was asked.
    pub quotas: Vec<QuotaLeft>,
    route: Arc<Route>,
}

/// What an event leaves of a quota.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaLeft {
    /// The quota's name.
    pub name: String,
    /// How much it allows, in events or points.
    pub max: u64,
    /// How long its window is, in seconds; `None` for all time.
    pub window_s: Option<u64>,
    /// How much is left, in whole events or points.
    pub left: u64,
    /// How long until more is left, in seconds, rounded up; `None` for never, and for sliding windows.
    pub wait_s: Option<u64>,
}

impl QuotaLeft {
    fn new(board: &Board, place: usize, left: i64, at: Timestamp, now: Timestamp) -> Option<Self> {
        let quota = board.quotas.get(place)?;
        let point = 10_u64.pow(u32::from(quota.decimals(board).digits()));
        Some(Self {
            name: quota.name.clone(),
            max: quota.max,
            window_s: quota.window_s(board, at),
            left: left.max(0).unsigned_abs() / point,
            wait_s: quota.frees_at(board, at).map(|at| at.seconds_after(now)),
        })
    }
}

impl Submitted {
    /// What a standing is called that the outcome reports.
    pub fn standing_name(&self, window: Window) -> StandingName {
        self.route.name(&self.live.board, window, self.outcome.at)
    }
}

/// An event on its way.
pub(crate) struct Pending<'a> {
    pub(crate) index: usize,
    pub(crate) incoming: &'a Incoming,
    pub(crate) with_history: bool,
    /// Whether it has to wait until others that are on their way have come to their end.
    pub(crate) is_waiting: bool,
}

/// An event that is on its way to the store.
pub(crate) struct Planned<'a> {
    item: Pending<'a>,
    /// The instant that it counts for.
    at: Timestamp,
    route: Arc<Route>,
}

/// A result, and where it stands in its request.
type Answered = (usize, Result<Submitted, Error>);

/// What has to be sent again, and the standing that has to be completed before.
type Again<'a> = (Pending<'a>, Option<(Window, Timestamp)>);

/// An event that is planned, and what of it goes to the store.
pub(crate) type Way<'a> = (Planned<'a>, Ready);

impl<'a> Planned<'a> {
    /// Where it stands in its request.
    pub(crate) fn place(&self) -> usize {
        self.item.index
    }

    /// What has to be sent again.
    pub(crate) fn into_pending(self) -> Pending<'a> {
        self.item
    }

    /// What became of it, or what has to be done.
    pub(crate) fn result(
        self,
        live: &Arc<LiveBoard>,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Answered, Again<'a>> {
        let Self {
            mut item,
            at,
            route,
        } = self;
        let board = &live.board;
        let submitted = |outcome, is_duplicate, lefts: Vec<i64>| {
            let lefts = lefts.into_iter().enumerate();
            let left = |(place, left)| QuotaLeft::new(board, place, left, at, now);
            Ok(Submitted {
                live: Arc::clone(live),
                outcome,
                is_duplicate,
                quotas: lefts.filter_map(left).collect(),
                route,
            })
        };
        let result = match answer {
            Answer::Taken(outcome, lefts) => submitted(outcome, false, lefts),
            Answer::Duplicate(outcome) => submitted(outcome, true, Vec::new()),
            Answer::Rejected(rejection) => Err(Error::rejected(board, rejection, at, now)),
            Answer::NeedsHistory => {
                item.with_history = true;
                return Err((item, None));
            }
            Answer::Waits => {
                item.is_waiting = true;
                return Err((item, None));
            }
            Answer::Void => return Err((item, None)),
            Answer::NeedsStanding(window) => return Err((item, Some((window, at)))),
        };
        Ok((item.index, result))
    }
}

/// What became of events that went together.
pub(crate) type Reply = Result<Versioned<Vec<Answer>>, StoreError>;

/// The events of one shard being carried out.
#[derive(Debug)]
pub struct Applying {
    /// Where.
    pub store: Arc<Store>,
    /// The shard.
    pub shard: Shard,
}

/// Events that go together, what they cost, and when they were planned.
#[derive(Debug)]
pub struct Group {
    events: Vec<Ready>,
    load: Load,
    planned_at: Timestamp,
}

/// What is in a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    events: usize,
    cost_us: usize,
}

impl Load {
    fn and(self, more: Self) -> Self {
        Self {
            events: self.events + more.events,
            cost_us: self.cost_us + more.cost_us,
        }
    }

    /// Whether it fits into one call.
    fn fits(self) -> bool {
        self.events <= CALL_EVENTS_MAX && self.cost_us <= CALL_COST_US_MAX
    }
}

/// What a call says, shared out among the jobs that it was made of, of which each has so many answers.
pub(crate) fn share_out<T: Clone>(
    reply: Result<Versioned<Vec<T>>, StoreError>,
    lengths: &[usize],
) -> Vec<Result<Versioned<Vec<T>>, StoreError>> {
    match reply {
        Ok(Versioned::Current(answers)) => {
            let mut answers = answers.into_iter();
            let of_job = |length: &usize| answers.by_ref().take(*length).collect();
            let by_job = lengths.iter().map(of_job);
            by_job
                .map(|answers| Ok(Versioned::Current(answers)))
                .collect()
        }
        Ok(Versioned::Stale) => vec![Ok(Versioned::Stale); lengths.len()],
        Err(error) => vec![Err(error); lengths.len()],
    }
}

impl Work for Applying {
    type Job = Group;
    type Answer = Result<Versioned<Vec<Answer>>, StoreError>;
    type Load = Load;

    fn admit(&self, load: &mut Load, group: &Group) -> bool {
        *load = load.and(group.load);
        load.fits()
    }

    async fn call(&self, groups: Vec<Group>) -> Vec<Self::Answer> {
        let now = groups.iter().map(|group| group.planned_at).max();
        let lengths: Vec<usize> = groups.iter().map(|group| group.events.len()).collect();
        let events: Vec<Ready> = groups.into_iter().flat_map(|group| group.events).collect();
        let now = now.unwrap_or(Timestamp::from_ms_clamped(0));
        let reply = self.store.apply(&self.shard, &events, now).await;
        share_out(reply, &lengths)
    }
}

/// Events, each with something of the caller's, in groups of bounded cost for each shard.
pub(crate) struct Groups<T> {
    all: Vec<(usize, Vec<T>, Group)>,
    /// The last group of each shard.
    last_of: Vec<Option<usize>>,
    planned_at: Timestamp,
}

impl<T> Groups<T> {
    /// None yet, of events that are planned at `now`.
    pub(crate) fn new(live: &LiveBoard, now: Timestamp) -> Self {
        Self {
            all: Vec::new(),
            last_of: vec![None; live.shards.len()],
            planned_at: now,
        }
    }

    /// Puts an event behind the others of its shard.
    pub(crate) fn push(&mut self, shard: usize, item: T, ready: Ready) {
        let more = Load {
            events: 1,
            cost_us: ready.cost_us(),
        };
        match self.last_of[shard].and_then(|last| self.all.get_mut(last)) {
            Some((_, items, group)) if group.load.and(more).fits() => {
                items.push(item);
                group.events.push(ready);
                group.load = group.load.and(more);
            }
            _ => {
                let group = Group {
                    events: vec![ready],
                    load: more,
                    planned_at: self.planned_at,
                };
                self.last_of[shard] = Some(self.all.len());
                self.all.push((shard, vec![item], group));
            }
        }
    }

    /// Sends all of them side by side.
    pub(crate) async fn send(self, live: &LiveBoard) -> Vec<(Vec<T>, Reply)> {
        let groups = self.all.into_iter();
        let (items, sent): (Vec<_>, Vec<_>) = groups
            .map(|(shard, items, group)| (items, live.shards[shard].applying.submit(group)))
            .unzip();
        let fault = || StoreError::Unexpected("events without their results".into());
        let replies = join_all(sent).await.into_iter();
        let replies = replies.map(|reply| reply.ok_or_else(fault).flatten());
        items.into_iter().zip(replies).collect()
    }
}

/// How often events are sent again. Those that wait for others on their way are so for as long as some get on, and then
/// a little longer.
#[derive(Default)]
struct Attempts {
    count: usize,
    /// The pauses since some have got on.
    pauses: usize,
}

impl Attempts {
    /// Prepares the next attempt, of `left` events of `before`; returns whether there is one.
    async fn next(&mut self, before: usize, left: &[Pending<'_>]) -> bool {
        if !left.iter().any(|item| item.is_waiting) {
            return self.begin_anew();
        }
        if left.len() < before {
            self.pauses = 0;
            return true;
        }
        if self.pauses == PAUSES_MAX {
            return false;
        }
        let pause_ms = (PAUSE_MS_MIN << self.pauses).min(PAUSE_MS_MAX);
        self.pauses += 1;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        true
    }

    /// Counts one that has to begin anew; returns whether there is another one.
    fn begin_anew(&mut self) -> bool {
        self.count += 1;
        self.count < ATTEMPTS_MAX
    }

    /// Why there is no further one.
    fn given_up(&self) -> Error {
        if self.count < ATTEMPTS_MAX {
            let message = "whether a quota is used up depends on events that are on their way";
            StoreError::Unavailable(message.into()).into()
        } else {
            Error::busy()
        }
    }
}

pub(crate) type Results = Vec<Answered>;

impl Engine {
    /// Takes events of one board.
    pub(crate) async fn submit_to(
        &self,
        id: &BoardId,
        mut pending: Vec<Pending<'_>>,
        asked: Asked,
    ) -> Results {
        let mut results = Results::with_capacity(pending.len());
        let mut attempts = Attempts::default();
        loop {
            let live = match self.live_board(id).await {
                Ok(live) => live,
                Err(error) => return fail(results, &pending, &error),
            };
            if live.shards.len() > 1 && asked.detail == Detail::Ranks {
                let refused = Error::InvalidParameter {
                    name: "ranks",
                    detail: format!(
                        "board {id} has several shards, which can't tell ranks in one step"
                    ),
                };
                return fail(results, &pending, &refused);
            }
            match self.note_use(&live).await {
                Ok(true) => {}
                Ok(false) if attempts.begin_anew() => continue,
                Ok(false) => return fail(results, &pending, &Error::busy()),
                Err(error) => return fail(results, &pending, &error),
            }
            let before = pending.len();
            let is_careful = attempts.pauses > 0;
            pending = match self
                .attempt(&live, pending, asked, is_careful, &mut results)
                .await
            {
                Ok(left) if left.is_empty() => return results,
                Ok(left) => left,
                Err((error, left)) => return fail(results, &left, &error),
            };
            if !attempts.next(before, &pending).await {
                return fail(results, &pending, &attempts.given_up());
            }
        }
    }

    /// Notes that a board of several shards has events, before it gets the first. Returns whether that is done, or
    /// the definition has changed.
    pub(crate) async fn note_use(&self, live: &LiveBoard) -> Result<bool, Error> {
        if live.is_used.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let is_current = self.store.mark_used(&live.board).await? != Versioned::Stale;
        if is_current {
            live.is_used.store(true, Ordering::Relaxed);
        } else {
            self.reload(&live.board.id).await?;
        }
        Ok(is_current)
    }

    /// Sends events once; returns those that have to be sent again.
    async fn attempt<'a>(
        &self,
        live: &Arc<LiveBoard>,
        pending: Vec<Pending<'a>>,
        asked: Asked,
        is_careful: bool,
        results: &mut Results,
    ) -> Result<Vec<Pending<'a>>, (Error, Vec<Pending<'a>>)> {
        let now = self.clock.now();
        let planned = plan_events(live, pending, asked, now, results);
        let planned = self.recall(live, planned, now, results).await?;
        let replies = if live.board.reserves() {
            reservations::send(live, planned, is_careful, now).await
        } else {
            send(live, planned, now).await
        };
        let mut again = Vec::new();
        let mut failed: Option<(Error, Vec<Pending<'a>>)> = None;
        let mut incomplete = Vec::new();
        let mut is_stale = false;
        for (items, reply) in replies {
            match reply {
                Ok(Versioned::Current(answers)) => {
                    for (planned, answer) in items.into_iter().zip(answers) {
                        match planned.result(live, answer, now) {
                            Ok(result) => results.push(result),
                            Err((item, missing)) => {
                                again.push(item);
                                incomplete.extend(missing);
                            }
                        }
                    }
                }
                Ok(Versioned::Stale) => {
                    is_stale = true;
                    again.extend(items.into_iter().map(|planned| planned.item));
                }
                // What failed is not sent again, since a part of it may have been done; others are.
                Err(error @ StoreError::Unexpected(_)) => {
                    let error = Error::from(error);
                    let failed = items.into_iter().map(Planned::into_pending);
                    results.extend(failed.map(|item| (item.index, Err(error.clone()))));
                }
                Err(error) => {
                    let (_, left) = failed.get_or_insert_with(|| (error.into(), Vec::new()));
                    left.extend(items.into_iter().map(|planned| planned.item));
                }
            }
        }
        if let Some((error, mut left)) = failed {
            left.extend(again);
            return Err((error, left));
        }
        if let Err(error) = self.make_ready(live, is_stale, &incomplete).await {
            return Err((error, again));
        }
        Ok(again)
    }

    /// Does what the next attempt needs.
    async fn make_ready(
        &self,
        live: &LiveBoard,
        is_stale: bool,
        incomplete: &[(Window, Timestamp)],
    ) -> Result<(), Error> {
        if is_stale {
            self.reload(&live.board.id).await?;
        }
        for (window, at) in incomplete {
            let series = live.board.series(*window, Track::Shown);
            for shard in &live.shards {
                self.complete_from(&shard.shard, series, at.ms()).await?;
            }
        }
        Ok(())
    }
}

/// Sends planned events to the shards of their members.
async fn send<'a>(
    live: &LiveBoard,
    planned: Vec<Way<'a>>,
    now: Timestamp,
) -> Vec<(Vec<Planned<'a>>, Reply)> {
    let mut groups = Groups::new(live, now);
    for (planned, ready) in planned {
        let shard = live.board.shard_of(&planned.item.incoming.member);
        groups.push(shard, planned, ready);
    }
    groups.send(live).await
}

/// Plans events. What is refused at once is among the results.
fn plan_events<'a>(
    live: &LiveBoard,
    pending: Vec<Pending<'a>>,
    asked: Asked,
    now: Timestamp,
    results: &mut Results,
) -> Vec<Way<'a>> {
    let board = &live.board;
    let mut all = Vec::with_capacity(pending.len());
    for mut item in pending {
        item.is_waiting = false;
        let incoming = item.incoming;
        let score = match Score::parse(&incoming.score, board.definition.decimals) {
            Ok(score) => score,
            Err(error) => {
                let score = incoming.score.chars().take(64).collect();
                results.push((item.index, Err(Error::Score { score, error })));
                continue;
            }
        };
        let event = Event {
            id: incoming.id.clone(),
            member: incoming.member.clone(),
            score,
            at: incoming.at,
            origin: incoming.origin.clone(),
        };
        let plan = live.routes.plan(board, event, now);
        if let (Some(rejection), None) = (plan.rejection, &incoming.id) {
            results.push((
                item.index,
                Err(Error::rejected(board, rejection, plan.at, now)),
            ));
            continue;
        }
        let ready = Ready {
            plan,
            detail: asked.detail,
            asks_quotas: asked.quotas,
            with_history: item.with_history,
            token: None,
        };
        let planned = Planned {
            item,
            at: ready.plan.at,
            route: Arc::clone(&ready.plan.route),
        };
        all.push((planned, ready));
    }
    all
}

/// Gives all that are left the same result.
fn fail(mut results: Results, left: &[Pending<'_>], error: &Error) -> Results {
    results.extend(left.iter().map(|item| (item.index, Err(error.clone()))));
    results
}
