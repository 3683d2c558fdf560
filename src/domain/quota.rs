//! Quotas: how much a board accepts per voter, member, device, … within a window of time.
//!
//! A quota counts accepted events by the time when they happened (`at`). So votes that come in late, or all at once after
//! an outage, are judged as if they had come in on time. A repeated event counts once. Each combination of the values that a
//! quota counts `by` has its own count.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::board::{AcceptLate, Board, Definition, FieldError, require};
use super::event::{Event, Origin, Shortage};
use super::ids::{IdError, Label, MemberId};
use super::period::Unit;
use super::queued::AGE_MAX;
use super::score::{Decimals, ShownScore};
use super::texts::{serde_as_text, words};
use super::time::{Span, Timestamp};

/// How long a period's counts are kept for events in flight, in milliseconds: longer than any call may take.
const COUNT_SLACK_MS: i64 = 60_000;
/// The maximum number of quotas of a board.
pub const QUOTAS_MAX: usize = 8;
/// The maximum number of extra allowances of a quota.
pub const EXTRAS_MAX: usize = 4;
/// The maximum number of channels of an extra allowance.
const CHANNELS_MAX: usize = 32;
/// The greatest `max`.
pub const QUOTA_MAX: u64 = 1_000_000_000;
/// Separates the parts of a count's name; no part contains it.
const SEPARATOR: &str = "\u{1f}";

/// How much a board takes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The quota's name, as problems name it: 1 to 64 of `a-z 0-9 -`.
    #[schema(pattern = "^[a-z0-9-]{1,64}$", example = "voter-minute")]
    pub name: String,
    /// The fields by which the quota counts separately. An event must have them.
    #[schema(min_items = 1, max_items = 5, example = json!(["voter"]))]
    pub by: Vec<Dimension>,
    /// The time in which no more than `max` is allowed: any interval of this length (`90s`, `10m`); each period (`minute`,
    /// `hour`, `day`, `week`, `month`, `year`, `season`) in the board's time zone; or `total`.
    pub window: QuotaWindow,
    /// How much is allowed, in events or points.
    #[schema(minimum = 1, maximum = 1_000_000_000, example = 5)]
    pub max: u64,
    /// What the quota counts.
    #[serde(default)]
    #[schema(default = "events")]
    pub measure: Measure,
    /// Extra allowances for some channels, used when `max` is reached.
    #[serde(default)]
    #[schema(max_items = 4, default = json!([]))]
    pub extra: Vec<Extra>,
}

words! {
    /// What a quota counts separately.
    #[derive(Ord, PartialOrd, ToSchema)]
    pub enum Dimension {
        /// Who sent the event.
        Voter = "voter",
        /// For which member the event is.
        Member = "member",
        /// Through which channel the event came.
        Channel = "channel",
        /// From which device the event came.
        Device = "device",
        /// From which address the event came; of IPv6 the network of 64 bits.
        Ip = "ip",
    }
}

// Attributes of schemas take literals only.
const _: () = assert!(Dimension::ALL.len() == 5, "the `max_items` of `Quota::by`");

/// What a quota counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Events.
    #[default]
    Events,
    /// Points: scores without their signs.
    Score,
}

/// An extra allowance.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// The channels of the events that it applies to.
    #[schema(min_items = 1, max_items = 32, example = json!(["partner-a"]))]
    pub channel: Vec<Label>,
    /// How much is allowed, in events or points.
    #[schema(minimum = 1, maximum = 1_000_000_000, example = 5)]
    pub max: u64,
}

/// The window of time in which a quota counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotaWindow {
    /// Any interval of this length.
    Sliding(Span),
    /// A period of the board's calendar.
    Period(Unit),
    /// All time.
    Total,
}

impl fmt::Display for QuotaWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sliding(span) => write!(f, "{span}"),
            Self::Period(unit) => write!(f, "{unit}"),
            Self::Total => f.write_str("total"),
        }
    }
}

impl FromStr for QuotaWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "total" {
            return Ok(Self::Total);
        }
        if let Some(unit) = Unit::named(text).filter(|unit| *unit != Unit::All) {
            return Ok(Self::Period(unit));
        }
        match text.parse::<Span>() {
            Ok(span) if span.ms() > 0 => Ok(Self::Sliding(span)),
            _ => {
                Err("must be a duration such as `90s`, a period such as `hour`, or `total`".into())
            }
        }
    }
}

serde_as_text!(QuotaWindow);

/// The origin of an event by its address: an IPv4 address, or a 64-bit IPv6 network.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Network(IpAddr);

impl Network {
    /// Parses an address.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let address: IpAddr = text.parse().map_err(|_| IdError::Address)?;
        Ok(address.into())
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let prefix = address.to_bits() >> 64 << 64;
                IpAddr::V6(prefix.into())
            }
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A count that an event enters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pool {
    /// Its index among the allowances of its quota: 0 for `max`, and then those of `extra`.
    pub index: usize,
    /// Distinguishes it from all other counts of its board.
    pub name: String,
}

/// How much an event takes from a quota: from the first of the pools that has enough left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaUse {
    /// The quota, by its index in the definition.
    pub quota: usize,
    /// How much: events, or scaled points.
    pub amount: i64,
    /// The pools that it may use, in this order.
    pub pools: Vec<Pool>,
    /// When the counts can be dropped, in milliseconds since the epoch; `None`: never, or by the length of the window.
    pub expires_at_ms: Option<i64>,
}

impl Quota {
    /// The decimals of what it counts.
    pub fn decimals(&self, board: &Board) -> Decimals {
        match self.measure {
            Measure::Events => Decimals::default(),
            Measure::Score => board.definition.decimals,
        }
    }

    /// Its allowances, `max` first: events, or scaled points.
    pub fn allowances(&self, board: &Board) -> Vec<i64> {
        let scale = 10_i64.pow(u32::from(self.decimals(board).digits()));
        std::iter::once(self.max)
            .chain(self.extra.iter().map(|extra| extra.max))
            .map(|max| {
                i64::try_from(max)
                    .unwrap_or(i64::MAX / scale)
                    .saturating_mul(scale)
            })
            .collect()
    }

    /// The pools that events of this origin, for this member and at this instant take from; or the missing field.
    fn use_of(
        &self,
        quota: usize,
        board: &Board,
        origin: &Origin,
        member: Option<&MemberId>,
        at: Timestamp,
    ) -> Result<QuotaUse, Dimension> {
        let period = match self.window {
            QuotaWindow::Period(unit) => Some(board.calendar.containing(unit, at)),
            QuotaWindow::Sliding(_) | QuotaWindow::Total => None,
        };
        let mut name = format!("{}:{}", self.name, self.window);
        if let Some(period) = &period {
            name.push(':');
            name.push_str(&board.calendar.key(period));
        }
        for dimension in &self.by {
            let value = origin.value(*dimension, member).ok_or(*dimension)?;
            name.extend([SEPARATOR, dimension.name(), "=", &value]);
        }
        let channel = origin.channel.as_ref();
        let is_for = |extra: &Extra| channel.is_some_and(|own| extra.channel.contains(own));
        let matching = (1..).zip(&self.extra).filter(|(_, extra)| is_for(extra));
        let indexes = std::iter::once(0).chain(matching.map(|(index, _)| index));
        let measure = match self.measure {
            Measure::Events => "",
            Measure::Score => "score:",
        };
        let pools = indexes.map(|index| Pool {
            index,
            name: format!("{measure}{index}:{name}"),
        });
        Ok(QuotaUse {
            quota,
            amount: 0,
            pools: pools.collect(),
            expires_at_ms: period
                .and_then(|period| board.last_event_ms(&period))
                // An event may reach Redis just after it was planned, and a queued one much later.
                .map(|ms| {
                    ms.saturating_add(COUNT_SLACK_MS)
                        .saturating_add_unsigned(waiting_ms(board))
                }),
        })
    }

    /// The length of its window, in seconds; `None` for all time.
    pub fn window_s(&self, board: &Board, at: Timestamp) -> Option<u64> {
        match self.window {
            QuotaWindow::Sliding(span) => Some(span.ms() / 1_000),
            QuotaWindow::Period(unit) => {
                let period = board.calendar.containing(unit, at);
                Some(period.end_ms.abs_diff(period.start_ms) / 1_000)
            }
            QuotaWindow::Total => None,
        }
    }

    /// When an event that exceeds the quota could be taken at the latest: at the end of the period. `None` for never, and
    /// for sliding windows, where the store computes it.
    pub fn frees_at(&self, board: &Board, at: Timestamp) -> Option<Timestamp> {
        match self.window {
            QuotaWindow::Period(unit) => board.calendar.containing(unit, at).end(),
            QuotaWindow::Sliding(_) | QuotaWindow::Total => None,
        }
    }

    /// Describes a shortage to people.
    pub fn describe(&self, shortage: &Shortage, decimals: Decimals) -> String {
        let (taken, allowed, amount) = (shortage.taken, shortage.allowed, shortage.amount);
        let (unit, scale) = match self.measure {
            Measure::Events => ("events", Decimals::default()),
            Measure::Score => ("points", decimals),
        };
        let show = |amount: i64| ShownScore::sum(amount.into(), scale);
        let of_all = format!("{} of {} {unit}", show(taken), show(allowed));
        let stretch = match self.window {
            QuotaWindow::Sliding(span) => format!("in {span}"),
            QuotaWindow::Period(unit) => format!("in the {unit}"),
            QuotaWindow::Total => "in total".to_owned(),
        };
        if amount > allowed {
            let (allowed, amount) = (show(allowed), show(amount));
            format!(
                "never allows that: the event has {amount}, the limit is {allowed} {unit} {stretch}"
            )
        } else if taken < allowed {
            let amount = show(amount);
            format!("has too little left: the event has {amount}, and {of_all} are used {stretch}")
        } else {
            format!("is used up: {of_all} {stretch}")
        }
    }
}

/// What an event takes from each quota of its board; or the first field that it lacks.
pub fn uses(board: &Board, event: &Event, at: Timestamp) -> Result<Vec<QuotaUse>, Dimension> {
    board
        .definition
        .quotas
        .iter()
        .enumerate()
        .map(|(index, quota)| {
            let used = quota.use_of(index, board, &event.origin, Some(&event.member), at)?;
            let amount = match quota.measure {
                Measure::Events => 1,
                Measure::Score => event.score.scaled().abs(),
            };
            Ok(QuotaUse { amount, ..used })
        })
        .collect()
}

/// The counts for events of this origin, for this member and at this instant, of those quotas that depend on nothing else.
pub fn counts(
    board: &Board,
    origin: &Origin,
    member: Option<&MemberId>,
    at: Timestamp,
) -> Vec<QuotaUse> {
    board
        .definition
        .quotas
        .iter()
        .enumerate()
        .filter_map(|(index, quota)| quota.use_of(index, board, origin, member, at).ok())
        .collect()
}

/// What is wrong with a definition's quotas.
pub fn check(definition: &Definition) -> Vec<FieldError> {
    let (quotas, mut errors) = (&definition.quotas, Vec::new());
    require! { errors;
        "/quotas", quotas.len() <= QUOTAS_MAX => "must have at most 8 quotas";
    }
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    for (index, quota) in quotas.iter().enumerate() {
        let at = |field: &str| format!("/quotas/{index}/{field}");
        let Quota { name, window, .. } = quota;
        let by: BTreeSet<_> = quota.by.iter().collect();
        require! { errors;
            at("name"), (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
                => "must have 1 to 64 of the characters a-z 0-9 -";
            at("name"), quotas[..index].iter().all(|other| other.name != *name)
                => "another quota has this name";
            at("by"), !by.is_empty() && by.len() == quota.by.len()
                => "must name at least one field, each once";
            at("max"), (1..=QUOTA_MAX).contains(&quota.max) => "must be from 1 to 1,000,000,000";
            at("extra"), quota.extra.len() <= EXTRAS_MAX => "must have at most 4 extra allowances";
        }
        for (index, extra) in quota.extra.iter().enumerate() {
            let of_extra = |field: &str| at(&format!("extra/{index}/{field}"));
            require! { errors;
                of_extra("channel"), (1..=CHANNELS_MAX).contains(&extra.channel.len())
                    => "must name 1 to 32 channels";
                of_extra("max"), (1..=QUOTA_MAX).contains(&extra.max)
                    => "must be from 1 to 1,000,000,000";
            }
        }
        let is_season = *window == QuotaWindow::Period(Unit::Season);
        let is_sliding = matches!(window, QuotaWindow::Sliding(_));
        require! { errors;
            at("window"), definition.season.is_some() || !is_season
                => "`season` needs the field `season`", with [season];
            at("window"), definition.accept_late != AcceptLate::Any || !is_sliding
                => "a duration can't be combined with `accept_late: any`", with [accept_late];
        }
    }
    errors
}

/// How long an event of a board may wait before it is applied, in milliseconds.
pub fn waiting_ms(board: &Board) -> u64 {
    // Events of leagues are not queued.
    if board.is_league() { 0 } else { AGE_MAX.ms() }
}

#[cfg(test)]
mod tests {
    use super::super::score::Score;
    use super::*;

    fn board(quotas: &str) -> Board {
        let json = format!(r#"{{"windows": ["all"], "decimals": 2, "quotas": {quotas}}}"#);
        Board::defined(&json)
    }

    fn event(voter: Option<&str>, channel: Option<&str>) -> Event {
        let label = |text: &str| Label::parse(text).unwrap();
        Event {
            id: None,
            member: MemberId::parse("alice").unwrap(),
            score: Score::from_stored(-150),
            at: None,
            origin: Origin {
                voter: voter.map(label),
                channel: channel.map(label),
                ..Origin::default()
            },
            data: None,
        }
    }

    #[test]
    fn a_shortage_says_how_much_of_the_quota_is_used() {
        let board = board(
            r#"[{"name": "a", "by": ["voter"], "window": "total", "max": 1},
                {"name": "b", "by": ["voter"], "window": "90s", "max": 3},
                {"name": "c", "by": ["voter"], "window": "day", "max": 5, "measure": "score"}]"#,
        );
        let says = |quota: usize, taken, allowed, amount| {
            let shortage = Shortage {
                quota,
                frees_at_ms: 0,
                taken,
                allowed,
                amount,
            };
            board.definition.quotas[quota].describe(&shortage, board.definition.decimals)
        };
        assert_eq!(says(0, 1, 1, 1), "is used up: 1 of 1 events in total");
        assert_eq!(says(1, 3, 3, 1), "is used up: 3 of 3 events in 90s");
        assert_eq!(
            says(2, 500, 500, 50),
            "is used up: 5 of 5 points in the day"
        );
        let little =
            "has too little left: the event has 0.6, and 4.5 of 5 points are used in the day";
        assert_eq!(says(2, 450, 500, 60), little);
        let never = "never allows that: the event has 6, the limit is 5 points in the day";
        assert_eq!(says(2, 0, 500, 600), never);
    }

    #[test]
    fn windows_have_one_spelling() {
        for text in ["90s", "hour", "season", "total"] {
            assert_eq!(text.parse::<QuotaWindow>().unwrap().to_string(), text);
        }
        for text in ["all", "0s", "1 minute", "", "Hour"] {
            assert!(text.parse::<QuotaWindow>().is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_count_by_their_network() {
        let shown = |text| Network::parse(text).map(|network| network.to_string());
        assert_eq!(shown("203.0.113.7"), Ok("203.0.113.7".to_owned()));
        assert_eq!(shown("::ffff:203.0.113.7"), shown("203.0.113.7"));
        assert_eq!(
            shown("2001:db8:1:2:3:4:5:6"),
            Ok("2001:db8:1:2::".to_owned())
        );
        assert_eq!(shown("2001:db8:1:2::9"), shown("2001:db8:1:2::1"));
        assert_eq!(shown("203.0.113"), Err(IdError::Address));
    }

    #[test]
    fn an_event_uses_the_distinctly_named_pools_of_its_channel() {
        let board = board(
            r#"[{"name": "q", "by": ["voter", "member"], "window": "hour", "max": 3, "measure": "score",
                "extra": [{"channel": ["x"], "max": 1}, {"channel": ["w", "x"], "max": 2}]}]"#,
        );
        let at = Timestamp::parse("2026-11-21T05:59:00Z").unwrap();
        let used = uses(&board, &event(Some("v"), Some("w")), at)
            .unwrap()
            .remove(0);
        assert_eq!((used.quota, used.amount), (0, 150));
        let names: Vec<_> = used
            .pools
            .iter()
            .map(|pool| (pool.index, &*pool.name))
            .collect();
        assert_eq!(
            names,
            [
                (
                    0,
                    "score:0:q:hour:2026-11-21T05:00Z\u{1f}voter=v\u{1f}member=alice"
                ),
                (
                    2,
                    "score:2:q:hour:2026-11-21T05:00Z\u{1f}voter=v\u{1f}member=alice"
                ),
            ]
        );
        // The end of the hour, plus 48 hours in which an event may be late.
        let last = Timestamp::parse("2026-11-23T06:00:00Z").unwrap();
        let waiting_ms = i64::try_from(AGE_MAX.ms()).unwrap();
        assert_eq!(
            used.expires_at_ms,
            Some(last.ms() + waiting_ms + COUNT_SLACK_MS)
        );
        assert_eq!(
            board.definition.quotas[0].allowances(&board),
            [300, 100, 200]
        );
        assert_eq!(uses(&board, &event(None, None), at), Err(Dimension::Voter));
    }
}
