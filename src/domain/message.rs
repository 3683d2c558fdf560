//! Messages to webhooks. They name no members.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::board::Board;
use super::ids::BoardId;
use super::secret::Digest;
use super::texts::words;
use super::time::Timestamp;

words! {
    /// The kind of a message: what it reports.
    #[derive(Ord, PartialOrd)]
    pub enum MessageKind {
        /// A period is final.
        PeriodFinal = "period.final",
        /// The results of final periods have changed.
        PeriodRevised = "period.revised",
        /// A member was hidden.
        MemberHidden = "member.hidden",
        /// A cohort of a league is decided.
        LeagueTurned = "league.turned",
        /// An event was retracted.
        EventRetracted = "event.retracted",
        /// A retracted event was restored.
        EventRestored = "event.restored",
        /// An event counts for another score.
        EventCorrected = "event.corrected",
        /// An event was added by an amendment.
        EventAmended = "event.amended",
        /// Events were revoked, or a revocation was restored.
        EventsRevoked = "events.revoked",
        /// A test of a webhook.
        Test = "webhook.test",
    }
}

impl MessageKind {
    /// The kinds that webhooks can be registered for.
    pub const OF_EVENTS: [Self; 9] = [
        Self::PeriodFinal,
        Self::PeriodRevised,
        Self::MemberHidden,
        Self::LeagueTurned,
        Self::EventRetracted,
        Self::EventRestored,
        Self::EventCorrected,
        Self::EventAmended,
        Self::EventsRevoked,
    ];

    /// The kind of the message with this body; `None` if this release does not know it.
    pub fn of_body(body: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Typed {
            r#type: MessageKind,
        }
        let typed: Typed = serde_json::from_str(body).ok()?;
        Some(typed.r#type)
    }
}

/// The id of a message: `webhook-id`, the same for every try and every receiver.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// The id of an occasion, which is unique among those of its kind on the board of this generation, or on this webhook.
    /// So a repeated step makes the same id.
    fn of(kind: MessageKind, whose: &str, occasion: &str) -> Self {
        let text = format!("{kind}\n{whose}\n{occasion}");
        // Half a digest is enough to be unique.
        Self(format!("msg_{:032x}", Digest::of(&text).half()))
    }

    /// An id from Redis or a caller; the message need not exist.
    pub fn named(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// What receivers get: JSON with `type`, `timestamp` and `data`.
    pub body: String,
}

#[derive(Serialize)]
struct Body<T> {
    r#type: MessageKind,
    timestamp: Timestamp,
    data: T,
}

#[derive(Serialize)]
struct OfBoard<'a, T> {
    board: &'a BoardId,
    #[serde(flatten)]
    data: T,
}

impl Message {
    /// A message about a board. `occasion` is unique among all messages of this kind on the board, such as
    /// `week:2026-W47:1`. `data` is an object, to which `board` is added; it names no member.
    pub fn new(
        kind: MessageKind,
        board: &Board,
        occasion: &str,
        at: Timestamp,
        data: &impl Serialize,
    ) -> Self {
        let whose = format!("{} {}", board.id, board.generation);
        let board = &board.id;
        let id = MessageId::of(kind, &whose, occasion);
        Self::with(id, kind, at, OfBoard { board, data })
    }

    /// The `number`-th test of a webhook that was made at this instant.
    pub fn test(webhook: &str, made_at: Timestamp, number: u32, at: Timestamp) -> Self {
        // Another webhook may reuse a deleted one's name, and its numbers start again.
        let whose = format!("{webhook} {}", made_at.ms());
        let id = MessageId::of(MessageKind::Test, &whose, &number.to_string());
        let data = serde_json::json!({ "webhook": webhook });
        Self::with(id, MessageKind::Test, at, data)
    }

    fn with(id: MessageId, kind: MessageKind, at: Timestamp, data: impl Serialize) -> Self {
        let body = Body {
            r#type: kind,
            timestamp: at,
            data,
        };
        let body = serde_json::to_string(&body).expect("invariant: `data` is an object");
        Self { id, body }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn board(generation: u64) -> Board {
        let definition = serde_json::from_str(r#"{"windows": ["week"]}"#).unwrap();
        let id = BoardId::parse("vote-eu").unwrap();
        Board::new(id, definition, generation, 3, [].into_iter().collect())
    }

    #[test]
    fn an_id_depends_on_its_step_only() {
        let at = Timestamp::parse("2026-11-23T00:10:00Z").unwrap();
        let later = Timestamp::parse("2026-11-23T00:10:07Z").unwrap();
        let data = json!({"window": "week", "key": "2026-W47", "revision": 1});
        let made = |generation, kind, occasion, at| {
            Message::new(kind, &board(generation), occasion, at, &data)
        };
        let first = made(7, MessageKind::PeriodFinal, "week:2026-W47:1", at);
        let expected = json!({"type": "period.final", "timestamp": "2026-11-23T00:10:00.000Z",
            "data": {"board": "vote-eu", "window": "week", "key": "2026-W47", "revision": 1}});
        let body: Value = serde_json::from_str(&first.body).unwrap();
        assert_eq!(body, expected);
        assert_eq!(
            MessageKind::of_body(&first.body),
            Some(MessageKind::PeriodFinal)
        );
        assert_eq!(first.id.as_str().len(), 36);
        let again = made(7, MessageKind::PeriodFinal, "week:2026-W47:1", later);
        assert_eq!(again.id, first.id);
        for other in [
            made(8, MessageKind::PeriodFinal, "week:2026-W47:1", at),
            made(7, MessageKind::PeriodRevised, "week:2026-W47:1", at),
            made(7, MessageKind::PeriodFinal, "week:2026-W47:2", at),
            Message::test("vote-eu", at, 1, at),
        ] {
            assert_ne!(other.id, first.id);
        }
        for kind in MessageKind::OF_EVENTS {
            assert_eq!(json!(kind), json!(kind.name()));
        }
    }
}
