//! An event as clients write it: the body of a request, an item of a batch, or a Kafka record.

use std::borrow::Cow;
use std::fmt::Display;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::core::write::events::IncomingEvent;
use crate::domain::board::FieldError;
use crate::domain::data::EntryData;
use crate::domain::document;
use crate::domain::event::Origin;
use crate::domain::ids::{BoardId, EventId, Label, MemberId};
use crate::domain::problems::{Problem, json_text};
use crate::domain::quota::Network;
use crate::domain::score::ShownScore;
use crate::domain::time::Timestamp;

/// One event of a batch.
// The schemas and the records of Kafka follow from it.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchEvent)]
pub struct EventBody<'a> {
    /// The board's id.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BoardId, required = true)]
    pub board: Option<Cow<'a, str>>,
    /// Unique on its board. Within the board's `idempotency`, an event with the same id counts once, and a retry gets the
    /// first outcome. Without an id, a retry counts again.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EventId>)]
    pub id: Option<Cow<'a, str>>,
    /// The member whose score changes: 1 to 128 bytes of UTF-8 without control characters.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MemberId, required = true)]
    pub member: Option<Cow<'a, str>>,
    /// The score, with no more decimals than the board's `decimals` allows.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ShownScore, required = true)]
    pub score: Option<&'a RawValue>,
    /// When the event happened: at most 60 seconds ahead of the service's clock, and not older than the board's
    /// `accept_late`. The default is the time at which the service reads the event.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    pub at: Option<Cow<'a, str>>,
    /// The voter who sent the event. Quotas can count by it.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Label>)]
    pub voter: Option<Cow<'a, str>>,
    /// The channel through which the event came. Quotas can count by it.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Label>)]
    pub channel: Option<Cow<'a, str>>,
    /// The device from which the event came. Quotas can count by it.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Label>)]
    pub device: Option<Cow<'a, str>>,
    /// The address from which the event came, IPv4 or IPv6. Quotas can count by it; for IPv6, by its /64 network.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "203.0.113.7")]
    pub ip: Option<Cow<'a, str>>,
    /// On a board with `entry_data`: data that the member's entries show with `include=data` if the event gave them their
    /// score. A JSON object of up to 512 bytes in its canonical form (RFC 8785).
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryData>)]
    pub data: Option<&'a RawValue>,
}

/// An optional text. By default `serde` copies an optional text even where it could borrow it.
fn borrowed<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let text = Option::<Text<'_>>::deserialize(from)?;
    Ok(text.map(|Text(text)| text))
}

/// The names of an event's fields without the board: `id`, `member`, `score`, `at`, its origin (voter, device, …), and
/// `data`.
pub const COLUMNS: &[&str] = &[
    "id", "member", "score", "at", "voter", "channel", "device", "ip", "data",
];

/// What is wrong with a required field that is not there.
const MISSING: &str = "is missing";

/// Takes a field, or collects what is wrong with it.
fn take<T, E: Display>(
    errors: &mut Vec<FieldError>,
    pointer: &str,
    parsed: Result<T, E>,
) -> Option<T> {
    parsed
        .map_err(|error| errors.push(FieldError::new(pointer, error)))
        .ok()
}

impl EventBody<'_> {
    /// The event, received at this time, with the board of the path and the id of the header, if any.
    pub fn check(
        &self,
        path_board: Option<&BoardId>,
        key: Option<&str>,
        arrived_at: Timestamp,
    ) -> Result<IncomingEvent, Problem> {
        let mut errors = Vec::new();
        let board = self.take_board(path_board, &mut errors);
        let id = self.take_id(key, &mut errors);
        let member = self
            .member
            .as_deref()
            .ok_or_else(|| MISSING.to_owned())
            .and_then(|member| MemberId::parse(member).map_err(|error| error.to_string()));
        let member = take(&mut errors, "/member", member);
        let score = self.score.map(RawValue::get).ok_or(MISSING);
        let score = score.and_then(|score| {
            let is_number = score.starts_with(|first: char| first == '-' || first.is_ascii_digit());
            is_number.then_some(score).ok_or("must be a number")
        });
        let score = take(&mut errors, "/score", score);
        let at = self
            .at
            .as_deref()
            .and_then(|at| take(&mut errors, "/at", Timestamp::parse(at)));
        let mut label = |pointer, text: &Option<Cow<'_, str>>| {
            take(&mut errors, pointer, Label::parse(text.as_deref()?))
        };
        let origin = Origin {
            voter: label("/voter", &self.voter),
            channel: label("/channel", &self.channel),
            device: label("/device", &self.device),
            ip: self
                .ip
                .as_deref()
                .and_then(|ip| take(&mut errors, "/ip", Network::parse(ip))),
            key: None,
        };
        let data = self
            .data
            .and_then(|data| take(&mut errors, "/data", EntryData::parse(data.get())));
        match (board, member, score) {
            (Some(board), Some(member), Some(score)) if errors.is_empty() => Ok(IncomingEvent {
                board,
                id,
                member,
                score: score.to_owned(),
                at,
                arrived_at,
                origin,
                data,
                queued: None,
            }),
            _ => Err(Problem::invalid(errors)),
        }
    }

    fn take_board(&self, path: Option<&BoardId>, errors: &mut Vec<FieldError>) -> Option<BoardId> {
        match (&self.board, path) {
            (Some(board), None) => take(errors, "/board", BoardId::parse(board)),
            (Some(board), Some(path)) if **board != *path.as_str() => take(
                errors,
                "/board",
                Err("must be the board in the path, or left out"),
            ),
            (_, Some(path)) => Some(path.clone()),
            (None, None) => take(errors, "/board", Err(MISSING)),
        }
    }

    fn take_id(&self, key: Option<&str>, errors: &mut Vec<FieldError>) -> Option<EventId> {
        match (self.id.as_deref(), key) {
            (Some(id), Some(key)) if id != key => take(
                errors,
                "/id",
                Err("must be equal to the header Idempotency-Key, or left out"),
            ),
            (Some(id), _) => take(errors, "/id", EventId::parse(id)),
            (None, Some(key)) => take(errors, "", EventId::parse(key)),
            (None, None) => None,
        }
    }
}

/// Parses an event that names its board, as in a batch, received at this time.
///
/// # Errors
///
/// What is wrong with it, as in the response for such an item.
pub fn read_item(bytes: &[u8], arrived_at: Timestamp) -> Result<IncomingEvent, Problem> {
    read_event(bytes, |event| event.check(None, None, arrived_at))
}

/// Parses an event and checks it. Reports all errors together: those of its form, and those that the check finds in the rest.
pub fn read_event(
    bytes: &[u8],
    check: impl Fn(&EventBody<'_>) -> Result<IncomingEvent, Problem>,
) -> Result<IncomingEvent, Problem> {
    let read = |text: &str| document::read::<EventBody<'_>>(text).map(|event| check(&event));
    let more_of = |checked: Result<IncomingEvent, Problem>, known: &[FieldError]| {
        let is_new = |error: &FieldError| known.iter().all(|one| one.pointer != error.pointer);
        let found = checked
            .err()
            .map_or_else(Vec::new, |problem| problem.errors);
        found.into_iter().filter(is_new).collect()
    };
    document::read_whole(json_text(bytes)?, read, more_of)?
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema;
    use utoipa::openapi::{RefOr, Schema};

    use super::*;

    #[test]
    fn columns_are_the_fields_of_an_event_in_their_order() {
        let RefOr::T(Schema::Object(event)) = EventBody::schema() else {
            panic!("an event is described as an object");
        };
        let names: Vec<&str> = event.properties.keys().map(String::as_str).collect();
        assert_eq!(names, [&["board"], COLUMNS].concat());
    }
}
