//! Access: scopes, the boards that they are for, and rates.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::board::FieldError;
use super::ids::{self, BOARD_ID_BYTES_MAX, BoardId, IdError, MemberId};
use super::quota::Network;
use super::texts::{checked_text, serde_as_text, words};
use super::time::Timestamp;

/// The maximum number of patterns of boards of one key.
pub const PATTERNS_MAX: usize = 100;
/// The greatest count of a rate.
pub const RATE_MAX: u32 = 1_000_000;
/// The units of rates, and how many seconds they have.
const RATE_UNITS: [(&str, u32); 3] = [("s", 1), ("m", 60), ("h", 3_600)];

words! {
    /// What an API key allows: `read` standings; `write` events; `moderate`: hide members and review names; `configure`
    /// definitions, weights, initial scores, true counts, and anyone's remaining quotas; `admin`: everything, including API
    /// keys.
    #[derive(Ord, PartialOrd, ToSchema)]
    pub enum Scope {
        /// Reading standings.
        Read = "read",
        /// Sending events.
        Write = "write",
        /// Hiding and erasing members.
        Moderate = "moderate",
        /// Definitions, weights, initial scores, true counts, and how much of quotas others have used.
        Configure = "configure",
        /// Everything, and API keys.
        Admin = "admin",
    }
}

impl Scope {
    /// Scopes any of which suffices, for people: `` `read`, `moderate` or `configure` ``.
    pub fn listed(scopes: &[Self]) -> String {
        let names: Vec<_> = scopes
            .iter()
            .map(|scope| format!("`{}`", scope.name()))
            .collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => names.concat(),
        }
    }
}

/// One that takes from what all callers share.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Taker {
    /// An API key of the configuration, by half of its digest.
    Configured(u128),
    /// A stored API key.
    Key(KeyName),
    /// A player.
    Player(MemberId),
    /// A client without an API key, by its address.
    Address(Network),
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Scopes(u8);

impl Scopes {
    /// All of them.
    pub const ALL: Self = Self(1 << Scope::Admin as u8);

    /// Whether this scope is in the set. `admin` includes all.
    pub const fn has(self, scope: Scope) -> bool {
        let bits = 1 << scope as u8 | 1 << Scope::Admin as u8;
        self.0 & bits != 0
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of two sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The scopes of the set, without those that `admin` includes.
    pub fn named(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .into_iter()
            .filter(move |scope| self.0 & 1 << *scope as u8 != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        let scopes = scopes.into_iter();
        Self(scopes.fold(0, |bits, scope| bits | 1 << scope as u8))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.named().map(Scope::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.named())
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let scopes: Option<Self> = names.iter().map(|name| Scope::named(name)).collect();
        scopes.ok_or_else(|| {
            let known = Self::from_iter(Scope::ALL);
            serde::de::Error::custom(format!("a scope must be one of {known}"))
        })
    }
}

/// A pattern of board ids, where `*` stands for any characters: `vote-*`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BoardPattern(String);

impl BoardPattern {
    /// Parses a pattern: characters of board ids, and `*`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_of_pattern = |byte: u8| byte.is_ascii_alphanumeric() || b"._-*".contains(&byte);
        if (1..=BOARD_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_of_pattern) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "a pattern must be a board id of up to {BOARD_ID_BYTES_MAX} characters, in which * stands for any characters"
        ))
    }

    /// Whether it covers this board id or pattern.
    fn matches(&self, text: &str) -> bool {
        let mut rest = text;
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(last) = parts.next_back() else {
            return rest == first;
        };
        let Some(behind) = rest.strip_prefix(first) else {
            return false;
        };
        rest = behind;
        for part in parts {
            match rest.split_once(part) {
                Some((_, behind)) => rest = behind,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

/// A range of board ids in byte order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IdRange<'a> {
    /// How all of its ids begin.
    pub prefix: &'a str,
    /// Whether it has only the id that is the prefix itself.
    pub is_single: bool,
}

impl IdRange<'_> {
    /// Whether it has ids after this one.
    pub fn goes_beyond(&self, id: &str) -> bool {
        id < self.prefix || (!self.is_single && id.starts_with(self.prefix))
    }
}

/// The boards that a caller has access to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Boards(Arc<[BoardPattern]>);

impl Boards {
    /// All of them.
    pub fn all() -> Self {
        static ALL: LazyLock<Boards> =
            LazyLock::new(|| Boards([BoardPattern("*".to_owned())].into()));
        ALL.clone()
    }

    /// This one.
    pub fn one(board: &BoardId) -> Self {
        Self([BoardPattern(board.to_string())].into())
    }

    /// Those of a list of 1 to 100 patterns.
    pub fn parse(patterns: &[String]) -> Result<Self, String> {
        if !(1..=PATTERNS_MAX).contains(&patterns.len()) {
            return Err(format!("must be 1 to {PATTERNS_MAX} patterns"));
        }
        let parsed = patterns.iter().map(|pattern| BoardPattern::parse(pattern));
        Ok(Self(parsed.collect::<Result<_, _>>()?))
    }

    /// The patterns as text.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|pattern| &*pattern.0)
    }

    /// The ranges of ids in which all of them are: in order, and disjoint.
    pub fn ranges(&self) -> Vec<IdRange<'_>> {
        let mut ranges: Vec<_> = self
            .patterns()
            .map(|pattern| {
                let begins = pattern.split_once('*').map(|(prefix, _)| prefix);
                IdRange {
                    prefix: begins.unwrap_or(pattern),
                    is_single: begins.is_none(),
                }
            })
            .collect();
        ranges.sort_unstable_by_key(|range| (range.prefix, range.is_single));
        ranges.dedup_by(|next, range| {
            let is_within = !range.is_single && next.prefix.starts_with(range.prefix);
            is_within || next == range
        });
        ranges
    }

    /// Whether this board is among them.
    pub fn has(&self, board: &BoardId) -> bool {
        self.0.iter().any(|pattern| pattern.matches(board.as_str()))
    }

    /// Whether they include all boards of other patterns: each of these patterns is covered by one of theirs.
    pub fn cover(&self, others: &Self) -> bool {
        // Treating a pattern as text is right: its `*` can only match a `*`.
        let is_covered = |other: &BoardPattern| self.0.iter().any(|own| own.matches(&other.0));
        others.0.iter().all(is_covered)
    }

    /// Whether they include all boards, even those created later.
    pub fn are_all(&self) -> bool {
        let is_all = |pattern: &BoardPattern| pattern.0.bytes().all(|byte| byte == b'*');
        self.0.iter().any(is_all)
    }
}

impl Serialize for Boards {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.patterns())
    }
}

impl<'de> Deserialize<'de> for Boards {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let patterns = Vec::<String>::deserialize(deserializer)?;
        Self::parse(&patterns).map_err(serde::de::Error::custom)
    }
}

/// A number of requests per interval: `50/s`, `600/m`, `10000/h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// The number of requests. All of them may come at once.
    pub count: NonZeroU32,
    /// The interval in seconds: 1, 60 or 3,600.
    pub seconds: u32,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(count, unit)| {
            let (_, seconds) = RATE_UNITS.into_iter().find(|(name, _)| *name == unit)?;
            let count: NonZeroU32 = count.parse().ok()?;
            (count.get() <= RATE_MAX).then_some(Self { count, seconds })
        });
        parsed.ok_or_else(|| {
            format!("a rate must be a number from 1 to {RATE_MAX} and a unit, such as 50/s, 600/m or 10000/h")
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_own = |(_, seconds): &&(&str, u32)| *seconds == self.seconds;
        let unit = RATE_UNITS.iter().find(is_own).map_or("h", |unit| unit.0);
        write!(f, "{}/{unit}", self.count)
    }
}

serde_as_text!(Rate);

checked_text! {
    /// The name of an API key: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, like that of a reward rule.
    KeyName, |text| ids::plain(text, "the name of a key"), IdError
}

/// What an API key allows.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// What its bearer may do; `admin` includes all other scopes.
    pub scopes: Scopes,
    /// The boards that it is for: patterns of their ids, where `*` stands for any characters.
    pub boards: Boards,
    /// How many requests per second (`s`), minute (`m`) or hour (`h`) it may send to each instance of the service. A batch
    /// is one request. The default is no limit.
    pub rate: Option<Rate>,
    /// When it expires. By default it never does.
    pub expires_at: Option<Timestamp>,
}

impl Grant {
    /// All errors in it.
    pub fn check(&self, now: Timestamp) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.scopes.is_empty() {
            errors.push(FieldError::new("/scopes", "must have at least one scope"));
        }
        if self.has_expired(now) {
            errors.push(FieldError::new("/expires_at", "must be in the future"));
        }
        errors
    }

    /// Whether it has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// The remaining rate of an API key on this instance, after a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Spent {
    /// The rate.
    pub rate: Rate,
    /// How many more requests may come at once; `None`: this one is refused.
    pub remaining: Option<u32>,
    /// The time until the full rate is available again; for a refused request, until it may be repeated.
    pub wait: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_includes_all_scopes_and_no_other_scope_includes_another() {
        for scope in Scope::ALL {
            assert!(Scopes::ALL.has(scope));
            let alone = Scopes::from_iter([scope]);
            for other in Scope::ALL {
                let is_in = scope == other || scope == Scope::Admin;
                assert_eq!(alone.has(other), is_in, "{scope:?} {other:?}");
            }
        }
        let some: Scopes = serde_json::from_str(r#"["write", "read", "read"]"#).unwrap();
        assert_eq!(serde_json::to_string(&some).unwrap(), r#"["read","write"]"#);
        assert_eq!(some.to_string(), "read, write");
        assert!(serde_json::from_str::<Scopes>(r#"["play"]"#).is_err());
        assert!(Scopes::default().is_empty());
    }

    #[test]
    fn patterns_match_whole_ids() {
        let id = |text| BoardId::parse(text).unwrap();
        for (pattern, matching, others) in [
            ("a", &["a"][..], &["b", "aa"][..]),
            (
                "vote-*",
                &["vote-", "vote-1", "vote-a.b"],
                &["vote", "a-vote-1"],
            ),
            ("*-eu", &["a-eu", "0-eu"], &["a-eu1", "eu"]),
            ("a*b*c", &["abc", "a1b2c", "abbc"], &["ac", "acb", "abcd"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("**", &["a", "x.y"], &[]),
        ] {
            let parsed = BoardPattern::parse(pattern).unwrap();
            for board in matching {
                assert!(parsed.matches(board), "{pattern} {board}");
            }
            for board in others {
                assert!(!parsed.matches(board), "{pattern} {board}");
            }
        }
        for wrong in ["", "a b", "a?", "[ab]", &"a".repeat(129)] {
            assert!(BoardPattern::parse(wrong).is_err(), "{wrong}");
        }
        let boards = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
            Boards::parse(&patterns)
        };
        assert!(boards(&["a", "*"]).unwrap().are_all());
        assert!(!boards(&["a*"]).unwrap().are_all());
        assert!(boards(&[]).is_err());
        assert!(boards(&["a"; 101]).is_err());
        assert!(Boards::one(&id("a.b")).has(&id("a.b")));
        let covers =
            |own: &[&str], others: &[&str]| boards(own).unwrap().cover(&boards(others).unwrap());
        assert!(covers(
            &["vote-*", "run"],
            &["vote-eu", "vote-*", "vote-*-1", "run"]
        ));
        assert!(covers(&["*"], &["*", "a", "*a*"]) && covers(&["a*b*c"], &["a*c*bc"]));
        for (own, other) in [
            ("vote-*", "*"),
            ("vote-*", "vote*"),
            ("a", "a*"),
            ("a*c", "*ac"),
            ("a*b", "a*"),
        ] {
            assert!(!covers(&[own], &[other]), "{own} {other}");
        }
    }

    #[test]
    fn boards_are_in_few_disjoint_ranges_of_ids() {
        let ranges = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
            let boards = Boards::parse(&patterns).unwrap();
            let ranges = boards.ranges();
            let named = ranges.iter().map(|range| {
                let end = if range.is_single { "" } else { "…" };
                format!("{}{end}", range.prefix)
            });
            named.collect::<Vec<_>>().join(" ")
        };
        for (patterns, expected) in [
            (&["run"][..], "run"),
            (&["vote-*", "run", "run"], "run vote-…"),
            (&["a*", "a", "ab", "a*b*", "b"], "a… b"),
            (&["a", "ab", "a.b*", "a.*-eu"], "a a.… ab"),
            (&["*-eu", "run"], "…"),
        ] {
            assert_eq!(ranges(patterns), expected, "{patterns:?}");
        }
        let range = |prefix, is_single| IdRange { prefix, is_single };
        assert!(range("b", true).goes_beyond("a") && range("b", false).goes_beyond("b"));
        assert!(range("b", false).goes_beyond("b1") && range("b", false).goes_beyond("a"));
        assert!(!range("b", true).goes_beyond("b") && !range("b", false).goes_beyond("c"));
    }

    #[test]
    fn rates_are_counts_in_a_second_a_minute_or_an_hour() {
        for text in ["50/s", "600/m", "1000000/h"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for wrong in ["", "5", "0/s", "1000001/s", "-1/s", "5/d", "5/ s", "5 /s"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
