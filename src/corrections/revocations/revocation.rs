//! A revocation, which events it covers, and what came of it.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::core::write::store::events::StoredRow;
use crate::domain::history::{HASH_BYTES, HistoryState};
use crate::domain::ids::{EventId, Label, MemberId};
use crate::domain::secret::hexadecimal;
use crate::domain::time::Timestamp;

/// How many revocations of a board may be in force.
pub const IN_FORCE_MAX: usize = 100;
/// How many others a board remembers.
pub const OTHERS_MAX: usize = 100;
/// How many events one may name.
pub const EVENTS_MAX: usize = 10_000;
/// How many of the members that lose most a dry run names.
pub const LOSSES_MAX: usize = 10;
/// How many failures, and how many expired standings, a report lists.
pub const LISTED_MAX: usize = 1_000;

/// The keyed hash of an event's id.
pub type EventHash = [u8; HASH_BYTES];

/// Which events a revocation covers: those that match all that is given. Members, events and addresses are keyed hashes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Criteria {
    pub voter: Option<Label>,
    pub device: Option<Label>,
    pub ip: Option<String>,
    pub key: Option<Label>,
    pub channel: Option<Label>,
    pub member: Option<String>,
    /// How many events are named. Their hashes are stored apart.
    pub events: Option<usize>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// What a revocation names, stored apart until it has ended.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Named {
    pub member: Option<MemberId>,
    /// Events, by the ids that their senders gave them.
    pub events: Option<Vec<EventId>>,
}

impl Named {
    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.member.is_none() && self.events.is_none()
    }

    /// The ids under which the events may be stored, of this voter if they must be: that of a player's event begins with the
    /// player, and an event of a record without an id has the place of the record.
    pub fn events_as_stored(&self, voter: Option<&Label>) -> Option<Vec<EventId>> {
        let player = voter.and_then(|voter| MemberId::parse(voter.as_str()).ok());
        let stored = |id: &EventId| {
            let of_player = player.as_ref();
            let of_player = of_player.map(|player| EventId::of_player(player, id));
            [id.clone(), EventId::of_place(id)]
                .into_iter()
                .chain(of_player)
        };
        let events = self.events.as_ref()?;
        Some(events.iter().flat_map(stored).collect())
    }
}

/// A revocation.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Revocation {
    pub number: u64,
    /// The name under which it is stored.
    pub token: String,
    pub criteria: Criteria,
    /// The pseudonym of the member in the audit log, if it names one.
    pub member: Option<String>,
    pub reason: String,
    /// Whether it only counts.
    pub dry_run: bool,
    pub ordered_at: Timestamp,
    /// What came of it; `None`: it is being carried out.
    pub report: Option<Report>,
    /// What came of restoring it.
    pub restored: Option<Report>,
}

/// What came of a revocation, or of restoring it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Report {
    pub finished_at: Timestamp,
    /// How many events it covers, and of how many members.
    pub events: u64,
    pub members: u64,
    /// Of a dry run: the members that would lose most.
    pub losses: Vec<Loss>,
    /// The first members with events that could not be changed.
    pub failed: Vec<FailedMember>,
    /// How many members these are in all.
    pub failed_count: u64,
    /// The first standings that had expired: window and key.
    pub expired: BTreeSet<(String, String)>,
}

impl Report {
    /// Whether the events of no member failed.
    pub fn is_whole(&self) -> bool {
        self.failed_count == 0
    }
}

/// What a member would lose.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Loss {
    /// Its pseudonym in the audit log.
    pub member: String,
    /// How many of its events would count no more.
    pub events: u64,
    /// The sum of their stored scores.
    pub score: i64,
}

/// A member with events that could not be changed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailedMember {
    /// Its pseudonym in the audit log.
    pub member: String,
    /// Why.
    pub failure: Failure,
}

/// Why events of a member could not be changed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// A score would be greater than the board can store exactly.
    Beyond,
    /// Stored data is damaged, or the service has a bug: its log says more.
    Fault,
}

impl Revocation {
    /// Whether it was carried out, or restored.
    pub fn has_ended(&self) -> bool {
        self.report.is_some() || self.restored.is_some()
    }

    /// Whether all events that it covers could be changed.
    pub fn is_whole(&self) -> bool {
        let mut reports = [&self.report, &self.restored].into_iter().flatten();
        reports.all(Report::is_whole)
    }

    /// Whether its events are out because of it, unless it is being restored.
    pub fn is_in_force(&self) -> bool {
        !self.dry_run && self.report.is_some() && self.restored.is_none()
    }
}

/// A revocation with the hashes of the events that it names.
#[derive(Clone, Debug)]
pub struct Cover {
    number: u64,
    criteria: Criteria,
    events: Option<HashSet<EventHash>>,
}

impl Cover {
    /// `hashes`: of the events that it names, one after the other.
    pub fn new(revocation: &Revocation, hashes: &[u8]) -> Self {
        let (hashes, _) = hashes.as_chunks::<HASH_BYTES>();
        let criteria = revocation.criteria.clone();
        Self {
            number: revocation.number,
            events: criteria.events.map(|_| hashes.iter().copied().collect()),
            criteria,
        }
    }

    /// Whether it covers an event.
    pub fn has(&self, history: &HistoryState, id: &EventId, row: &StoredRow) -> bool {
        let Self {
            criteria, events, ..
        } = self;
        let origin = &row.details.origin;
        let is = |wanted: &Option<Label>, own: &Option<Label>| wanted.is_none() || wanted == own;
        let ip = || row.details.ip.map(|hash| hexadecimal(&hash));
        let member = || hash_of_member(history, &row.details.member);
        row.revocation < self.number
            && is(&criteria.voter, &origin.voter)
            && is(&criteria.device, &origin.device)
            && is(&criteria.key, &origin.key)
            && is(&criteria.channel, &origin.channel)
            && criteria.since.is_none_or(|since| since <= row.at)
            && criteria.until.is_none_or(|until| row.at < until)
            && criteria
                .ip
                .as_ref()
                .is_none_or(|wanted| ip().as_ref() == Some(wanted))
            && criteria
                .member
                .as_ref()
                .is_none_or(|wanted| member() == *wanted)
            && events
                .as_ref()
                .is_none_or(|events| events.contains(&hash_of_event(history, id)))
    }
}

/// The keyed hash of a member of a board, as stored.
pub fn hash_of_member(history: &HistoryState, member: &MemberId) -> String {
    hexadecimal(&history.hash(&format!("member {member}")))
}

/// The keyed hash of an event's id.
pub fn hash_of_event(history: &HistoryState, id: &EventId) -> EventHash {
    history.hash(&format!("event {}", id.as_str()))
}
