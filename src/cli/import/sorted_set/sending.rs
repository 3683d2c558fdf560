//! Sends the events and names of members of a sorted set.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3Default;

use super::target::Here;
use super::transfer::{Counts, EXAMPLES_MAX, NewEvent, Pair, Transfer};
use crate::cli::Failure;
use crate::cli::import::memory::Memory;
use crate::cli::import::rejects::{Place, Rejection, Source};
use crate::cli::import::rows::{Batch, SentRow};
use crate::cli::import::summary::Tally;
use crate::cli::text::shortened;
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;

/// How often an event is sent again at most, each time under another id.
const ATTEMPTS_MAX: u32 = 20;

#[derive(Serialize)]
struct Events<'a> {
    events: Vec<Event<'a>>,
}

#[derive(Serialize)]
struct Event<'a> {
    board: &'a str,
    id: String,
    member: &'a str,
    score: ShownScore,
    at: String,
}

#[derive(Serialize)]
struct Profiles<'a> {
    profiles: Vec<NamedMember<'a>>,
}

#[derive(Serialize)]
struct NamedMember<'a> {
    member: &'a str,
    name: String,
}

impl Transfer<'_> {
    /// Sends events. One that the board knows may have come from this run, in a request that was sent twice, or just now from
    /// another run. If not, and the member has a score, the two scores had been the same before: then it is sent again, under
    /// another id. If the member has none, somebody has taken the event back, or erased the member.
    pub(super) async fn send_events(
        &self,
        mut events: Vec<NewEvent>,
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        while !events.is_empty() {
            let tally = self.send(&mut events, counts).await?;
            let known = tally.duplicate;
            if known == 0 {
                break;
            }
            let pairs: Vec<Pair> = events.iter().map(|event| event.pair).collect();
            let accepted = (pairs.len() as u64).saturating_sub(known);
            let mut found = Counts::default();
            let same = self.still_different(&pairs, &mut found).await?;
            events.retain(|event| same.contains(&event.pair));
            let equal = found.equal.saturating_sub(accepted);
            let unequal = events.len() as u64;
            if tally.duplicate_resent > 0 {
                counts.sent += equal;
            } else {
                counts.equal += equal;
            }
            counts.changing += known.saturating_sub(equal + unequal);
            events.retain(|event| event.pair.here.is_some() && event.attempt < ATTEMPTS_MAX);
            counts.duplicate += unequal - events.len() as u64;
            for event in &mut events {
                event.attempt += 1;
            }
        }
        Ok(())
    }

    /// Sends events once, and removes those that the board has rejected.
    async fn send(
        &self,
        events: &mut Vec<NewEvent>,
        counts: &mut Counts,
    ) -> Result<Tally, Failure> {
        let places = events.iter().map(|event| event.pair.place);
        let sent = places.map(|place| row(place, true)).collect();
        let batch = Batch {
            events: self.events(events)?,
            ..Batch::default()
        };
        let (tally, rejected) = self.send_batch(batch, sent, counts).await?;
        counts.sent += tally.applied + tally.unchanged + tally.queued;
        events.retain(|event| !rejected.contains(&event.pair.place));
        Ok(tally)
    }

    /// Writes names as profiles.
    pub(super) async fn send_names(
        &self,
        names: Vec<(usize, String)>,
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        if names.is_empty() {
            return Ok(());
        }
        let sent = names.iter().map(|(place, _)| row(*place, false)).collect();
        let batch = Batch {
            profiles: self.profiles(names)?,
            ..Batch::default()
        };
        let (tally, _) = self.send_batch(batch, sent, counts).await?;
        counts.profiles += tally.profiles;
        Ok(())
    }

    /// Sends a batch that has these rows. Also returns the places of those that were rejected.
    async fn send_batch(
        &self,
        batch: Batch,
        sent: Vec<SentRow>,
        counts: &mut Counts,
    ) -> Result<(Tally, BTreeSet<usize>), Failure> {
        let batch = Batch {
            rows: sent.len() as u64,
            sent,
            ..batch
        };
        let memory = Memory {
            idempotency: self.target.idempotency(),
            unsure: None,
        };
        let (tally, rejections) = self.sender.send(&batch, memory).await?;
        let rejected = rejections.iter();
        let rejected = rejected.filter_map(|rejection| self.reject(rejection, counts));
        Ok((tally, rejected.collect()))
    }

    fn events(&self, events: &[NewEvent]) -> serde_json::Result<Option<Bytes>> {
        let board = &self.target.board;
        let event = |new: &NewEvent| Event {
            board: board.id.as_str(),
            id: self.event_id(new),
            member: self.member_id(new.pair.place),
            score: new.score.shown(board.definition.decimals),
            at: new.at.to_string(),
        };
        let events = events.iter().map(event).collect();
        Ok(Some(serde_json::to_vec(&Events { events })?.into()))
    }

    fn profiles(&self, names: Vec<(usize, String)>) -> serde_json::Result<Option<Bytes>> {
        let profile = |(place, name)| NamedMember {
            member: self.member_id(place),
            name,
        };
        let profiles = names.into_iter().map(profile).collect();
        Ok(Some(serde_json::to_vec(&Profiles { profiles })?.into()))
    }

    /// Counts a rejection, and returns the place of its member.
    fn reject(&self, rejection: &Rejection, counts: &mut Counts) -> Option<usize> {
        let kind = rejection.kind.clone();
        let (count, examples) = counts.rejected.entry(kind).or_default();
        *count += 1;
        let (Place::Pair(place) | Place::Line(place)) = rejection.source.place;
        let place = usize::try_from(place).ok();
        let member = place.and_then(|place| self.copy.members.get(place));
        if examples.len() < EXAMPLES_MAX
            && let Some(id) = member
        {
            examples.push(format!("{}: {}", shortened(id), rejection.detail));
        }
        place
    }

    /// The id of a member's event: the same whenever it is sent for the same reason.
    fn event_id(&self, event: &NewEvent) -> String {
        let NewEvent { pair, at, .. } = event;
        let member = self.member_id(pair.place);
        let mut hash = Xxh3Default::new();
        let (set, window) = (&self.set.key, self.set.period.unit);
        let period = self.target.key(&self.set.period);
        hash.update(format!("{set}\0{window}\0{period}\0{member}").as_bytes());
        // What it changes, and into what.
        if let Some(Here { score, reached_at }) = pair.here {
            let reached_at = reached_at.map(Timestamp::us);
            let (here, there, at) = (score.scaled(), pair.there.scaled(), at.us());
            hash.update(format!("\0{here}\0{reached_at:?}\0{there}\0{at}").as_bytes());
        }
        if event.attempt > 0 {
            hash.update(format!("\0{}", event.attempt).as_bytes());
        }
        // 96 bits: no two of a billion members share them, and ids take memory.
        format!("redis-{:024x}", hash.digest128() >> 32)
    }
}

/// The row of a member: of its event, or else of its name.
fn row(place: usize, has_event: bool) -> SentRow {
    SentRow {
        source: Source {
            place: Place::Pair(place as u64),
            text: None,
        },
        has_event,
        has_profile: !has_event,
    }
}
