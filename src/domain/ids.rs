//! Ids that users give to boards, members and events.

use thiserror::Error;

use super::intake::Partition;
use super::texts::checked_text;

/// The longest board id, in bytes.
pub const BOARD_ID_BYTES_MAX: usize = 128;
/// The longest name of a rule, an API key or a webhook, in bytes.
const PLAIN_BYTES_MAX: usize = 64;
/// The longest member id or event id, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 128;

/// Why a text is not a valid id.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum IdError {
    /// It breaks the pattern of plain names. Has what the text should be, and its maximum length.
    #[error(
        "{0} must have 1 to {1} of the characters A-Z a-z 0-9 . _ - and begin with a letter or a digit"
    )]
    Plain(&'static str, usize),
    /// A member or event id is empty or too long.
    #[error("must have 1 to 128 bytes of UTF-8, not {0}")]
    Length(usize),
    /// A member or event id contains a control character.
    #[error("must not have control characters")]
    Control,
    /// It should be an address but is not.
    #[error("must be an IPv4 or IPv6 address, such as 203.0.113.7")]
    Address,
}

/// Checks the pattern `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`. The error says what the text should be.
pub(crate) fn plain<'a>(text: &'a str, what: &'static str) -> Result<&'a str, IdError> {
    plain_up_to(PLAIN_BYTES_MAX, text, what)
}

fn plain_up_to<'a>(max: usize, text: &'a str, what: &'static str) -> Result<&'a str, IdError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_sound = text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.len() <= max
        && text.bytes().all(is_plain);
    is_sound.then_some(text).ok_or(IdError::Plain(what, max))
}

fn any(text: &str) -> Result<&str, IdError> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        Err(IdError::Length(text.len()))
    } else if text.chars().any(char::is_control) {
        Err(IdError::Control)
    } else {
        Ok(text)
    }
}

checked_text! {
    /// The name of a board: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
    BoardId, |text| plain_up_to(BOARD_ID_BYTES_MAX, text, "a board id"), IdError
}

checked_text! {
    /// Who is ranked: 1 to 128 bytes of UTF-8 without control characters.
    MemberId, any, IdError
}

/// Marks the id of a line that has outlived its member (`scripts/lib/nameless.lua`). Clients' ids can't contain this
/// control character.
const NAMELESS: char = '\u{1e}';
/// How many characters after it determine the shard.
const TAG_CHARS: usize = 4;

/// A stored id as shown: `None` for a line that has outlived its member.
pub fn shown_member<T: AsRef<str>>(id: T) -> Option<T> {
    (!id.as_ref().contains(NAMELESS)).then_some(id)
}

impl MemberId {
    /// A stored id, which may be of a line that has outlived its member.
    ///
    /// # Errors
    ///
    /// See [`Self::parse`].
    pub fn stored(text: &str) -> Result<Self, IdError> {
        if shown_member(text).is_some() {
            return Self::parse(text);
        }
        Ok(Self(text.into()))
    }

    /// The part of the id that determines its shard.
    pub fn shard_part(&self) -> &str {
        let Some((_, behind)) = self.0.rsplit_once(NAMELESS) else {
            return &self.0;
        };
        behind.get(..TAG_CHARS).unwrap_or(behind)
    }

    /// The id of a line with the shard of this tag.
    #[must_use]
    pub fn nameless(tag: &str) -> Self {
        Self(format!("{NAMELESS}{tag}").into())
    }
}

checked_text! {
    /// Where an event comes from, as its sender says: 1 to 128 bytes of UTF-8 without control characters.
    Label, any, IdError
}

checked_text! {
    /// What makes a retry recognisable; unique in its board. 1 to 128 bytes of UTF-8 without control characters.
    EventId, any, IdError
}

/// The number of a revocation of events; unique in its board.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RevocationNumber(pub u64);

impl RevocationNumber {
    /// Parses a number, which has one spelling.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let number = text
            .parse()
            .ok()
            .filter(|number: &u64| number.to_string() == text);
        number.map(Self).ok_or("is not the number of a revocation")
    }
}

/// Separates a player and the id that the player has given. Clients' ids can't contain this control character, so the ids
/// of players never collide with others.
const PLAYER_SEPARATOR: char = '\u{1f}';

/// Marks the id of an event from a record without one. Clients' ids can't contain this control character.
const RECORD_MARK: char = '\u{1d}';

impl EventId {
    /// The id of an event that came without one, in the record of this partition at this offset.
    #[must_use]
    pub fn of_record(partition: &Partition, offset: i64) -> Self {
        Self(format!("{RECORD_MARK}{partition}/{offset}").into())
    }

    /// The id of an event that came without one, from the place of its record as [`Self::as_sent`] shows it.
    #[must_use]
    pub fn of_place(place: &Self) -> Self {
        Self(format!("{RECORD_MARK}{place}").into())
    }

    /// The id of an event that a player sent with this id.
    #[must_use]
    pub fn of_player(player: &MemberId, sent: &Self) -> Self {
        Self(format!("{player}{PLAYER_SEPARATOR}{sent}").into())
    }

    /// A stored id, which may be of a player's event, or of a record without an id.
    ///
    /// # Errors
    ///
    /// See [`Self::parse`].
    pub fn stored(text: &str) -> Result<Self, IdError> {
        if let Some(place) = text.strip_prefix(RECORD_MARK) {
            // The name of a topic may be longer than a client's id.
            let is_clean = !place.is_empty() && !place.contains(char::is_control);
            return if is_clean {
                Ok(Self(text.into()))
            } else {
                Err(IdError::Control)
            };
        }
        let Some((player, sent)) = text.split_once(PLAYER_SEPARATOR) else {
            return Self::parse(text);
        };
        Ok(Self::of_player(
            &MemberId::parse(player)?,
            &Self::parse(sent)?,
        ))
    }

    /// The player that sent the event, if any.
    pub fn player(&self) -> Option<&str> {
        let (player, _) = self.0.split_once(PLAYER_SEPARATOR)?;
        Some(player)
    }

    /// The id as sent. For a record without one, the place of the record.
    pub fn as_sent(&self) -> &str {
        let sent = self.0.rsplit([PLAYER_SEPARATOR, RECORD_MARK]).next();
        sent.unwrap_or(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_ids_keep_their_pattern() {
        for good in ["a", "run_hero", "9.x-Y", &"b".repeat(128)] {
            assert_eq!(
                BoardId::parse(good).map(|id| id.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in [
            "",
            "_a",
            "-a",
            ".a",
            "a b",
            "a/b",
            "ä",
            "a{b}",
            &"b".repeat(129),
        ] {
            assert_eq!(
                BoardId::parse(bad),
                Err(IdError::Plain("a board id", 128)),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn ids_of_players_collide_with_no_others() {
        let player = |text| MemberId::parse(text).unwrap();
        let id = |text| EventId::parse(text).unwrap();
        let of_player = EventId::of_player(&player("a"), &id("b/c"));
        assert_eq!(of_player.as_sent(), "b/c");
        assert_eq!((of_player.player(), id("b/c").player()), (Some("a"), None));
        assert_eq!(id("b/c").as_sent(), "b/c");
        assert_ne!(of_player, EventId::of_player(&player("a/b"), &id("c")));
        assert!(
            EventId::parse(of_player.as_str()).is_err(),
            "nobody sends it"
        );
        for id in [of_player, id("b/c")] {
            assert_eq!(EventId::stored(id.as_str()), Ok(id.clone()));
        }
        for text in ["", "\u{1f}a", "a\u{1f}", "a\u{1f}b\u{1f}c"] {
            assert!(EventId::stored(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_of_records_collide_with_no_others() {
        let of_record = EventId::of_record(&Partition::new("votes", 3), 17);
        assert_eq!(of_record.as_sent(), "votes/3/17");
        let place = EventId::parse("votes/3/17").unwrap();
        assert_eq!(EventId::of_place(&place), of_record);
        assert!(
            EventId::parse(of_record.as_str()).is_err(),
            "nobody sends it"
        );
        assert_eq!(EventId::stored(of_record.as_str()), Ok(of_record));
        let long = EventId::of_record(&Partition::new(&"t".repeat(249), 3), 17);
        assert_eq!(EventId::stored(long.as_str()), Ok(long));
        for text in ["\u{1d}", "\u{1d}a\u{1f}b", "a\u{1d}b"] {
            assert!(EventId::stored(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_are_bounded_in_bytes_and_without_controls() {
        assert!(MemberId::parse(&"é".repeat(64)).is_ok());
        assert_eq!(MemberId::parse(&"é".repeat(65)), Err(IdError::Length(130)));
        assert_eq!(MemberId::parse(""), Err(IdError::Length(0)));
        assert_eq!(EventId::parse("a\u{0}b"), Err(IdError::Control));
        assert_eq!(EventId::parse("a\u{85}b"), Err(IdError::Control));
        assert!(MemberId::parse("a,b {c}:\u{1F600}").is_ok());
    }
}
