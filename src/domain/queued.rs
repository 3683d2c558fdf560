//! A queued event, which waits in the queue of its shard until it is applied.

use serde::{Deserialize, Serialize};

use super::board::Board;
use super::data::EntryData;
use super::event::{Event, Origin};
use super::ids::{EventId, Label, MemberId};
use super::quota::Network;
use super::time::{Span, Timestamp};

/// How long an event may wait in a queue. Older ones become dead letters.
pub const AGE_MAX: Span = Span::days(1);

/// An event as it waits in a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueuedEvent {
    /// Identifies retries. An event sent without an id has a random one.
    pub id: EventId,
    /// Distinguishes the content from another one under the same id: [`Event::fingerprint`].
    pub fingerprint: u64,
    /// The member whose score it changes.
    pub member: MemberId,
    /// The score as its board writes it: a JSON number.
    pub score: String,
    /// The `at` that was sent, if any. It is part of the content.
    pub sent_at: Option<Timestamp>,
    /// The instant that the event counts for, whenever it is applied.
    pub at: Timestamp,
    /// When it was queued. Determines whether it is too late, or in the future.
    pub queued_at: Timestamp,
    /// Its origin.
    pub origin: Origin,
    /// The data shown with the entry whose score it gives.
    pub data: Option<EntryData>,
}

/// Its form in the queue, without the id, as a MessagePack array: so the order of the fields is fixed. Instants are
/// microseconds since the epoch.
#[derive(Deserialize, Serialize)]
struct Encoded<'a> {
    fingerprint: u64,
    member: &'a str,
    score: &'a str,
    sent_at: Option<i64>,
    at: i64,
    queued_at: i64,
    voter: Option<&'a str>,
    channel: Option<&'a str>,
    device: Option<&'a str>,
    ip: Option<String>,
    data: Option<&'a str>,
    /// Absent on boards that keep no events: earlier releases don't know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl QueuedEvent {
    /// An event with an id, to be queued on a board. Without an `at` it counts for the time at which it is queued.
    pub fn new(board: &Board, id: EventId, event: Event, queued_at: Timestamp) -> Self {
        let fingerprint = event.fingerprint();
        let Event {
            id: _,
            member,
            score,
            at,
            origin,
            data,
        } = event;
        Self {
            id,
            fingerprint,
            member,
            score: score.shown(board.definition.decimals).to_string(),
            sent_at: at,
            at: at.unwrap_or(queued_at),
            queued_at,
            origin: Origin {
                key: origin.key.filter(|_| board.history.is_some()),
                ..origin
            },
            data,
        }
    }

    /// If it has waited too long to be applied: since when, for people.
    pub fn too_long_wait(&self, now: Timestamp) -> Option<String> {
        let since = self.queued_at;
        let is_too_long = since.saturating_add(AGE_MAX) < now;
        is_too_long.then(|| format!("it has waited since {since}, longer than {AGE_MAX}"))
    }

    /// Its form in the queue, without the id.
    pub fn encode(&self) -> Vec<u8> {
        let origin = &self.origin;
        let encoded = Encoded {
            fingerprint: self.fingerprint,
            member: self.member.as_str(),
            score: &self.score,
            sent_at: self.sent_at.map(Timestamp::us),
            at: self.at.us(),
            queued_at: self.queued_at.us(),
            voter: origin.voter.as_ref().map(Label::as_str),
            channel: origin.channel.as_ref().map(Label::as_str),
            device: origin.device.as_ref().map(Label::as_str),
            ip: origin.ip.map(|ip| ip.to_string()),
            data: self.data.as_ref().map(EntryData::as_str),
            key: origin.key.as_ref().map(Label::as_str),
        };
        rmp_serde::to_vec(&encoded).expect("invariant: texts and numbers can be packed")
    }

    /// Decodes what [`QueuedEvent::encode`] returned.
    ///
    /// # Errors
    ///
    /// What is wrong with it: a newer release may have written it, or it is damaged.
    pub fn decode(id: &[u8], encoded: &[u8]) -> Result<Self, String> {
        let id = std::str::from_utf8(id).map_err(|error| format!("id: {error}"))?;
        let read_event = rmp_serde::from_slice::<Encoded<'_>>(encoded);
        let sent = read_event.map_err(|error| format!("event: {error}"))?;
        let label = |name, text: Option<&str>| read(name, text, Label::parse);
        Ok(Self {
            id: EventId::stored(id).map_err(|error| format!("id: {error}"))?,
            fingerprint: sent.fingerprint,
            member: MemberId::parse(sent.member).map_err(|error| format!("member: {error}"))?,
            score: sent.score.to_owned(),
            sent_at: read("at", sent.sent_at, Timestamp::from_us)?,
            at: Timestamp::from_us(sent.at).map_err(|error| format!("at: {error}"))?,
            queued_at: Timestamp::from_us(sent.queued_at)
                .map_err(|error| format!("queued_at: {error}"))?,
            origin: Origin {
                voter: label("voter", sent.voter)?,
                channel: label("channel", sent.channel)?,
                device: label("device", sent.device)?,
                ip: read("ip", sent.ip.as_deref(), Network::parse)?,
                key: label("key", sent.key)?,
            },
            data: read("data", sent.data, |text| {
                EntryData::from_stored(text).ok_or("no JSON object")
            })?,
        })
    }
}

/// Reads a field that may be missing; errors name it.
fn read<T, U, E: std::fmt::Display>(
    name: &str,
    field: Option<T>,
    parse: impl FnOnce(T) -> Result<U, E>,
) -> Result<Option<U>, String> {
    let parsed = field.map(parse).transpose();
    parsed.map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::time::at;
    use super::*;

    fn queued() -> QueuedEvent {
        QueuedEvent {
            id: EventId::parse("run-1").unwrap(),
            fingerprint: (1 << 53) - 1,
            member: MemberId::parse("ann").unwrap(),
            score: "-12.5".to_owned(),
            sent_at: None,
            at: at("2026-11-21T12:00:00Z"),
            queued_at: at("2026-11-21T12:00:01Z"),
            origin: Origin::default(),
            data: None,
        }
    }

    fn decoded(queued: &QueuedEvent) -> Result<QueuedEvent, String> {
        QueuedEvent::decode(queued.id.as_str().as_bytes(), &queued.encode())
    }

    #[test]
    fn a_queued_event_is_read_as_it_was_written() {
        let few = queued();
        assert_eq!(decoded(&few).as_ref(), Ok(&few));
        let label = |text| Some(Label::parse(text).unwrap());
        let player = MemberId::parse("ann").unwrap();
        let all = QueuedEvent {
            id: EventId::of_player(&player, &few.id),
            sent_at: Some(few.at),
            origin: Origin {
                voter: label("v"),
                channel: label("web"),
                device: label("é"),
                ip: Network::parse("2001:db8::1").ok(),
                key: label("backend"),
            },
            data: EntryData::parse(r#"{"car": "gt-3"}"#).ok(),
            ..few
        };
        assert_eq!(decoded(&all).as_ref(), Ok(&all));
    }

    #[test]
    fn damage_is_reported() {
        let good = queued();
        let error = |id: &[u8], encoded: &[u8]| QueuedEvent::decode(id, encoded).unwrap_err();
        let encoded = good.encode();
        for damaged in [&b""[..], b"\xc1", b"\x93\x01\x02\x03", &encoded[..9]] {
            assert!(
                error(b"x", damaged).starts_with("event: "),
                "{}",
                error(b"x", damaged)
            );
        }
        assert!(error(b"\xff", &encoded).starts_with("id: "));
        assert!(error(b"", &encoded).starts_with("id: "));
        let wrong = |change: fn(&mut Encoded<'_>)| {
            let mut parts: Encoded<'_> = rmp_serde::from_slice(&encoded).unwrap();
            change(&mut parts);
            error(b"x", &rmp_serde::to_vec(&parts).unwrap())
        };
        for (name, told) in [
            ("member", wrong(|parts| parts.member = "")),
            ("at", wrong(|parts| parts.at = i64::MAX)),
            ("voter", wrong(|parts| parts.voter = Some("\u{1}"))),
            ("ip", wrong(|parts| parts.ip = Some("here".to_owned()))),
            ("data", wrong(|parts| parts.data = Some("[]"))),
        ] {
            assert!(told.starts_with(&format!("{name}: ")), "{told}");
        }
    }
}
