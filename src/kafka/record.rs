//! The format of an event in the topic: key, value and headers, as in docs/kafka.md.

use std::borrow::Cow;

use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::{Message, Timestamp as RecordTime};

use crate::core::Error;
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::event::Origin;
use crate::domain::ids::{EventId, Label, MemberId};
use crate::domain::queued::QueuedEvent;
use crate::domain::time::Timestamp;
use crate::events::body::{EventBody, read_item};
use crate::queue::intake::LogEvent;

/// The generation of the board: a new board of the same name does not get the event.
const GENERATION: &str = "standings-generation";
/// When the event was queued, in microseconds since the epoch; valid even if brokers set the time of records.
const QUEUED_AT: &str = "standings-queued-at";
/// The player who sent the event.
const PLAYER: &str = "standings-player";
/// What the event was sent with: the name of an API key.
const KEY: &str = "standings-key";

pub(super) struct WrittenRecord {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) headers: OwnedHeaders,
    pub(super) at_ms: i64,
}

/// The record for an event of a board.
///
/// # Errors
///
/// Never, unless stored JSON is invalid.
pub(super) fn write(board: &Board, event: &QueuedEvent) -> Result<WrittenRecord, Error> {
    // The fingerprint is computed again from the content, and without an `at` the event counts for `queued_at`.
    let QueuedEvent {
        id,
        fingerprint: _,
        member,
        score,
        sent_at,
        at: _,
        queued_at,
        origin,
        data,
    } = event;
    let Origin {
        voter,
        channel,
        device,
        ip,
        key,
    } = origin;
    let raw = |text| serde_json::from_str(text).map_err(|error| Error::Log(error.to_string()));
    let value = EventBody {
        board: Some(board.id.as_str().into()),
        id: Some(id.as_sent().into()),
        member: Some(member.as_str().into()),
        score: Some(raw(score)?),
        at: sent_at.map(|at| at.to_string().into()),
        voter: voter.as_ref().map(Label::as_str).map(Cow::from),
        channel: channel.as_ref().map(Label::as_str).map(Cow::from),
        device: device.as_ref().map(Label::as_str).map(Cow::from),
        ip: ip.map(|ip| ip.to_string().into()),
        data: data.as_ref().map(EntryData::as_str).map(raw).transpose()?,
    };
    let (generation, us) = (board.generation.to_string(), queued_at.us().to_string());
    let headers = [(GENERATION, &*generation), (QUEUED_AT, &us)].into_iter();
    let player = id.player().map(|player| (PLAYER, player));
    let key = key.as_ref().map(|key| (KEY, key.as_str()));
    Ok(WrittenRecord {
        key: format!("{}/{member}", board.id),
        value: serde_json::to_vec(&value).map_err(|error| Error::Log(error.to_string()))?,
        headers: with(OwnedHeaders::new(), headers.chain(player).chain(key)),
        at_ms: queued_at.ms(),
    })
}

/// Adds headers to others.
pub(super) fn with<'a>(
    headers: OwnedHeaders,
    more: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> OwnedHeaders {
    let header = |(key, value)| Header {
        key,
        value: Some(value),
    };
    more.into_iter()
        .map(header)
        .fold(headers, OwnedHeaders::insert)
}

/// An unreadable record.
#[derive(Debug)]
pub(super) struct Illegible {
    /// The name of the fault, without any content of the record.
    pub(super) code: &'static str,
    /// What is wrong, for people who may see the record.
    pub(super) detail: String,
}

pub(super) fn read(message: &impl Message) -> Result<LogEvent, Illegible> {
    let Some(value) = message.payload() else {
        return Err(Illegible {
            code: "no-value",
            detail: "the record has no value".to_owned(),
        });
    };
    let of_record = match message.timestamp() {
        RecordTime::CreateTime(ms) | RecordTime::LogAppendTime(ms) => {
            Timestamp::from_ms_clamped(ms)
        }
        RecordTime::NotAvailable => Timestamp::from_ms_clamped(0),
    };
    let mut incoming = read_item(value, of_record).map_err(|problem| Illegible {
        code: problem.kind.name,
        detail: problem.detail,
    })?;
    let (mut generation, mut queued_at) = (None, None);
    for header in message.headers().iter().flat_map(|headers| headers.iter()) {
        let illegible = || Illegible {
            code: "invalid-header",
            detail: format!("the header {} can't be read", header.key),
        };
        let text = || std::str::from_utf8(header.value?).ok();
        match header.key {
            GENERATION => {
                let number = text().and_then(|text| text.parse().ok());
                generation = Some(number.ok_or_else(illegible)?);
            }
            QUEUED_AT => {
                let us = text().and_then(|text| text.parse().ok());
                queued_at = Some(Timestamp::from_us_clamped(us.ok_or_else(illegible)?));
            }
            PLAYER => {
                let player = text()
                    .and_then(|text| MemberId::parse(text).ok())
                    .ok_or_else(illegible)?;
                incoming.id = incoming.id.map(|id| EventId::of_player(&player, &id));
            }
            KEY => {
                let key = text().and_then(|text| Label::parse(text).ok());
                incoming.origin.key = Some(key.ok_or_else(illegible)?);
            }
            _ => {}
        }
    }
    Ok(LogEvent {
        offset: message.offset(),
        generation,
        incoming,
        logged_at: queued_at.unwrap_or(of_record),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rdkafka::message::OwnedMessage;

    use super::*;
    use crate::domain::board::Definition;
    use crate::domain::event::Event;
    use crate::domain::ids::BoardId;
    use crate::domain::quota::Network;
    use crate::domain::score::Score;

    const QUEUED_MS: i64 = 1_795_305_600_123;

    fn message(value: Option<&[u8]>, headers: &[(&str, &str)], time: RecordTime) -> OwnedMessage {
        let all = with(OwnedHeaders::new(), headers.iter().copied());
        let value = value.map(<[u8]>::to_vec);
        OwnedMessage::new(value, None, "events".to_owned(), time, 3, 41, Some(all))
    }

    #[test]
    fn a_written_event_is_read_as_it_was_queued() {
        let definition: Definition = serde_json::from_str(
            r#"{"windows": ["all"], "decimals": 2, "entry_data": true, "history": "board"}"#,
        )
        .unwrap();
        let id = BoardId::parse("show").unwrap();
        let board = Board::new(id.clone(), definition, 77, 1, BTreeMap::new())
            .with_history("key".to_owned(), Timestamp::MIN);
        let label = |text| Some(Label::parse(text).unwrap());
        let (sent, member) = (
            EventId::parse("run \"1\"").unwrap(),
            MemberId::parse("é/1").unwrap(),
        );
        let event = Event {
            id: None,
            member: member.clone(),
            score: Score::parse("-12.5", board.definition.decimals).unwrap(),
            at: Some(Timestamp::from_ms_clamped(QUEUED_MS - 5)),
            origin: Origin {
                voter: label("v"),
                channel: label("web"),
                device: label("d"),
                ip: Network::parse("2001:db8::1").ok(),
                key: label("backend"),
            },
            data: EntryData::parse(r#"{"car": "gt-3"}"#).ok(),
        };
        let now = Timestamp::from_us_clamped(QUEUED_MS * 1_000 + 7);
        let bare = Event {
            at: None,
            origin: Origin::default(),
            data: None,
            ..event.clone()
        };
        for (event, id) in [
            (
                event,
                EventId::of_player(&MemberId::parse("ann").unwrap(), &sent),
            ),
            (bare, sent),
        ] {
            let queued = QueuedEvent::new(&board, id.clone(), event, now);
            let written = write(&board, &queued).unwrap();
            assert_eq!(
                (written.key.as_str(), written.at_ms),
                ("show/é/1", QUEUED_MS)
            );
            // The header counts, even if the broker sets the time of records.
            let time = RecordTime::LogAppendTime(QUEUED_MS + 1_000);
            let message = OwnedMessage::new(
                Some(written.value),
                None,
                "events".to_owned(),
                time,
                3,
                41,
                Some(written.headers),
            );
            let read = read(&message).unwrap();
            assert_eq!(
                (read.offset, read.generation, read.logged_at),
                (41, Some(77), now)
            );
            let incoming = read.incoming;
            assert_eq!((incoming.board.as_str(), incoming.id), ("show", Some(id)));
            assert_eq!((&incoming.member, incoming.at), (&member, queued.sent_at));
            assert_eq!(
                (incoming.score, incoming.origin),
                (queued.score, queued.origin)
            );
            assert_eq!((incoming.data, incoming.queued), (queued.data, None));
        }
    }

    #[test]
    fn a_foreign_record_needs_no_headers_and_errors_do_not_quote_it() {
        let vote = br#"{"board": "show", "member": "ann", "score": 1}"#;
        let other = message(
            Some(vote),
            &[("trace", "1")],
            RecordTime::CreateTime(QUEUED_MS),
        );
        let read_other = read(&other).unwrap();
        assert_eq!(
            (read_other.generation, read_other.incoming.id),
            (None, None)
        );
        assert_eq!(read_other.logged_at.ms(), QUEUED_MS);
        let untimed = message(Some(vote), &[], RecordTime::NotAvailable);
        assert_eq!(read(&untimed).unwrap().logged_at.ms(), 0);
        for (value, headers, code) in [
            (None, &[][..], "no-value"),
            (Some(&b"hush"[..]), &[], "malformed-json"),
            (Some(b"\xff"), &[], "malformed-json"),
            (Some(br#"{"board": "show"}"#), &[], "validation-failed"),
            (Some(vote), &[(GENERATION, "hush")], "invalid-header"),
            (Some(vote), &[(QUEUED_AT, "")], "invalid-header"),
            (Some(vote), &[(PLAYER, "")], "invalid-header"),
            (Some(vote), &[(KEY, "")], "invalid-header"),
        ] {
            let illegible = read(&message(value, headers, RecordTime::NotAvailable)).unwrap_err();
            assert_eq!(illegible.code, code);
        }
    }
}
