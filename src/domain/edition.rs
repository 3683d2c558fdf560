//! Editions identify the contents of a standing. To clients an edition is a `revision`, which they only compare.

use std::fmt;
use std::str::FromStr;

use super::board::Board;
use super::state::PeriodState;

/// Counts the changes of what reads of a shard show (`scripts/lib/changed.lua`). Different contents never have the same
/// value.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Changed {
    /// The number of changes.
    pub number: u64,
    /// The history of the server that wrote last, which differs after a server was started or promoted.
    pub history: u64,
}

impl Changed {
    /// The field of the head.
    pub fn stored(self) -> String {
        if self == Self::default() {
            return String::new();
        }
        format!("{} {:012x}", self.number, self.history)
    }

    /// From the field of the head; empty before the first change.
    pub fn from_stored(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let (number, history) = text.split_once(' ')?;
        Some(Self {
            number: number.parse().ok()?,
            history: u64::from_str_radix(history, 16).ok()?,
        })
    }
}

/// What a read has seen of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ShardSeen {
    /// Its count of changes.
    pub changed: Changed,
    /// Whether the standing, and the previous one if it was read, has entries: a standing expires without a change.
    pub has_entries: [bool; 2],
}

/// The edition of a standing: two identical reads with equal editions have equal contents.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Edition {
    generation: u64,
    amendment: u64,
    epoch: u32,
    /// The shards that were read, by their indexes.
    shards: Vec<(u16, ShardSeen)>,
    /// The state in the response.
    state: Option<PeriodState>,
    /// Set if a shard was read more than once and changed in between: makes the edition unique.
    nonce: Option<u64>,
}

/// Whether a shard has reached an edition.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reached {
    /// It has this one or a later one.
    Yes,
    /// It has an earlier one.
    NotYet,
    /// Unknown: the board is another one or has moved, or the history is another one.
    Unknown,
}

impl Edition {
    /// The edition that a read of a board has seen, from these shards.
    pub fn new(
        board: &Board,
        shards: Vec<(u16, ShardSeen)>,
        state: Option<PeriodState>,
        nonce: Option<u64>,
    ) -> Self {
        Self {
            generation: board.generation,
            amendment: board.amendment,
            epoch: board.placement.current.epoch,
            shards,
            state,
            nonce,
        }
    }

    /// The edition of an event's shard after the event.
    pub fn of_event(board: &Board, shard: u16, changed: Changed) -> Self {
        let seen = ShardSeen {
            changed,
            has_entries: [false; 2],
        };
        Self::new(board, vec![(shard, seen)], None, None)
    }

    /// Its text, with characters that need no escaping in a URL.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(TEXT_BYTES);
        push_hex(&mut text, "", self.generation);
        push_hex(&mut text, ".", self.amendment);
        push_hex(&mut text, ".", self.epoch.into());
        text.extend([".", letter_of(self.state)]);
        if let Some(nonce) = self.nonce {
            push_hex(&mut text, ".", nonce);
        }
        for (index, seen) in &self.shards {
            let [first, second] = seen.has_entries.map(u64::from);
            push_hex(&mut text, "~", (*index).into());
            push_hex(&mut text, ".", first + 2 * second);
            push_hex(&mut text, ".", seen.changed.number);
            push_hex(&mut text, ".", seen.changed.history);
        }
        text
    }

    /// The shards that it names.
    pub fn shards(&self) -> impl Iterator<Item = usize> {
        self.shards.iter().map(|(index, _)| usize::from(*index))
    }

    /// Whether it names no shard: there was nothing to read.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Whether it belongs to this board in its current sharding, and all of its shards exist there.
    pub fn is_of(&self, board: &Board) -> bool {
        let sharding = board.placement.current;
        let exist = self
            .shards
            .iter()
            .all(|(index, _)| *index < sharding.shards);
        self.generation == board.generation && self.epoch == sharding.epoch && exist
    }

    /// Whether a shard that it names has reached it, with the shard's current count of changes.
    pub fn reached(&self, shard: usize, now: Changed) -> Reached {
        let named = self
            .shards
            .iter()
            .find(|(index, _)| usize::from(*index) == shard)
            .map(|(_, seen)| seen.changed);
        // Before the first change every history is the same.
        match named.filter(|wanted| *wanted != Changed::default()) {
            Some(wanted) if wanted.history != now.history => Reached::Unknown,
            Some(wanted) if wanted.number > now.number => Reached::NotYet,
            Some(_) | None => Reached::Yes,
        }
    }
}

/// The usual maximum length of the text of an edition of one shard.
const TEXT_BYTES: usize = 64;

/// The letters of the states, by index.
const LETTERS: [&str; PeriodState::COUNT] = ["n", "l", "c", "e", "f"];

/// The letter of a state; `u` if it is not known.
fn letter_of(state: Option<PeriodState>) -> &'static str {
    state.map_or("u", |state| LETTERS[state.index()])
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Appends a prefix and a number's hexadecimal digits. Responses have several, and formatting macros take three times as
/// long.
fn push_hex(text: &mut String, before: &str, number: u64) {
    text.push_str(before);
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        let digit = number >> (4 * digit) & 0xf;
        text.extend(char::from_digit(u32::try_from(digit).unwrap_or(0), 16));
    }
}

impl FromStr for Edition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| ());
        let mut parts = text.split('~');
        let head: Vec<&str> = parts.next().unwrap_or("").split('.').collect();
        let (generation, amendment, epoch, state, nonce) = match head[..] {
            [generation, amendment, epoch, state] => (generation, amendment, epoch, state, None),
            [generation, amendment, epoch, state, nonce] => {
                (generation, amendment, epoch, state, Some(number(nonce)?))
            }
            _ => return Err(()),
        };
        let mut states = PeriodState::ALL.map(Some).into_iter().chain([None]);
        let shards = parts.map(|part| {
            let [index, digit, changed, history] = part.split('.').collect::<Vec<_>>()[..] else {
                return Err(());
            };
            let digit = number(digit)?;
            let seen = ShardSeen {
                changed: Changed {
                    number: number(changed)?,
                    history: number(history)?,
                },
                has_entries: [digit & 1 == 1, digit & 2 == 2],
            };
            Ok((u16::try_from(number(index)?).map_err(|_| ())?, seen))
        });
        Ok(Self {
            generation: number(generation)?,
            amendment: number(amendment)?,
            epoch: u32::try_from(number(epoch)?).map_err(|_| ())?,
            shards: shards.collect::<Result<_, ()>>()?,
            state: states.find(|one| letter_of(*one) == state).ok_or(())?,
            nonce,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(generation: u64) -> Board {
        Board {
            generation,
            ..Board::defined(r#"{"windows": ["all"]}"#)
        }
    }

    fn seen(stored: &str) -> ShardSeen {
        ShardSeen {
            changed: Changed::from_stored(stored).unwrap(),
            has_entries: [true, false],
        }
    }

    #[test]
    fn an_edition_is_read_as_it_was_written() {
        let shards = vec![(0, seen("7 4f0c2a9be41d")), (11, seen(""))];
        for (state, nonce) in [
            (None, None),
            (Some(PeriodState::Live), Some(5)),
            (Some(PeriodState::Upcoming), None),
            (Some(PeriodState::Closing), None),
            (Some(PeriodState::Ended), None),
            (Some(PeriodState::Final), Some(u64::MAX)),
        ] {
            let edition = Edition::new(&board(3), shards.clone(), state, nonce);
            assert_eq!(edition.to_string().parse(), Ok(edition));
        }
        for text in [
            "",
            "1",
            "1.2.0.x",
            "1.2.0.l.",
            "1.2.0.l~",
            "1.2.0.l~0.1.7",
            "g.2.0.l",
            "1.2.0.l~fffff.1.7.4",
        ] {
            assert_eq!(text.parse::<Edition>(), Err(()), "{text}");
        }
    }

    #[test]
    fn the_stored_edition_of_a_shard_is_read() {
        let changed = |text| Changed::from_stored(text);
        assert_eq!(changed(""), Some(Changed::default()));
        let (number, history) = (12, 0x4f0c);
        assert_eq!(changed("12 4f0c"), Some(Changed { number, history }));
        assert_eq!(changed("12"), None);
    }

    #[test]
    fn a_shard_reaches_an_edition_by_its_number_within_one_history() {
        let now = |text| Changed::from_stored(text).unwrap();
        let edition = Edition::new(&board(3), vec![(0, seen("7 a")), (1, seen(""))], None, None);
        assert!(!edition.is_of(&board(3)), "it has no shard 1");
        let of_event = Edition::of_event(&board(3), 0, now("7 a"));
        assert!(of_event.is_of(&board(3)) && !of_event.is_of(&board(4)));
        assert_eq!(edition.reached(0, now("6 a")), Reached::NotYet);
        assert_eq!(edition.reached(0, now("7 a")), Reached::Yes);
        assert_eq!(edition.reached(0, now("8 a")), Reached::Yes);
        assert_eq!(edition.reached(0, now("8 b")), Reached::Unknown);
        assert_eq!(edition.reached(0, now("")), Reached::Unknown);
        assert_eq!(edition.reached(1, now("9 b")), Reached::Yes);
    }
}
