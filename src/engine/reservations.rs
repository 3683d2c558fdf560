//! Taking events on boards whose quotas are counted in other slots than the members lie in: reserve, apply, settle.
//!
//! 1. What each event would take of the quotas is reserved where the counts lie (`scripts/reserve.lua`). It is taken
//!    at once, and a note says how to give it back.
//! 2. The event is applied where its member lies, in one step as ever. What is remembered of it names the reservation.
//! 3. What was reserved is kept if the event was taken, and else given back.
//!
//! Whatever breaks off in between leaves notes. The job [`LeftBehind`] finds out what became of their events,
//! and sees to it that one that was not applied by then never is, however late its call comes in.
//!
//! An event is refused for what was taken alone. Where that depends on reservations that are still open, it waits, and
//! so do those behind it in its request that may take from the same.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::{self, StreamExt};

use super::batcher::{Batcher, Work};
use super::jobs::faults::Subject;
use super::jobs::schedule::Schedule;
use super::jobs::{Job, JobKind, Progress};
use super::submission::{Groups, Planned, Reply, Way, share_out};
use super::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::event::Rejection;
use crate::domain::ids::BoardId;
use crate::domain::quota::{Pool, QuotaUse};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::store::events::{Answer, Ready};
use crate::store::reservations::{OpenReservation, Reserved, Token, VOID_MS, Wanted};
use crate::store::{Store, StoreError, Versioned};

/// How old it may be when its event is applied.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);
/// The most uses of quotas that one call reserves: each takes Redis some ten microseconds.
const CALL_USES_MAX: usize = 100;
/// The most reservations that one call settles.
const CALL_SETTLED_MAX: usize = 200;
/// How many reservations of a shard are looked after side by side.
const SETTLED_AT_ONCE: usize = 8;

/// The reservations of one shard being made.
#[derive(Debug)]
pub struct Reserving {
    /// Where.
    pub store: Arc<Store>,
    /// The shard.
    pub home: Shard,
}

/// What some events of one request would take, and when they were planned.
#[derive(Debug)]
pub struct Request {
    wanted: Vec<Wanted>,
    planned_at: Timestamp,
}

impl Work for Reserving {
    type Job = Request;
    type Answer = Result<Versioned<Vec<Reserved>>, StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, request: &Request) -> bool {
        *load += request.wanted.iter().map(uses).sum::<usize>();
        *load <= CALL_USES_MAX
    }

    fn is_small(_: &usize) -> bool {
        true
    }

    fn call(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let now = requests.iter().map(|request| request.planned_at).max();
        let now = now.unwrap_or(Timestamp::from_ms_clamped(0));
        let requests: Vec<_> = requests.into_iter().map(|request| request.wanted).collect();
        let lengths: Vec<usize> = requests.iter().map(Vec::len).collect();
        let reply = self.store.reserve(&self.home, &requests, now);
        async move { share_out(reply.await, &lengths) }
    }
}

/// The reservations of one shard being settled.
#[derive(Debug)]
pub struct Settling {
    /// Where.
    pub store: Arc<Store>,
    /// The shard.
    pub home: Shard,
}

/// A shard in memory where counts of quotas lie.
#[derive(Debug)]
pub struct LiveHome {
    /// The shard.
    pub home: Shard,
    reserving: Arc<Batcher<Reserving>>,
    settling: Arc<Batcher<Settling>>,
}

impl LiveHome {
    /// Those of a board, in their order; none where the members lie with the counts.
    pub(crate) fn of(board: &Arc<Board>, store: &Arc<Store>) -> Vec<Self> {
        if !board.reserves() {
            return Vec::new();
        }
        let homes = board.homes().into_iter();
        homes.map(|home| Self::new(home, store)).collect()
    }

    fn new(home: Shard, store: &Arc<Store>) -> Self {
        Self {
            reserving: Batcher::new(Reserving {
                store: Arc::clone(store),
                home: home.clone(),
            }),
            settling: Batcher::new(Settling {
                store: Arc::clone(store),
                home: home.clone(),
            }),
            home,
        }
    }
}

/// What is to become of a reservation.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    token: Token,
    /// Otherwise it is given back.
    is_kept: bool,
}

impl Work for Settling {
    type Job = Vec<Settled>;
    type Answer = Result<(), StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, settled: &Vec<Settled>) -> bool {
        *load += settled.len();
        *load <= CALL_SETTLED_MAX
    }

    fn is_small(_: &usize) -> bool {
        true
    }

    fn call(&self, jobs: Vec<Vec<Settled>>) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let count = jobs.len();
        let (kept, given_back): (Vec<_>, Vec<_>) =
            jobs.into_iter().flatten().partition(|one| one.is_kept);
        let [kept, given_back] =
            [kept, given_back].map(|list| list.iter().map(|one| one.token).collect::<Vec<_>>());
        let settled = self.store.settle(&self.home, &kept, &given_back);
        async move { vec![settled.await; count] }
    }
}

fn uses(wanted: &Wanted) -> usize {
    wanted.uses.len()
}

fn pools(uses: &[QuotaUse]) -> impl Iterator<Item = &Pool> {
    uses.iter().flat_map(|used| &used.pools)
}

/// What one shard says of an event's reservation.
type Said = Result<Versioned<Reserved>, StoreError>;

/// An event on its way through the three steps.
struct Taking {
    /// `None` once it was sent to be applied.
    ready: Option<Ready>,
    /// The shard of its member.
    shard: usize,
    token: Token,
    /// Where something is reserved for it.
    held: Vec<usize>,
    /// The first quota that doesn't take it: when that frees, or `None` if it is not known yet whether it does.
    refusal: Option<(usize, Option<i64>)>,
    /// What is left of quotas, by their places.
    lefts: Vec<(usize, i64)>,
    /// What became of it.
    end: Option<Result<Versioned<Answer>, StoreError>>,
}

impl Taking {
    fn new(live: &LiveBoard, ready: Ready) -> Self {
        Self {
            shard: live.board.shard_of(&ready.plan.event.member),
            ready: Some(ready),
            token: Token::random(),
            held: Vec::new(),
            refusal: None,
            lefts: Vec::new(),
            end: None,
        }
    }

    fn waits(&self) -> bool {
        matches!(self.refusal, Some((_, None)))
    }

    /// What it may take of quotas, as far as that is open; nothing of one that is refused already.
    fn uses(&self) -> &[QuotaUse] {
        match &self.ready {
            Some(ready) if ready.plan.rejection.is_none() && self.end.is_none() => {
                &ready.plan.quotas
            }
            _ => &[],
        }
    }

    /// What is to be reserved for it in a shard.
    fn wanted(&self, live: &LiveBoard, home: usize) -> Option<Wanted> {
        let ready = self.ready.as_ref().filter(|_| !self.waits())?;
        let matters = |used: &&QuotaUse| {
            let is_ahead = |(place, _)| used.quota < place;
            self.refusal.is_none_or(is_ahead) && live.board.home_of(used) == home
        };
        let uses: Vec<_> = self.uses().iter().filter(matters).cloned().collect();
        (!uses.is_empty()).then(|| Wanted {
            token: self.token,
            shard: live.shards[self.shard].shard.clone(),
            id: ready.plan.event.id.clone(),
            at: ready.plan.at,
            uses,
            asks_quotas: ready.asks_quotas,
        })
    }

    /// Takes note of what a shard says.
    fn hear(&mut self, live: &LiveBoard, home: usize, said: Said) {
        match said {
            Ok(Versioned::Current(Reserved::Open(lefts))) => {
                let is_here = |used: &&QuotaUse| live.board.home_of(used) == home;
                let places = self.uses().iter().filter(is_here).map(|used| used.quota);
                let lefts: Vec<_> = places.zip(lefts).collect();
                self.lefts.extend(lefts);
                self.held.push(home);
            }
            Ok(Versioned::Current(Reserved::UsedUp { quota, frees_at_ms })) => {
                self.refuse(quota, Some(frees_at_ms));
            }
            Ok(Versioned::Current(Reserved::Waits { quota })) => self.refuse(quota, None),
            Ok(Versioned::Stale) => self.end = Some(Ok(Versioned::Stale)),
            // It may be reserved or not: if it is, there is a note.
            Err(error) => self.end = Some(Err(error)),
        }
    }

    fn refuse(&mut self, place: usize, frees_at_ms: Option<i64>) {
        if self.refusal.is_none_or(|(first, _)| place < first) {
            self.refusal = Some((place, frees_at_ms));
        }
    }

    /// The event as it is sent to be applied, if it is. One that a quota refuses is sent too: its id may be known.
    fn send(&mut self) -> Option<Ready> {
        if self.waits() || self.end.is_some() {
            return None;
        }
        let mut ready = self.ready.take()?;
        match self.refusal {
            Some((place, frees_at_ms)) => {
                let frees_at_ms = frees_at_ms.unwrap_or(0);
                ready.plan.rejection = Some(Rejection::Quota { place, frees_at_ms });
            }
            None if ready.plan.rejection.is_none() => ready.token = Some(self.token),
            None => {}
        }
        Some(ready)
    }

    /// What is to become of what is reserved for it; `None`: nobody knows yet.
    fn settled(&self) -> Option<Settled> {
        let was_sent = self.ready.is_none();
        let is_kept = match &self.end {
            Some(Err(_)) if was_sent && self.refusal.is_none() => return None,
            Some(Ok(Versioned::Current(Answer::Taken(..)))) => true,
            _ => false,
        };
        let token = self.token;
        Some(Settled { token, is_kept })
    }

    fn reply(mut self) -> Reply {
        match self.end {
            Some(Ok(Versioned::Current(Answer::Taken(outcome, _)))) => {
                self.lefts.sort_unstable();
                let lefts = self.lefts.into_iter().map(|(_, left)| left).collect();
                Ok(Versioned::Current(vec![Answer::Taken(outcome, lefts)]))
            }
            Some(Ok(Versioned::Current(answer))) => Ok(Versioned::Current(vec![answer])),
            Some(Ok(Versioned::Stale)) => Ok(Versioned::Stale),
            Some(Err(error)) => Err(error),
            None => Ok(Versioned::Current(vec![Answer::Waits])),
        }
    }
}

/// Takes planned events through the three steps, in their order. `is_careful`: shard by shard, so that events that wait
/// for each other's reservations don't do so again and again.
pub(crate) async fn send<'a>(
    live: &Arc<LiveBoard>,
    mut planned: Vec<Way<'a>>,
    is_careful: bool,
    now: Timestamp,
) -> Vec<(Vec<Planned<'a>>, Reply)> {
    planned.sort_unstable_by_key(|(planned, _)| planned.place());
    let (planned, events): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
    // A client that goes away leaves nothing behind: what was begun is brought to its end.
    let steps = tokio::spawn(take(Arc::clone(live), events, is_careful, now));
    let fault = |error| StoreError::Unexpected(format!("the steps of an event: {error}"));
    let replies = steps.await.map_err(fault);
    let replies = replies.unwrap_or_else(|error| vec![Err(error); planned.len()]);
    let planned = planned.into_iter().map(|planned| vec![planned]);
    planned.zip(replies).collect()
}

async fn take(
    live: Arc<LiveBoard>,
    events: Vec<Ready>,
    is_careful: bool,
    now: Timestamp,
) -> Vec<Reply> {
    let begun = Instant::now();
    let events = events.into_iter().map(|ready| Taking::new(&live, ready));
    let mut events: Vec<Taking> = events.collect();
    reserve(&live, &mut events, is_careful, now).await;
    if begun.elapsed() > APPLIED_WITHIN {
        for event in events.iter_mut().filter(|event| !event.held.is_empty()) {
            event.end = Some(Ok(Versioned::Current(Answer::Void)));
        }
    }
    apply(&live, &mut events, now).await;
    settle(&live, &events).await;
    events.into_iter().map(Taking::reply).collect()
}

async fn reserve(live: &LiveBoard, events: &mut [Taking], is_careful: bool, now: Timestamp) {
    let uses = events.iter().flat_map(Taking::uses);
    let homes: BTreeSet<usize> = uses.map(|used| live.board.home_of(used)).collect();
    let homes: Vec<usize> = homes.into_iter().collect();
    let at_once = if is_careful { 1 } else { homes.len().max(1) };
    for homes in homes.chunks(at_once) {
        wait_behind_others(events);
        let asked = homes.iter().map(|home| {
            let wanted = events.iter().enumerate();
            let wanted =
                wanted.filter_map(|(place, event)| Some((place, event.wanted(live, *home)?)));
            reserve_at(&live.homes[*home], wanted.collect(), now)
        });
        for (home, said) in homes.iter().zip(join_all(asked).await) {
            for (place, said) in said {
                events[place].hear(live, *home, said);
            }
        }
    }
}

/// Lets those wait that may take from the same as an event ahead of them that waits.
fn wait_behind_others(events: &mut [Taking]) {
    let mut blocked: HashSet<&str> = HashSet::new();
    let mut waiting = Vec::new();
    for (place, event) in events.iter().enumerate() {
        let mut names = pools(event.uses()).map(|pool| &*pool.name);
        if event.waits() || names.any(|name| blocked.contains(name)) {
            blocked.extend(pools(event.uses()).map(|pool| &*pool.name));
            waiting.push(place);
        }
    }
    for place in waiting {
        let first = events[place].uses().first().map_or(0, |used| used.quota);
        events[place].refuse(first, None);
    }
}

/// Reserves in one shard, in parts of bounded cost.
async fn reserve_at(
    home: &LiveHome,
    wanted: Vec<(usize, Wanted)>,
    now: Timestamp,
) -> Vec<(usize, Said)> {
    let mut all_said = Vec::with_capacity(wanted.len());
    let mut blocked: HashSet<String> = HashSet::new();
    let mut rest = wanted.into_iter().peekable();
    while rest.peek().is_some() {
        let (mut places, mut part, mut load) = (Vec::new(), Vec::new(), 0);
        let fits = |load: usize, wanted: &Wanted| load == 0 || load + uses(wanted) <= CALL_USES_MAX;
        while let Some((place, wanted)) = rest.next_if(|(_, wanted)| fits(load, wanted)) {
            if pools(&wanted.uses).any(|pool| blocked.contains(&pool.name)) {
                let quota = wanted.uses[0].quota;
                blocked.extend(pools(&wanted.uses).map(|pool| pool.name.clone()));
                all_said.push((place, Ok(Versioned::Current(Reserved::Waits { quota }))));
                continue;
            }
            load += uses(&wanted);
            places.push(place);
            part.push(wanted);
        }
        let names: Vec<Vec<String>> = if rest.peek().is_some() {
            let names =
                |wanted: &Wanted| pools(&wanted.uses).map(|pool| pool.name.clone()).collect();
            part.iter().map(names).collect()
        } else {
            Vec::new()
        };
        for (index, (place, said)) in places
            .iter()
            .zip(reserve_part(home, part, now).await)
            .enumerate()
        {
            if let Ok(Versioned::Current(Reserved::Waits { .. })) = said {
                blocked.extend(names.get(index).into_iter().flatten().cloned());
            }
            all_said.push((*place, said));
        }
        if let Some((_, said @ (Ok(Versioned::Stale) | Err(_)))) = all_said.last() {
            let said = said.clone();
            all_said.extend(rest.by_ref().map(|(place, _)| (place, said.clone())));
        }
    }
    all_said
}

async fn reserve_part(home: &LiveHome, wanted: Vec<Wanted>, now: Timestamp) -> Vec<Said> {
    let count = wanted.len();
    if count == 0 {
        return Vec::new();
    }
    let request = Request {
        wanted,
        planned_at: now,
    };
    let fault = || StoreError::Unexpected("reservations without their results".into());
    let reply = home.reserving.submit(request).await;
    one_each(reply.ok_or_else(fault).flatten(), count)
}

/// What a call says of each of so many events.
fn one_each<T: Clone>(
    reply: Result<Versioned<Vec<T>>, StoreError>,
    count: usize,
) -> Vec<Result<Versioned<T>, StoreError>> {
    match reply {
        Ok(Versioned::Current(answers)) => {
            let answers = answers.into_iter();
            answers
                .map(|answer| Ok(Versioned::Current(answer)))
                .collect()
        }
        Ok(Versioned::Stale) => vec![Ok(Versioned::Stale); count],
        Err(error) => vec![Err(error); count],
    }
}

async fn apply(live: &LiveBoard, events: &mut [Taking], now: Timestamp) {
    let mut groups = Groups::new(live, now);
    for (place, event) in events.iter_mut().enumerate() {
        if let Some(ready) = event.send() {
            groups.push(event.shard, place, ready);
        }
    }
    for (places, reply) in groups.send(live).await {
        let answers = one_each(reply, places.len());
        for (place, answer) in places.into_iter().zip(answers) {
            events[place].end = Some(answer);
        }
    }
}

async fn settle(live: &LiveBoard, events: &[Taking]) {
    let mut of_homes = vec![Vec::new(); live.homes.len()];
    for event in events {
        if let Some(settled) = event.settled() {
            event
                .held
                .iter()
                .for_each(|home| of_homes[*home].push(settled));
        }
    }
    let jobs = of_homes
        .iter()
        .zip(&live.homes)
        .flat_map(|(settled, home)| {
            let parts = settled.chunks(CALL_SETTLED_MAX);
            parts.map(|part| home.settling.submit(part.to_vec()))
        });
    for settled in join_all(jobs).await {
        if let Some(Err(error)) = settled {
            tracing::warn!(%error, "reservations are left to be settled later");
        }
    }
}

/// The boards whose homes are looked at for reservations that are left behind.
#[derive(Debug)]
pub(super) struct Homes {
    /// By milliseconds since the beginning of this instance: a clock that never jumps.
    schedule: Schedule<BoardId>,
    begun: Instant,
}

impl Homes {
    /// Takes note of a board that is new in memory, or gone from there.
    pub(super) fn plan(&self, id: &BoardId, reserves: bool) {
        if reserves {
            self.schedule.set_due(id);
        } else {
            self.schedule.remove(id);
        }
    }

    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_ms_clamped(ms)
    }
}

impl Default for Homes {
    fn default() -> Self {
        Self {
            schedule: Schedule::default(),
            begun: Instant::now(),
        }
    }
}

/// The job: settles reservations that are left behind, by what became of their events.
#[derive(Clone, Copy, Debug)]
pub struct LeftBehind {
    /// How old a reservation is when it is believed to be left behind.
    pub older_than: Duration,
    /// How often a home is looked at.
    pub interval: Duration,
}

impl Default for LeftBehind {
    fn default() -> Self {
        Self {
            older_than: Duration::from_secs(15),
            interval: Duration::from_secs(5),
        }
    }
}

impl Job for LeftBehind {
    type Item = Shard;
    const KIND: JobKind = JobKind::Reservations;

    fn subject(&self, home: &Shard) -> Subject {
        Subject::part(&home.board.id, home.tag())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Shard>, Error> {
        let (homes, now) = (&engine.left_behind, engine.left_behind.now());
        let interval_ms = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        let mut due = Vec::new();
        let _planning = engine.boards.planning();
        for id in homes.schedule.due(now) {
            let Some(live) = engine.boards.get(&id) else {
                homes.schedule.remove(&id);
                continue;
            };
            homes
                .schedule
                .set(&id, now.ms().saturating_add(interval_ms));
            due.extend(live.homes.iter().map(|home| home.home.clone()));
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, home: &mut Shard) -> Result<Progress, Error> {
        let older_than_ms = i64::try_from(self.older_than.as_millis()).unwrap_or(i64::MAX);
        engine.settle_left_behind(home, older_than_ms).await?;
        Ok(Progress::Done)
    }
}

impl Engine {
    async fn settle_left_behind(&self, home: &Shard, older_than_ms: i64) -> Result<(), Error> {
        let open = self.store.open_reservations(home, older_than_ms).await?;
        let Versioned::Current(open) = open else {
            return self.reload(&home.id).await;
        };
        let ends: Vec<Result<Option<Settled>, Error>> = stream::iter(open)
            .map(async |open| self.find_out(home, &open).await)
            .buffer_unordered(SETTLED_AT_ONCE)
            .collect()
            .await;
        let known: Vec<Settled> = ends.iter().filter_map(|end| *end.as_ref().ok()?).collect();
        for part in known.chunks(CALL_SETTLED_MAX) {
            let tokens = |is_kept| {
                let those = part.iter().filter(move |one| one.is_kept == is_kept);
                those.map(|one| one.token).collect::<Vec<_>>()
            };
            self.store
                .settle(home, &tokens(true), &tokens(false))
                .await?;
        }
        ends.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
    }

    /// What is to become of a reservation; `None` if that has to be asked again.
    async fn find_out(
        &self,
        home: &Shard,
        open: &OpenReservation,
    ) -> Result<Option<Settled>, Error> {
        let token = open.token;
        if open.age_ms > VOID_MS {
            // What was remembered of its event may be gone: rather a vote too few than one too many.
            return Ok(Some(Settled {
                token,
                is_kept: true,
            }));
        }
        match self.store.void(home, open).await? {
            Versioned::Current(is_kept) => Ok(Some(Settled { token, is_kept })),
            Versioned::Stale => self.reload(&home.id).await.map(|()| None),
        }
    }
}
