//! Events as they come in, and their outcomes.

use std::sync::Arc;

use crate::core::{Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::edition::{Changed, Edition};
use crate::domain::event::{Detail, Event, Origin, Outcome};
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::league::Section;
use crate::domain::plan::{Route, StandingName};
use crate::domain::problems::Problem;
use crate::domain::score::Score;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::entry::EntryId;
use crate::redis::{StoreError, random};

/// The maximum number of events of one request.
pub const BATCH_MAX: usize = 1_000;
/// The number of random bytes in the id of an event that came without one.
const ID_BYTES: usize = 12;
/// How much of a score a problem repeats, in characters.
const SCORE_SHOWN_MAX: usize = 64;

/// An event as it came in. Its score is not parsed yet, since that needs the board's decimals.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IncomingEvent {
    pub board: BoardId,
    /// Recognises a retry.
    pub id: Option<EventId>,
    /// The member whose score it changes.
    pub member: MemberId,
    /// The text of a JSON number.
    pub score: String,
    /// When it happened; `None`: when it came in.
    pub at: Option<Timestamp>,
    /// When it came in ([`Clock::arrival`](crate::domain::clock::Clock::arrival)). Never changes.
    pub arrived_at: Timestamp,
    /// Where it comes from.
    pub origin: Origin,
    /// The data to show with the entry whose score it sets.
    pub data: Option<EntryData>,
    /// Where it has waited, if it comes from a queue.
    pub queued: Option<HeldEntry>,
}

/// The place of an event in its queue, and the lease under which an instance applies it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HeldEntry {
    pub entry: EntryId,
    /// The instant that the event counts for, whenever it is applied.
    pub at: Timestamp,
    /// The bytes that the entry counts in its queue.
    pub bytes: usize,
    /// The number of the lease of the queue.
    pub lease: u64,
    /// If it is late, the barrier of the closing that it missed.
    pub late: Option<Timestamp>,
    /// The number of the last revocation before it was queued; 0 for none.
    pub revocation: u64,
    /// When it was queued: this decides whether it is too late, or in the future.
    pub queued_at: Timestamp,
    /// Whether it comes from the log: then an erasure after it was queued removes it.
    pub is_logged: bool,
}

impl IncomingEvent {
    /// The instant that it counts for, if that was given, or promised when it was queued: it never changes.
    pub(crate) fn fixed_at(&self) -> Option<Timestamp> {
        self.queued.map_or(self.at, |held| Some(held.at))
    }

    /// Whether its only time is that of a Kafka record, in whole milliseconds, which several events can have.
    pub(crate) fn has_time_of_record(&self) -> bool {
        self.at.is_none() && self.queued.is_some_and(|held| held.at.is_whole_ms())
    }

    /// A new id for the event, which came without one.
    pub(crate) fn new_id(&self) -> Result<EventId, Error> {
        let is_of_player = self.origin.is_of_player();
        let player = self.origin.voter.as_ref().filter(|_| is_of_player);
        let player = player.and_then(|voter| MemberId::parse(voter.as_str()).ok());
        random_id(player.as_ref())
    }

    /// The event, with its score parsed for its board.
    pub(crate) fn event(&self, board: &Board) -> Result<Event, Error> {
        if self.data.is_some() && !board.definition.entry_data {
            return Err(Problem::no_entry_data(&board.id).into());
        }
        let score = Score::parse(&self.score, board.definition.decimals).map_err(|error| {
            let shown: String = self.score.chars().take(SCORE_SHOWN_MAX).collect();
            Problem::score(&shown, &error)
        })?;
        Ok(Event {
            id: self.id.clone(),
            member: self.member.clone(),
            score,
            at: self.at,
            origin: self.origin.clone(),
            data: self.data.clone(),
        })
    }
}

/// A new id for an event, of a player if there is one.
pub(crate) fn random_id(player: Option<&MemberId>) -> Result<EventId, Error> {
    let text = random::hexadecimal::<ID_BYTES>("")?;
    let id = EventId::parse(&text).map_err(|error| StoreError::Unexpected(error.to_string()))?;
    Ok(player.map_or_else(|| id.clone(), |player| EventId::of_player(player, &id)))
}

/// What the results of events contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// What the outcomes contain.
    pub detail: Detail,
    /// Whether the results contain what remains of the board's quotas.
    pub quotas: bool,
}

/// An event that was accepted, now or before.
#[derive(Clone, Debug)]
pub struct AcceptedEvent {
    pub live: Arc<LiveBoard>,
    /// Its id, which the service has given it if it keeps events.
    pub id: Option<EventId>,
    /// What it did, now or the first time.
    pub outcome: Outcome,
    /// Whether its id was known already.
    pub is_duplicate: bool,
    /// What remains of the board's quotas, if the request asked for that.
    pub quotas: Vec<RemainingQuota>,
    pub(crate) route: Arc<Route>,
    pub(crate) section: Option<Section>,
    pub(crate) changed: Option<Changed>,
}

impl AcceptedEvent {
    /// The name of a standing in the outcome.
    pub fn standing_name(&self, window: Window) -> StandingName {
        self.route.name(&self.live.board, window, self.outcome.at)
    }

    /// The edition of its shard after it; `None` where another shard remembers it.
    pub fn edition(&self, member: &MemberId) -> Option<Edition> {
        let shard = match self.section {
            Some(cohort) => self.live.shard_in(cohort, member),
            None => self.live.shard_of(member),
        };
        let (board, shard) = (&self.live.board, shard.shard.shard_id.index);
        Some(Edition::of_event(board, shard, self.changed?))
    }

    /// In a league, the name of the cohort that it counts in.
    pub fn cohort_name(&self) -> Option<String> {
        let Section { period, cohort } = self.section?;
        self.live.board.cohort_name(&period, cohort?)
    }
}

/// What remains of a quota after an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemainingQuota {
    pub name: String,
    /// How much it allows, in events or points.
    pub max: u64,
    /// How long its window is, in seconds; `None` for all time.
    pub window_s: Option<u64>,
    /// How much remains, in whole events or points.
    pub remaining: u64,
    /// How long until more remains, in seconds, rounded up; `None` for never, and for sliding windows.
    pub wait_s: Option<u64>,
}

impl RemainingQuota {
    /// What remains of each quota of a board, in their order, after an event of the instant `at`: `remaining` has events or
    /// scaled points.
    pub(crate) fn of_board(
        board: &Board,
        remaining: &[i64],
        at: Timestamp,
        now: Timestamp,
    ) -> Vec<Self> {
        board
            .definition
            .quotas
            .iter()
            .zip(remaining)
            .map(|(quota, remaining)| {
                let point = 10_u64.pow(u32::from(quota.decimals(board).digits()));
                Self {
                    name: quota.name.clone(),
                    max: quota.max,
                    window_s: quota.window_s(board, at),
                    remaining: (*remaining).max(0).unsigned_abs() / point,
                    wait_s: quota.frees_at(board, at).map(|at| at.seconds_after(now)),
                }
            })
            .collect()
    }
}
