//! Finds the outcome of events by their ids.

use std::sync::Arc;

use crate::core::hide::store::erasures;
use crate::core::write::store::events::{self, Remembered};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::event::Outcome;
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::intake::KnownOffsets;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::queue::dead_letters::work::FoundLetter;
use crate::queue::fate::Refusal;
use crate::queue::intake::{self, Sought};
use crate::queue::store::{queued, queues};
use crate::queue::{self, dead_letters};
use crate::redis::StoreError;
use crate::runtime::join::try_join_all;

#[derive(Debug)]
pub enum EventStatus {
    /// It waits to be applied.
    Queued(Box<QueuedEvent>),
    /// It was accepted.
    Applied {
        /// There are no changes if its member may have been erased.
        outcome: Outcome,
        /// Whether it was retracted since.
        is_out: bool,
    },
    /// It was rejected when it was to be applied.
    Rejected {
        /// The instant that it would have counted for.
        at: Timestamp,
        error: Error,
    },
    Dead(Box<FoundLetter>),
}

impl EventStatus {
    /// Whether it waits in the queue.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Queued(_))
    }

    /// Removes what only callers that may read the board see.
    pub fn withhold(&mut self) {
        match self {
            Self::Applied { outcome, .. } => outcome.changes.clear(),
            Self::Rejected { error, .. } => error.withhold_counts(),
            Self::Queued(_) | Self::Dead(_) => {}
        }
    }
}

/// What shards know about an id.
#[derive(Default)]
struct Found {
    waiting: Vec<QueuedEvent>,
    known: Vec<Remembered>,
    refused: Vec<String>,
    letters: Vec<FoundLetter>,
}

impl Found {
    fn is_empty(&self) -> bool {
        let is_known = !self.waiting.is_empty() || !self.known.is_empty();
        !is_known && self.refused.is_empty() && self.letters.is_empty()
    }

    /// Drops waiting and dead events of other members. (Nothing else that is known says its member.)
    fn keep_own(&mut self, member: &MemberId) {
        self.waiting.retain(|event| event.member == *member);
        let is_own = |letter: &FoundLetter| {
            let event = letter.event.as_ref();
            event.is_none_or(|event| event.member == *member)
        };
        self.letters.retain(is_own);
    }

    /// Drops waiting events that were accepted, and dead letters of events that were accepted or wait again.
    fn tell_once(&mut self) {
        let taken: Vec<u64> = self.known.iter().map(|known| known.fingerprint).collect();
        self.waiting
            .retain(|event| !taken.contains(&event.fingerprint));
        let waiting = self.waiting.iter().map(|event| event.fingerprint);
        let alive: Vec<u64> = taken.into_iter().chain(waiting).collect();
        self.letters.retain(|letter| {
            let event = letter.event.as_ref();
            event.is_none_or(|event| !alive.contains(&event.fingerprint))
        });
    }
}

/// Finds, in this order, the events that wait under an id, the one that was accepted, those that were refused, as long as
/// they are remembered, and dead letters. Also returns the board.
pub async fn find(
    engine: &Engine,
    board: &BoardId,
    id: &EventId,
    member: Option<&MemberId>,
) -> Result<(Arc<LiveBoard>, Vec<EventStatus>), Error> {
    engine
        .with_board(board, async |live| {
            let search = Search {
                engine,
                live: &live,
                id,
                member,
            };
            let events = search.run().await?;
            Ok((live, events))
        })
        .await
}

/// A search for the events of a board under an id, of one member or of any.
struct Search<'a> {
    engine: &'a Engine,
    live: &'a LiveBoard,
    id: &'a EventId,
    member: Option<&'a MemberId>,
}

impl<'a> Search<'a> {
    async fn run(&self) -> Result<Vec<EventStatus>, Error> {
        let mut found = self.look_in_shards().await?;
        if found.is_empty() {
            let in_log = self.look_in_log().await?;
            // Meanwhile a dead letter may have been replayed behind the search, or an event taken from the log.
            found = self.look_in_shards().await?;
            if found.is_empty() {
                found.waiting = in_log;
            }
        }
        if let Some(member) = self.member {
            found.keep_own(member);
        }
        found.tell_once();
        let mut events: Vec<_> = found
            .waiting
            .into_iter()
            .map(|event| EventStatus::Queued(Box::new(event)))
            .collect();
        let is_taken = !found.known.is_empty();
        for known in found.known {
            events.push(self.applied(known).await?);
        }
        // A refused event doesn't reserve its id.
        for refused in found.refused.iter().filter(|_| !is_taken) {
            events.push(refusal(refused)?);
        }
        let letters = found.letters.into_iter();
        events.extend(letters.map(|letter| EventStatus::Dead(Box::new(letter))));
        Ok(events)
    }

    /// The events that wait in the log, and were not taken before this began.
    async fn look_in_log(&self) -> Result<Vec<QueuedEvent>, Error> {
        let &Self { engine, id, .. } = self;
        let board = &*self.live.board;
        let Some(log) = queue::of(engine)
            .log
            .as_ref()
            .filter(|_| !board.is_league())
        else {
            return Ok(Vec::new());
        };
        let store = &engine.store;
        let mut from = Vec::new();
        for (partition, _) in log.ends().await? {
            let known = self
                .current_shards(self.member)
                .into_iter()
                .map(|shard| intake::store::known_offsets(store, shard, &partition));
            let known = try_join_all(known).await?;
            // A shard that knows nothing of a partition has taken no record of it before the floor.
            let least = match known.iter().map(KnownOffsets::taken).min().flatten() {
                None => intake::store::floor(store, &partition).await?,
                least => least,
            };
            from.extend(least.map(|least| (partition, least)));
        }
        let sought = Sought {
            board,
            id,
            member: self.member,
            from: &from,
        };
        let now = engine.clock.now();
        // An event that its board can't read will be dead, and is reported with the dead records.
        Ok(log
            .find(sought)
            .await?
            .into_iter()
            .filter(|event| event.generation.is_none_or(|of| of == board.generation))
            .filter_map(|event| event.queued(board, || id.clone(), now).ok())
            .collect())
    }

    /// Everything that the shards know.
    async fn look_in_shards(&self) -> Result<Found, Error> {
        let &Self {
            engine, live, id, ..
        } = self;
        let (store, current) = (&engine.store, self.current_shards(self.member));
        let former = live
            .former
            .iter()
            .flat_map(|former| former.shards_for(self.member));
        let of_shards = current.iter().copied().chain(former).map(async |shard| {
            // In this order: an event that is applied or dies between two of these reads is seen twice, not missed.
            let waiting = queues::find(store, shard, id).await?;
            let known = events::remembered(store, shard, id).await?;
            let refused = queued::refused(store, shard, id).await?;
            Ok::<_, Error>((waiting, known, refused))
        });
        let mut found = Found::default();
        for (waiting, known, refused) in try_join_all(of_shards).await? {
            found.waiting.extend(waiting);
            found.known.extend(known);
            found.refused.extend(refused);
        }
        // Letters move along with their board.
        let letters = current
            .into_iter()
            .map(|shard| dead_letters::work::letters_under(engine, shard, id));
        found.letters = try_join_all(letters).await?.concat();
        Ok(found)
    }

    /// An accepted event; without its scores if they may be from before an erasure of its member.
    ///
    /// The record of an event does not name its member, so it may be another one than was asked for. But erasures of
    /// different members have different numbers, so if the record has one, it identifies the member.
    async fn applied(&self, mut known: Remembered) -> Result<EventStatus, Error> {
        let is_current = match self.member.filter(|_| known.erasure > 0) {
            Some(member) => {
                let shard = &self.live.shard_of(member).shard;
                let last = erasures::last(&self.engine.store, shard, member).await?;
                last.is_some_and(|last| last.number == known.erasure)
            }
            None => !self.has_erased().await?,
        };
        if !is_current {
            known.outcome.changes.clear();
        }
        Ok(EventStatus::Applied {
            outcome: known.outcome,
            is_out: known.is_out,
        })
    }

    /// Whether an erased member may own the event.
    async fn has_erased(&self) -> Result<bool, Error> {
        // Members of one former shard may be in any shard now.
        let member = self.member.filter(|_| self.live.former.is_empty());
        let asked = self
            .current_shards(member)
            .into_iter()
            .map(|shard| erasures::has_erased(&self.engine.store, shard));
        Ok(try_join_all(asked).await?.contains(&true))
    }

    /// The current shards that may know an event of this member, or of any member.
    fn current_shards(&self, member: Option<&MemberId>) -> Vec<&'a Shard> {
        let live = self.live;
        // In a league, any cohort may remember it.
        match member {
            Some(member) if !live.board.is_league() => vec![&live.shard_of(member).shard],
            _ => live.shards.iter().map(|live| &live.shard).collect(),
        }
    }
}

/// Parses a stored refusal.
fn refusal(json: &str) -> Result<EventStatus, Error> {
    let refusal: Refusal = serde_json::from_str(json).map_err(|error| {
        StoreError::Unexpected(format!("a stored refusal can't be read: {error}"))
    })?;
    Ok(EventStatus::Rejected {
        at: refusal.at,
        error: refusal.into(),
    })
}
