//! Takes the sample, reads the last one, and counts accepted events.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures::future::try_join5;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::store::{self, CountedBoard};
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::closing;
use crate::domain::delivery::DeliveryStatus;
use crate::domain::profile::ReviewStatus;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;
use crate::operations::health::FaultBody;
use crate::operations::upkeep::routes::QueueBody;
use crate::operations::{upkeep, warnings};
use crate::profiles;
use crate::queue::dead_letters;
use crate::redis::StoreError;
use crate::runtime::join::{join_all, try_join_all};
use crate::webhooks::{self, deliveries};

/// How many boards, periods or faults are listed.
const LISTED_MAX: usize = 10;
const FAULTS_MAX: usize = 20;
const EVENTS_BOARDS_MAX: usize = 100;
/// How many minutes of events are shown.
const MINUTES: u16 = 60;
const MINUTE_MS: i64 = 60_000;
/// How old a sample is before the next one is taken: a bit less than the interval of the job.
const AGE_MIN: Span = Span::seconds(9);
/// How old a sample may be before readers are warned.
const AGE_MAX: Span = Span::minutes(1);

/// What waits or fails, and what happens next, as of the last sample.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct Overview {
    /// When the sample was taken; null if there is none yet. Then nothing else is known.
    pub sampled_at: Option<Timestamp>,
    /// How many names of members wait for a review.
    pub pending_names: u64,
    /// Webhooks that need attention.
    pub webhooks: WebhookTroubles,
    /// Queued events that could not be applied.
    pub dead_letters: DeadLetterCounts,
    /// Events that wait to be applied.
    pub queues: QueueTotals,
    /// The first 20 faults of the background work of the instance that took the sample.
    pub faults: Vec<FaultBody>,
    /// The number of these faults.
    pub fault_count: usize,
    /// What needs attention: the warnings of `/readyz`, and whether the sample is older than a minute.
    pub warnings: Vec<String>,
    /// The next 10 periods that become final, of boards with `finalize`.
    pub closing: Vec<ClosingPeriod>,
    /// How many events were accepted in the last hour, for the 100 boards that had most; without boards that had none. A
    /// retry doesn't count. An instance that crashes may lose the counts of up to ten seconds.
    pub events: Vec<BoardEvents>,
}

/// Webhooks that need attention.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct WebhookTroubles {
    /// The webhooks with a delivery that has failed and will be tried again, ordered by name.
    pub failing: Vec<String>,
    /// The webhooks that are disabled, ordered by name.
    pub disabled: Vec<String>,
    /// How many deliveries of all webhooks have failed permanently.
    pub failed_deliveries: u64,
}

/// How many dead letters there are.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct DeadLetterCounts {
    /// How many all boards have.
    pub total: u64,
    /// The 10 boards that have most.
    pub boards: Vec<BoardDeadLetters>,
}

/// How many dead letters a board has.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardDeadLetters {
    /// The board.
    pub board: String,
    /// How many it has. This includes letters older than seven days until newer ones come.
    pub count: u64,
}

/// How many events wait to be applied.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct QueueTotals {
    /// How many wait on all boards.
    pub events: u64,
    /// Since when the first of them waits; null if none does.
    pub waiting_since: Option<Timestamp>,
    /// The 10 boards that have waited longest.
    pub boards: Vec<QueueBody>,
}

/// A period that becomes final.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ClosingPeriod {
    /// The board.
    pub board: String,
    /// The title of the board.
    pub title: String,
    /// The window.
    pub window: String,
    /// The key of the period.
    pub key: String,
    /// When the period ends.
    pub ends_at: Timestamp,
    /// When it becomes final: at its end, and after the wait `finalize`.
    pub closes_at: Timestamp,
}

/// How many events of a board were accepted in the last hour.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardEvents {
    /// The board.
    pub board: String,
    /// The title of the board.
    pub title: String,
    /// How many events in each of the last 60 minutes, the oldest first. The last is the minute of the sample.
    pub minutes: Vec<u64>,
    /// The sum of these.
    pub total: u64,
}

/// The last sample, with a warning if it is missing or old.
pub async fn current(engine: &Engine) -> Result<Overview, Error> {
    let mut overview = store::load(&engine.store).await?.unwrap_or_default();
    let since = engine.clock.now().saturating_sub(AGE_MAX);
    if overview.sampled_at < Some(since) {
        overview.warnings.push(NO_SAMPLE.to_owned());
    }
    Ok(overview)
}

const NO_SAMPLE: &str = "no instance has looked at what waits or fails within the last minute: start one with \
                         STANDINGS_BACKGROUND set to true; if one runs, its log has the reason";

/// The job: takes a sample, unless another instance just has.
pub(crate) async fn sample(engine: &Engine) -> Result<(), Error> {
    let (now, store) = (engine.clock.now(), &engine.store);
    let last = store::load(store).await?.and_then(|last| last.sampled_at);
    if last.is_some_and(|last| last > now.saturating_sub(AGE_MIN) && last <= now) {
        return Ok(());
    }
    let pending_names = async {
        let count = profiles::store::count_reviewed(store, ReviewStatus::Pending);
        Ok(count.await?)
    };
    let (pending_names, webhooks, dead_letters, queues, events) = try_join5(
        pending_names,
        webhooks(engine),
        dead_letters(engine),
        queues(engine),
        events(engine, now),
    )
    .await?;
    let (faults, fault_count) = engine.faults.list(FAULTS_MAX);
    let overview = Overview {
        sampled_at: Some(now),
        pending_names,
        webhooks,
        dead_letters,
        queues,
        faults: faults.into_iter().map(FaultBody::from).collect(),
        fault_count,
        warnings: warnings::current(engine).await,
        closing: closing(engine, now),
        events,
    };
    Ok(store::save(store, &overview).await?)
}

async fn webhooks(engine: &Engine) -> Result<WebhookTroubles, Error> {
    let store = &engine.store;
    let stored = webhooks::store::load_all(store).await?.all;
    let looked = stored.iter().map(async |(name, stored)| {
        let is_disabled = stored.read()?.disabled.is_some();
        let is_failing = !is_disabled && deliveries::store::is_failing(store, name).await?;
        let dead = deliveries::store::count(store, name, DeliveryStatus::Dead).await?;
        Ok::<_, StoreError>((name, is_disabled, is_failing, dead))
    });
    let mut troubles = WebhookTroubles::default();
    for looked in join_all(looked).await {
        match looked.map_err(Error::from) {
            Ok((name, is_disabled, is_failing, dead)) => {
                let name = Some(name.to_string());
                troubles
                    .disabled
                    .extend(name.clone().filter(|_| is_disabled));
                troubles.failing.extend(name.filter(|_| is_failing));
                troubles.failed_deliveries += dead;
            }
            // The job that sends messages reports it.
            Err(error) if error.is_fault() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(troubles)
}

async fn dead_letters(engine: &Engine) -> Result<DeadLetterCounts, Error> {
    let mut counts = dead_letters::work::counts(engine).await?;
    counts.sort_by(|(id, count), (other, others)| others.cmp(count).then_with(|| id.cmp(other)));
    let boards = counts.iter().take(LISTED_MAX);
    Ok(DeadLetterCounts {
        total: counts.iter().map(|(_, count)| count).sum(),
        boards: boards
            .map(|(id, count)| BoardDeadLetters {
                board: id.to_string(),
                count: *count,
            })
            .collect(),
    })
}

async fn queues(engine: &Engine) -> Result<QueueTotals, Error> {
    let mut waiting = upkeep::work::queues(engine, None, usize::MAX).await?.items;
    waiting.sort_by_key(|(_, waiting)| waiting.since);
    let boards = waiting.iter().take(LISTED_MAX);
    Ok(QueueTotals {
        events: waiting.iter().map(|(_, waiting)| waiting.size.events).sum(),
        waiting_since: waiting.first().and_then(|(_, first)| first.since),
        boards: boards
            .map(|(id, waiting)| QueueBody::new(id, waiting))
            .collect(),
    })
}

/// The periods that are closed next, by the schedule of the job that does so.
fn closing(engine: &Engine, now: Timestamp) -> Vec<ClosingPeriod> {
    let boards = engine.closings.next(now, LISTED_MAX);
    boards
        .iter()
        .filter_map(|id| engine.boards.get(id))
        .flat_map(|live| closing_of(&live.board, now))
        .take(LISTED_MAX)
        .collect()
}

fn closing_of(board: &Board, now: Timestamp) -> Vec<ClosingPeriod> {
    let definition = &board.definition;
    let (Some(ends_at), Some(finalize)) = (closing::next(board, now), definition.finalize) else {
        return Vec::new();
    };
    // Periods that had ended when `finalize` was set become final with later ones.
    if !board.closes(ends_at) {
        return Vec::new();
    }
    let before = Timestamp::from_ms_clamped(ends_at.ms().saturating_sub(1));
    board
        .ending_around(before)
        .filter(|(_, end)| *end == ends_at)
        .map(|(period, _)| ClosingPeriod {
            board: board.id.to_string(),
            title: definition.title.clone(),
            window: Window::Period(period.unit).to_string(),
            key: board.calendar.key(&period),
            ends_at,
            closes_at: ends_at.saturating_add(finalize),
        })
        .collect()
}

async fn events(engine: &Engine, now: Timestamp) -> Result<Vec<BoardEvents>, Error> {
    let first = minute_of(now) + 1 - i64::from(MINUTES);
    let counts =
        (first..first + i64::from(MINUTES)).map(|minute| store::accepted(&engine.store, minute));
    let mut of_boards: BTreeMap<CountedBoard, Vec<u64>> = BTreeMap::new();
    for (index, counts) in try_join_all(counts).await?.into_iter().enumerate() {
        for (board, count) in counts {
            let minutes = of_boards.entry(board);
            minutes.or_insert_with(|| vec![0; MINUTES.into()])[index] = count;
        }
    }
    let mut events: Vec<BoardEvents> = of_boards
        .into_iter()
        .filter_map(|(counted, minutes)| {
            let live = engine.boards.get(&counted.id)?;
            // Those of a deleted board are left out.
            (live.board.generation == counted.generation).then(|| BoardEvents {
                board: counted.id.to_string(),
                title: live.board.definition.title.clone(),
                total: minutes.iter().sum(),
                minutes,
            })
        })
        .collect();
    events.sort_by(|one, other| {
        let totals = Reverse(one.total).cmp(&Reverse(other.total));
        totals.then_with(|| one.board.cmp(&other.board))
    });
    events.truncate(EVENTS_BOARDS_MAX);
    Ok(events)
}

/// The job of every instance: adds the events that it has accepted since the last time to the counts of this minute.
pub(crate) async fn count_accepted(engine: &Engine) -> Result<(), Error> {
    let accepted = engine.boards.take_accepted().into_iter();
    let counts = accepted.map(|((id, generation), count)| (CountedBoard { generation, id }, count));
    let minute = minute_of(engine.clock.now());
    Ok(store::add_accepted(&engine.store, minute, counts.collect()).await?)
}

/// The minute of an instant, counted since the epoch.
fn minute_of(at: Timestamp) -> i64 {
    at.ms().div_euclid(MINUTE_MS)
}
