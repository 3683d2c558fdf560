//! What a board keeps of its accepted events: a *row* for each. What has no row is *folded*: the entries that it made are kept
//! with the standings (`scripts/lib/history.lua`), so that an entry always is its folded part and its rows.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::board::{Board, FIRST_AMENDMENT, History};
use super::data::EntryData;
use super::event::{Event, FUTURE_MS_MAX, Origin};
use super::ids::{Label, MemberId};
use super::intake::Partition;
use super::period::{Period, Unit};
use super::quota::Network;
use super::score::{Ratio, Score};
use super::series::{List, Series, Standing, Track};
use super::time::Timestamp;
use super::window::Window;

/// The number of random bytes in the key of a history.
pub const HISTORY_KEY_BYTES: usize = 16;
/// The length of the keyed hash of an address or a name: too long to guess a hash, and short.
pub const HASH_BYTES: usize = 8;
/// The length of a score, and of an amendment.
const NUMBER_BYTES: usize = 7;
/// The length of the millionths of a share.
const SHARE_BYTES: usize = 3;
/// How long after a history has begun in all shards events without a row may still begin a period: an event may be early, and
/// the clock of the instance that accepted it ahead.
const UNSURE_MS: i64 = 2 * FUTURE_MS_MAX;

/// The history of a board, from when it is turned on until all of it is removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HistoryState {
    /// The key of the hashes of addresses.
    key: String,
    /// No event without a row counts in a period that begins at this instant or later. `None`: not known yet, as long as a
    /// shard may not know that events are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// By unit, the shorter retentions of before, oldest first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    retained: BTreeMap<Unit, Vec<FormerRetention>>,
    /// By unit with a carryover, the amendment with which rolling windows began, so that scores are also stored without what is
    /// carried over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    base_since: BTreeMap<Unit, u64>,
    /// When it was turned off: since then no rows are added, and the others are being removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending_since: Option<Timestamp>,
    /// The number of the last revocation of events; 0 if there was none.
    #[serde(default, skip_serializing_if = "is_zero")]
    revocation: u64,
    /// The revocation that is being carried out or restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoking: Option<Revoking>,
}

/// A revocation that is being carried out or restored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Revoking {
    /// The name under which it is stored.
    pub token: String,
    /// What no other run has, be it of this revocation.
    pub run: String,
    /// Whether it only counts.
    pub is_dry_run: bool,
    /// Whether it is being restored.
    pub is_restoring: bool,
    /// By partition of the log of queued events, the offset before which it covers records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<String, i64>,
}

/// A retention that was replaced by a longer one. A standing expires when that is first decided, so that its rows must not make
/// it again.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct FormerRetention {
    /// It still applies to periods that began before this instant, in milliseconds since the epoch.
    until_ms: i64,
    /// How long their standings are kept after their ends, in milliseconds.
    kept_ms: u64,
}

impl HistoryState {
    /// The history of a board that never had an event.
    pub fn of_new_board(key: String) -> Self {
        Self {
            since: Some(Timestamp::MIN),
            ..Self::begun(key)
        }
    }

    /// One that was turned on.
    pub fn begun(key: String) -> Self {
        Self {
            key,
            since: None,
            retained: BTreeMap::new(),
            base_since: BTreeMap::new(),
            ending_since: None,
            revocation: 0,
            revoking: None,
        }
    }

    /// The number of the next revocation.
    pub fn next_revocation(&self) -> u64 {
        self.revocation + 1
    }

    /// The history with the next revocation begun: rows that are added from now on have its number, which it does not cover.
    #[must_use]
    pub fn revoke(&self, revoking: Revoking) -> Self {
        Self {
            revocation: self.next_revocation(),
            ..self.revoking(Some(revoking))
        }
    }

    /// The history with another state of the revocation that is carried out or restored.
    #[must_use]
    pub fn revoking(&self, revoking: Option<Revoking>) -> Self {
        Self {
            revoking,
            ..self.clone()
        }
    }

    /// The keyed hash of an address or a name.
    pub fn hash(&self, text: &str) -> [u8; HASH_BYTES] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.as_bytes());
        let tag = hmac::sign(&key, text.as_bytes());
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&tag.as_ref()[..HASH_BYTES]);
        hash
    }

    /// The history once a board has become another one by a change of its definition.
    #[must_use]
    pub fn replaced(&self, before: &Board, after: &Board, now: Timestamp) -> Self {
        let mut state = self.clone();
        // An event may be early, and carried over: so standings of the next two periods may be there.
        let latest = Timestamp::from_ms_clamped(now.ms().saturating_add(FUTURE_MS_MAX));
        for unit in Unit::ALL {
            let (kept, kept_now) = (before.kept_ms(unit), after.kept_ms(unit));
            if let Some(kept_ms) = kept
                && kept_now.is_none_or(|kept_now| kept_now > kept_ms)
            {
                let former = state.retained.entry(unit).or_default();
                former.retain(|former| former.kept_ms < kept_ms);
                let running = after.calendar.containing(unit, latest);
                let next = after.calendar.next(&running);
                let until_ms = next.unwrap_or(running).end_ms;
                former.push(FormerRetention { until_ms, kept_ms });
            }
            let has_base = |board: &Board| {
                let definition = &board.definition;
                definition.carryover.contains_key(&unit) && definition.rolls(unit)
            };
            match [before, after].map(has_base) {
                [false, true] => drop(state.base_since.insert(unit, after.amendment)),
                [_, false] => drop(state.base_since.remove(&unit)),
                [true, true] => {}
            }
        }
        state
    }

    /// For how long the standings of a period are kept after its end at most, in milliseconds, because of a former retention.
    pub fn kept_ms(&self, period: &Period) -> Option<u64> {
        let former = self.retained.get(&period.unit)?.iter();
        let applies = |former: &&FormerRetention| period.start_ms < former.until_ms;
        former.filter(applies).map(|former| former.kept_ms).min()
    }

    /// Whether it is not known yet which periods have only rows.
    pub fn is_unsure(&self) -> bool {
        self.since.is_none()
    }

    /// The history once all shards know that events are kept.
    #[must_use]
    pub fn known_by_all(&self, now: Timestamp) -> Self {
        let since = Timestamp::from_ms_clamped(now.ms().saturating_add(UNSURE_MS));
        Self {
            since: self.since.or(Some(since)),
            ..self.clone()
        }
    }

    /// Events that were accepted before this instant may have no row; `None`: not known yet.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }
}

/// What a row says of an event, apart from the record under its id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RowDetails {
    /// The score that counts.
    pub score: Score,
    /// The amendment of the board's definition under which it was accepted.
    pub amendment: u64,
    /// The shares of it that were carried over, by kind of period.
    pub shares: Vec<(Unit, Ratio)>,
    /// The member.
    pub member: MemberId,
    /// Where it came from; without its address.
    pub origin: Origin,
    /// The keyed hash of the address, if it was known.
    pub ip: Option<[u8; HASH_BYTES]>,
    /// Its data.
    pub data: Option<EntryData>,
}

/// What a row adds to a standing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RowWrite {
    /// The standing.
    pub standing: Standing,
    /// The amount.
    pub amount: Score,
    /// When the standing may be dropped, in milliseconds since the epoch.
    pub expires_at_ms: Option<i64>,
}

impl RowDetails {
    /// The details of an event that a board accepts now.
    pub fn new(board: &Board, event: &Event) -> Self {
        let history = board.history.as_ref();
        let hash = |ip: Network| history.map(|history| history.hash(&ip.to_string()));
        let carryover = board.definition.carryover.iter();
        Self {
            score: event.score,
            amendment: board.amendment,
            shares: carryover.map(|(unit, ratio)| (*unit, *ratio)).collect(),
            member: event.member.clone(),
            origin: Origin {
                ip: None,
                ..event.origin.clone()
            },
            ip: event.origin.ip.and_then(hash),
            data: event.data.clone(),
        }
    }

    /// Their stored form: score, amendment, shares, then texts after their lengths, and the data.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        bytes.put_int(self.score.scaled(), NUMBER_BYTES);
        bytes.put_uint(self.amendment, NUMBER_BYTES);
        bytes.put_uint(self.shares.len() as u64, 1);
        for (unit, ratio) in &self.shares {
            bytes.put_u8(*unit as u8);
            bytes.put_int(ratio.millionths(), SHARE_BYTES);
        }
        let Origin {
            voter,
            channel,
            device,
            key,
            ip: _,
        } = &self.origin;
        put_text(&mut bytes, self.member.as_str().as_bytes());
        for label in [voter, channel, device, key] {
            put_text(
                &mut bytes,
                label.as_ref().map_or("", Label::as_str).as_bytes(),
            );
        }
        put_text(&mut bytes, self.ip.as_ref().map_or(&[], |hash| &hash[..]));
        bytes.extend(self.data.iter().flat_map(|data| data.as_str().bytes()));
        bytes
    }

    /// Reads what [`Self::encode`] returned; `None` if it is damaged.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let score = bytes.try_get_uint(NUMBER_BYTES).ok()?;
        // It is signed.
        let unused_bits = 64 - 8 * NUMBER_BYTES;
        let score = Score::from_stored((score << unused_bits).cast_signed() >> unused_bits);
        let amendment = bytes.try_get_uint(NUMBER_BYTES).ok()?;
        let count = bytes.try_get_u8().ok()?;
        let mut share = || {
            let unit = *Unit::ALL.get(usize::from(bytes.try_get_u8().ok()?))?;
            let millionths = bytes.try_get_uint(SHARE_BYTES).ok()?.cast_signed();
            let ratio = Ratio::from_millionths(millionths)?;
            Some((unit, ratio))
        };
        let shares = (0..count).map(|_| share()).collect::<Option<_>>()?;
        let member = MemberId::parse(str::from_utf8(take_text(&mut bytes)?).ok()?).ok()?;
        let mut label = || {
            let text = str::from_utf8(take_text(&mut bytes)?).ok()?;
            match text {
                "" => Some(None),
                text => Label::parse(text).ok().map(Some),
            }
        };
        let origin = Origin {
            voter: label()?,
            channel: label()?,
            device: label()?,
            key: label()?,
            ip: None,
        };
        let ip = match take_text(&mut bytes)? {
            [] => None,
            hash => Some(hash.try_into().ok()?),
        };
        let data = match str::from_utf8(bytes).ok()? {
            "" => None,
            text => Some(EntryData::from_stored(text)?),
        };
        Some(Self {
            score,
            amendment,
            shares,
            member,
            origin,
            ip,
            data,
        })
    }

    /// What the event of the instant `at` adds to the standings of a board's periods.
    pub fn writes(&self, board: &Board, at: Timestamp) -> Vec<RowWrite> {
        let counts = |unit: &Unit| board.epoch(Some(Window::Period(*unit))) <= self.amendment;
        let mut writes = Vec::new();
        for unit in board.recorded_units().filter(counts) {
            let period = board.calendar.containing(unit, at);
            for track in board.tracks() {
                self.add_writes(board, period, *track, &mut writes);
            }
        }
        writes
    }

    fn add_writes(&self, board: &Board, period: Period, track: Track, writes: &mut Vec<RowWrite>) {
        // It was within the bounds when it was accepted.
        let amount = board.weighed(&self.member, self.score, track);
        let amount = amount.unwrap_or(self.score);
        let mut write = |series, period, amount| {
            writes.push(RowWrite {
                standing: Standing::of(series, period),
                amount,
                expires_at_ms: board.kept_until_ms(&period),
            });
        };
        let list = List::Period(period.unit);
        let series = Series { list, track };
        write(series, period, amount);
        let share = self.shares.iter().find(|(unit, _)| *unit == period.unit);
        if let Some((_, share)) = share
            && let Some(next) = board.calendar.next(&period)
        {
            write(series, next, share.of(amount));
        }
        let base = board.base(period.unit, track);
        let base_since = board
            .history
            .as_ref()
            .and_then(|history| history.base_since.get(&period.unit));
        let has_base = base != series && board.definition.rolls(period.unit);
        if has_base && base_since.is_none_or(|since| *since <= self.amendment) {
            write(base, period, amount);
        }
    }
}

impl Board {
    /// Whether accepted events get rows.
    pub fn keeps_events(&self) -> bool {
        let history = self.history.as_ref();
        history.is_some_and(|history| history.ending_since.is_none())
    }

    /// The number of the last revocation of events; 0 if there was none, or its history ends.
    pub fn last_revocation(&self) -> u64 {
        let history = self.history.as_ref().filter(|_| self.keeps_events());
        history.map_or(0, |history| history.revocation)
    }

    /// The number of the last revocation before a record of the log of queued events.
    pub fn last_revocation_of(&self, partition: &Partition, offset: i64) -> u64 {
        let revoking = self.revoking();
        let end = revoking.and_then(|revoking| revoking.ends.get(&partition.to_string()));
        let is_covered = end.is_some_and(|end| offset < *end);
        self.last_revocation().saturating_sub(u64::from(is_covered))
    }

    /// The revocation that is being carried out or restored.
    pub fn revoking(&self) -> Option<&Revoking> {
        self.history.as_ref()?.revoking.as_ref()
    }

    /// Whether events without a row may count in this period: in it, or carried over from the one before.
    pub fn has_unkept(&self, period: &Period) -> bool {
        let since = match &self.history {
            Some(HistoryState {
                since: Some(since), ..
            }) => since.ms(),
            _ => return true,
        };
        let before = self.calendar.previous(period).unwrap_or(*period);
        since > Timestamp::MIN.ms() && before.start_ms < since
    }

    /// Rows that were accepted before this instant run out. `None`: none do.
    pub fn rows_until(&self, now: Timestamp) -> Option<Timestamp> {
        match self.definition.history {
            Some(History::For(span)) => Some(now.saturating_sub(span)),
            Some(History::Board) | None => None,
        }
    }

    /// This board with the history that its definition asks for. One that is turned on begins with this key; one that is
    /// being removed is removed first.
    #[must_use]
    pub fn with_history(self, key: String, now: Timestamp) -> Self {
        let history = match (self.history, self.definition.history) {
            (None, None) => None,
            (None, Some(_)) if self.amendment == FIRST_AMENDMENT => {
                Some(HistoryState::of_new_board(key))
            }
            (None, Some(_)) => Some(HistoryState::begun(key)),
            (Some(state), history) => Some(HistoryState {
                ending_since: state.ending_since.or(history.is_none().then_some(now)),
                ..state
            }),
        };
        Self { history, ..self }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    let length = u8::try_from(text.len()).expect("invariant: ids and labels are short");
    bytes.put_u8(length);
    bytes.extend(text);
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = bytes.try_get_u8().ok()?;
    let (text, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::time::at;
    use super::*;

    fn details(shares: Vec<(Unit, Ratio)>) -> RowDetails {
        let label = |text| Some(Label::parse(text).unwrap());
        RowDetails {
            score: Score::from_stored(-12),
            amendment: 28_080_000_123_456,
            shares,
            member: MemberId::parse("ann").unwrap(),
            origin: Origin {
                voter: label("v"),
                key: label("backend"),
                ..Origin::default()
            },
            ip: Some([7; HASH_BYTES]),
            data: EntryData::parse(r#"{"car": "gt-3"}"#).ok(),
        }
    }

    #[test]
    fn details_are_read_as_they_were_written() {
        let fifth = Ratio::from_millionths(200_000).unwrap();
        let all = details(vec![(Unit::Week, fifth)]);
        assert_eq!(RowDetails::decode(&all.encode()), Some(all.clone()));
        let few = RowDetails {
            shares: Vec::new(),
            origin: Origin::default(),
            ip: None,
            data: None,
            ..all
        };
        assert_eq!(few.encode().len(), 2 * NUMBER_BYTES + 1 + 4 + 5);
        assert_eq!(RowDetails::decode(&few.encode()), Some(few.clone()));
        for length in 0..few.encode().len() {
            assert_eq!(RowDetails::decode(&few.encode()[..length]), None);
        }
    }

    #[test]
    fn a_row_counts_by_its_own_shares_and_not_before_a_window_began() {
        let mut board = Board::defined(r#"{"windows": ["day", "week", "all"]}"#);
        board.epochs.insert(Window::Period(Unit::All), u64::MAX);
        let share = Ratio::from_millionths(250_000).unwrap();
        let writes = details(vec![(Unit::Week, share)]).writes(&board, at("2026-11-21T12:00:00Z"));
        let told: Vec<_> = writes
            .iter()
            .map(|write| {
                let key = board.calendar.key(&write.standing.period);
                (key, write.amount.scaled())
            })
            .collect();
        let key = |text: &str| text.to_owned();
        let expected = [
            (key("2026-11-21"), -12),
            (key("2026-11-16"), -12),
            (key("2026-11-23"), -3),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_longer_retention_applies_to_periods_that_begin_after_the_change() {
        let replaced = |board: &Board, json: &str, now: &str| {
            let definition = serde_json::from_str(json).unwrap();
            board.replaced(definition, board.amendment + 1, at(now))
        };
        let kept_days = |board: &Board, day: &str| {
            let period = board.calendar.containing(Unit::Day, at(day));
            let expires_ms = board.expires_at_ms(&period)?;
            Some((expires_ms - period.end_ms) / 86_400_000)
        };
        let mut first = Board::defined(r#"{"windows": ["day"], "retention": {"day": "7d"}}"#);
        first.history = Some(HistoryState::begun("k".to_owned()));
        let longer = replaced(&first, r#"{"windows": ["day"]}"#, "2026-11-21T12:00:00Z");
        assert_eq!(kept_days(&longer, "2026-11-22T00:00:00Z"), Some(7));
        assert_eq!(kept_days(&longer, "2026-11-23T00:00:00Z"), None);
        let shorter = r#"{"windows": ["day"], "retention": {"day": "2d"}}"#;
        let shorter = replaced(&longer, shorter, "2026-11-23T12:00:00Z");
        assert_eq!(kept_days(&shorter, "2026-11-01T00:00:00Z"), Some(2));
        let again = replaced(&shorter, r#"{"windows": ["day"]}"#, "2026-11-24T12:00:00Z");
        assert_eq!(kept_days(&again, "2026-11-25T00:00:00Z"), Some(2));
        assert_eq!(kept_days(&again, "2026-11-26T00:00:00Z"), None);
        let stored = serde_json::to_string(&again.history).unwrap();
        assert_eq!(
            serde_json::from_str::<Option<HistoryState>>(&stored).unwrap(),
            again.history
        );
    }

    #[test]
    fn a_row_counts_without_what_is_carried_over_since_a_rolling_window_needs_that() {
        let plain = r#"{"windows": ["day"], "carryover": {"day": 0.5}}"#;
        let rolling = r#"{"windows": ["day", "last-7-days"], "carryover": {"day": 0.5}}"#;
        let mut first = Board::defined(plain);
        first.history = Some(HistoryState::begun("k".to_owned()));
        let definition = serde_json::from_str(rolling).unwrap();
        let now = at("2026-11-21T12:00:00Z");
        let second = first.replaced(definition, 7, now);
        let lists = |amendment| {
            let row = RowDetails {
                amendment,
                ..details(Vec::new())
            };
            let writes = row.writes(&second, now).into_iter();
            writes
                .map(|write| write.standing.series.list)
                .collect::<Vec<_>>()
        };
        let day = List::Period(Unit::Day);
        assert_eq!(lists(first.amendment), [day]);
        assert_eq!(lists(second.amendment), [day, List::Base(Unit::Day)]);
    }

    #[test]
    fn periods_from_before_the_history_may_have_events_without_rows() {
        let now = at("2026-11-21T23:59:00Z");
        let mut board = Board::defined(r#"{"windows": ["day"]}"#);
        let day = |text| board.calendar.containing(Unit::Day, at(text));
        let days = [
            day("2026-11-22T00:00:00Z"),
            day("2026-11-23T00:00:00Z"),
            day("2026-11-24T00:00:00Z"),
        ];
        let unkept = |board: &Board| days.map(|day| board.has_unkept(&day));
        let begun = HistoryState::begun("k".to_owned());
        board.history = Some(begun.clone());
        assert_eq!(unkept(&board), [true, true, true]);
        board.history = Some(begun.known_by_all(now));
        assert_eq!(unkept(&board), [true, true, false]);
        board.history = Some(HistoryState::of_new_board("k".to_owned()));
        assert_eq!(unkept(&board), [false, false, false]);
    }
}
