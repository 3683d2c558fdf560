//! Applies events of boards whose quotas are counted in other slots than their members: reserve, apply, settle.
//!
//! 1. What each event would take of the quotas is reserved where they are counted (`scripts/core/write/reserve.lua`). It is taken at
//!    once, and a note says how to give it back.
//! 2. The event is applied in its member's shard, in one step as usual. Its record names the reservation.
//! 3. If the event was applied, what was reserved is kept, otherwise given back.
//!
//! If this breaks off, the notes stay. The job [`LeftBehind`](super::left_behind::LeftBehind) finds out the outcome of
//! their events. If an event was not applied by then, the job makes sure that it never is, however late its call arrives.
//!
//! Only what was taken refuses an event. Where that depends on open reservations, the event waits, and so do those after it
//! in its request that may take from the same pool: `wait_behind_others` sees to that between the calls of a request, and
//! `reserve.lua` within a call.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::applier::{EventGroups, one_each};
use super::homes::{CALL_SETTLED_MAX, CALL_USES_MAX, LiveHome, ReserveRequest};
use super::obstacles::Obstacle;
use super::store::events::EventReply;
use super::store::reservations::{Reserved, Settlement, Token, Wanted};
use super::submission::{Attempt, Stage, Submission};
use crate::core::LiveBoard;
use crate::domain::event::{Rejection, Shortage};
use crate::domain::quota::QuotaUse;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::runtime::join::join_all;

/// The greatest age of a reservation when its event is applied.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);
struct Reservation {
    submission: Submission,
    token: Token,
    /// The homes in which something is reserved for it.
    held: Vec<usize>,
    /// The first quota that refuses it, and when that frees; `None`: not known yet whether it does.
    refusal: Option<(usize, Option<Shortage>)>,
    /// What remains of quotas, by their indexes.
    remaining: Vec<(usize, i64)>,
    /// Whether it is kept, since its event was applied; `None`: not known.
    is_kept: Option<bool>,
}

impl Reservation {
    fn new(submission: Submission) -> Self {
        Self {
            submission,
            token: Token::random(),
            held: Vec::new(),
            refusal: None,
            remaining: Vec::new(),
            is_kept: Some(false),
        }
    }

    fn waits(&self) -> bool {
        matches!(self.refusal, Some((_, None)))
    }

    /// The uses to reserve; none if the event is refused already.
    fn uses(&self) -> &[QuotaUse] {
        match self.submission.planned() {
            Some(planned) if planned.plan.rejection.is_none() => &planned.plan.quotas,
            _ => &[],
        }
    }

    /// What to reserve for it in a home.
    fn wanted(&self, live: &LiveBoard, home: usize) -> Option<Wanted> {
        let planned = self.submission.planned().filter(|_| !self.waits())?;
        let matters = |used: &&QuotaUse| {
            let is_ahead = |(quota, _)| used.quota < quota;
            self.refusal.is_none_or(is_ahead) && live.board.home_of(used) == home
        };
        let uses: Vec<_> = self.uses().iter().filter(matters).cloned().collect();
        (!uses.is_empty()).then(|| Wanted {
            token: self.token,
            shard: live.shards[planned.plan.shard(&live.board)].shard.clone(),
            id: planned.plan.event.id.clone(),
            at: planned.plan.at,
            uses,
            asks_quotas: planned.asks_quotas,
        })
    }

    /// Handles the reply of a home.
    fn hear(&mut self, live: &LiveBoard, home: usize, reply: Result<Reserved, StoreError>) {
        match reply {
            Ok(Reserved::Open(remaining)) => {
                let is_here = |used: &&QuotaUse| live.board.home_of(used) == home;
                let remaining: Vec<_> = self
                    .uses()
                    .iter()
                    .filter(is_here)
                    .map(|used| used.quota)
                    .zip(remaining)
                    .collect();
                self.remaining.extend(remaining);
                self.held.push(home);
            }
            Ok(Reserved::UsedUp(shortage)) => {
                self.refuse(shortage.quota, Some(shortage));
            }
            Ok(Reserved::Waits { quota }) => self.refuse(quota, None),
            // It may be reserved or not: if it is, there is a note.
            Err(error) => self.submission.stage = error.into(),
        }
    }

    /// Makes it wait for events before it.
    fn wait(&mut self) {
        let first = self.uses().first().map_or(0, |used| used.quota);
        self.refuse(first, None);
    }

    fn refuse(&mut self, quota: usize, shortage: Option<Shortage>) {
        if self.refusal.is_none_or(|(first, _)| quota < first) {
            self.refusal = Some((quota, shortage));
        }
    }

    /// Refuses the event if a quota does, or makes it wait.
    fn judge(&mut self) {
        let Stage::Planned(planned) = &mut self.submission.stage else {
            return;
        };
        match self.refusal {
            Some((_, None)) => self.submission.stage = Stage::Blocked(Obstacle::Others),
            Some((_, Some(shortage))) => {
                planned.plan.rejection = Some(Rejection::Quota(shortage));
            }
            None => {}
        }
    }

    /// Prepares the event to be sent, if it is planned. One that a quota refuses is sent too: its id may be known.
    fn complete(&mut self, is_in_time: bool) {
        self.judge();
        match &mut self.submission.stage {
            Stage::Planned(planned) if planned.plan.rejection.is_none() => {
                planned.token = Some(self.token);
                if !is_in_time && !self.held.is_empty() {
                    self.submission.stage = Stage::Blocked(Obstacle::VoidReservation);
                }
            }
            _ => {}
        }
    }

    /// Handles the outcome of its event.
    fn end(&mut self, attempt: &Attempt, mut reply: Result<EventReply, StoreError>) {
        self.is_kept = match &mut reply {
            Ok(EventReply::Taken { remaining, .. }) => {
                self.remaining.sort_unstable();
                *remaining = self.remaining.iter().map(|(_, amount)| *amount).collect();
                Some(true)
            }
            // These calls have done nothing.
            Err(StoreError::Stale | StoreError::Full(_)) => Some(false),
            Err(_) if self.refusal.is_none() => None,
            _ => Some(false),
        };
        self.submission.stage = self.submission.stage_after(attempt, reply);
    }
}

/// Refuses the planned events that quotas refuse, of league members without a seat, so that no refused event takes a seat.
/// What this reserves is given back.
pub(crate) async fn judge(attempt: &Attempt, submissions: Vec<Submission>) -> Vec<Submission> {
    to_its_end(attempt, submissions, async |attempt, mut reservations| {
        reserve(&attempt, &mut reservations, false).await;
        settle(&attempt.live, &reservations).await;
        for reservation in &mut reservations {
            reservation.judge();
        }
        reservations
    })
    .await
}

/// Takes planned events through the three steps, in their order. `is_careful`: home by home, so that events don't wait for
/// each other's reservations again and again.
pub(crate) async fn apply(
    attempt: &Attempt,
    events: Vec<Submission>,
    is_careful: bool,
) -> Vec<Submission> {
    to_its_end(attempt, events, async move |attempt, mut reservations| {
        let begun = Instant::now();
        reserve(&attempt, &mut reservations, is_careful).await;
        hold_up(&mut reservations);
        let is_in_time = begun.elapsed() <= APPLIED_WITHIN;
        let mut groups = EventGroups::new(&attempt);
        for (index, reservation) in reservations.iter_mut().enumerate() {
            reservation.complete(is_in_time);
            groups.push(index, &mut reservation.submission);
        }
        for (index, reply) in groups.send().await {
            reservations[index].end(&attempt, reply);
        }
        settle(&attempt.live, &reservations).await;
        reservations
    })
    .await
}

/// Finishes what was begun even if the client disconnects, so that no reservation is left behind.
async fn to_its_end<F>(
    attempt: &Attempt,
    submissions: Vec<Submission>,
    steps: impl FnOnce(Attempt, Vec<Reservation>) -> F,
) -> Vec<Submission>
where
    F: Future<Output = Vec<Reservation>> + Send + 'static,
{
    let Some(first) = submissions.first() else {
        return submissions;
    };
    let request = Arc::clone(&first.request);
    let indexes: Vec<usize> = submissions.iter().map(|one| one.index).collect();
    let reservations = submissions.into_iter().map(Reservation::new).collect();
    match tokio::spawn(steps(attempt.clone(), reservations)).await {
        Ok(reservations) => reservations.into_iter().map(|one| one.submission).collect(),
        Err(error) => {
            tracing::error!(%error, "events have no results: the steps of their reservations failed");
            indexes
                .into_iter()
                .map(|index| {
                    let mut lost = Submission::new(&request, index);
                    lost.stage =
                        StoreError::Unexpected("there is no result for an event".into()).into();
                    lost
                })
                .collect()
        }
    }
}

async fn reserve(attempt: &Attempt, reservations: &mut [Reservation], is_careful: bool) {
    let Attempt { live, now, .. } = attempt;
    let homes: BTreeSet<usize> = reservations
        .iter()
        .flat_map(Reservation::uses)
        .map(|used| live.board.home_of(used))
        .collect();
    let homes: Vec<usize> = homes.into_iter().collect();
    let at_once = if is_careful { 1 } else { homes.len().max(1) };
    for homes in homes.chunks(at_once) {
        let mut cursors: Vec<_> = homes.iter().map(|&home| Cursor { home, next: 0 }).collect();
        while !cursors.is_empty() {
            wait_behind_others(reservations);
            let calls = cursors.iter_mut().map(|cursor| {
                let part = cursor.part(live, reservations);
                reserve_part(&live.homes[cursor.home], part, *now)
            });
            let replies = join_all(calls).await;
            for (cursor, replies) in cursors.iter_mut().zip(replies) {
                cursor.hear(live, reservations, replies);
            }
            cursors.retain(|cursor| cursor.next < reservations.len());
        }
    }
}

/// Makes events wait that may take from the same count as a waiting event before them.
fn wait_behind_others(reservations: &mut [Reservation]) {
    let mut blocked: HashSet<&str> = HashSet::new();
    let mut waiting = Vec::new();
    for (index, reservation) in reservations.iter().enumerate() {
        let pools = || reservation.uses().iter().flat_map(|used| &used.pools);
        let names = || pools().map(|pool| &*pool.name);
        if reservation.waits() || names().any(|name| blocked.contains(name)) {
            blocked.extend(names());
            waiting.push(index);
        }
    }
    for index in waiting {
        reservations[index].wait();
    }
}

/// Makes events from a queue wait whose member has an earlier waiting event.
fn hold_up(reservations: &mut [Reservation]) {
    let mut held = HashSet::new();
    for reservation in reservations {
        let incoming = reservation.submission.incoming();
        if incoming.queued.is_none() {
            continue;
        }
        let member = incoming.member.clone();
        if reservation.waits() || reservation.submission.holds_up() {
            held.insert(member);
        } else if held.contains(&member) {
            reservation.wait();
        }
    }
}

/// How far the events of a request have come in one home.
struct Cursor {
    home: usize,
    /// The first event for which this home was not called yet.
    next: usize,
}

/// What events want of one home, with the events' indexes.
type HomePart = Vec<(usize, Wanted)>;

impl Cursor {
    /// What the next events want, up to the size of one call.
    fn part(&mut self, live: &LiveBoard, reservations: &[Reservation]) -> HomePart {
        let (mut part, mut load) = (HomePart::new(), 0);
        for (index, reservation) in reservations.iter().enumerate().skip(self.next) {
            if let Some(wanted) = reservation.wanted(live, self.home) {
                load += wanted.uses.len();
                if load > CALL_USES_MAX && !part.is_empty() {
                    return part;
                }
                part.push((index, wanted));
            }
            self.next = index + 1;
        }
        part
    }

    /// Handles replies. If the home fails, it is not called for the rest.
    fn hear(
        &mut self,
        live: &LiveBoard,
        reservations: &mut [Reservation],
        replies: Vec<(usize, Result<Reserved, StoreError>)>,
    ) {
        let last = replies.last().map(|(_, reply)| reply.clone());
        for (index, reply) in replies {
            reservations[index].hear(live, self.home, reply);
        }
        let Some(failure @ Err(_)) = last else {
            return;
        };
        for reservation in &mut reservations[self.next..] {
            if reservation.wanted(live, self.home).is_some() {
                reservation.hear(live, self.home, failure.clone());
            }
        }
        self.next = reservations.len();
    }
}

async fn reserve_part(
    home: &LiveHome,
    part: HomePart,
    now: Timestamp,
) -> Vec<(usize, Result<Reserved, StoreError>)> {
    if part.is_empty() {
        return Vec::new();
    }
    let (indexes, wanted): (Vec<_>, Vec<_>) = part.into_iter().unzip();
    let request = ReserveRequest {
        wanted,
        planned_at: now,
    };
    let reply = home.reserver.submit(request).await;
    let replies = one_each(reply, indexes.len());
    indexes.into_iter().zip(replies).collect()
}

async fn settle(live: &LiveBoard, reservations: &[Reservation]) {
    let mut of_homes = vec![Vec::new(); live.homes.len()];
    for reservation in reservations {
        if let Some(is_kept) = reservation.is_kept {
            let token = reservation.token;
            for home in &reservation.held {
                of_homes[*home].push(Settlement { token, is_kept });
            }
        }
    }
    let calls = of_homes
        .iter()
        .zip(&live.homes)
        .flat_map(|(settlements, home)| {
            settlements
                .chunks(CALL_SETTLED_MAX)
                .map(|part| home.settler.submit(part.to_vec()))
        });
    for settled in join_all(calls).await {
        if let Some(Err(error)) = settled {
            tracing::warn!(%error, "reservations will be settled later");
        }
    }
}
