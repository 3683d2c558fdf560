//! The model in the words of the HTTP contract: definitions, events, and the answers that have to come.
//!
//! Numbers are compared by their very digits, since a [`Value`] holds them as doubles: [`exact`] makes them
//! strings, and what is expected has them as strings from the beginning.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{SecondsFormat, TimeZone, Utc};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::cases::Detail;
use super::finals::{Rule, Wins};
use super::naive::{
    Board, Entry, Event, HOUR, Model, NAMELESS, Quota, QuotaWindow, Ranking, Ties, US, Uniques,
    Unit, Update, Weight, Window, utc,
};

/// Longer than all years of a case.
const RETENTION: &str = "36600d";

/// The JSON with every number as a string of its digits.
pub fn exact(text: &str) -> Value {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'{') => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap();
            fields
                .into_iter()
                .filter(|(name, value)| name != "revision" || !value.get().starts_with('"'))
                .map(|(name, value)| (name, exact(value.get())))
                .collect()
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            items.into_iter().map(|item| exact(item.get())).collect()
        }
        Some(b'-' | b'0'..=b'9') => Value::from(text),
        _ => serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}")),
    }
}

pub fn unit_name(unit: Unit) -> String {
    format!("{unit:?}").to_lowercase()
}

pub fn window_name(window: Window) -> String {
    match window {
        Window::Period(unit) => unit_name(unit),
        Window::Rolling(unit, count) => format!("last-{count}-{}s", unit_name(unit)),
    }
}

pub fn time_text(at: i64) -> String {
    utc(at).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// An instant in microseconds as answers show it: with three digits if it is a whole millisecond.
pub fn instant_text(us: i64) -> String {
    let format = if us % US == 0 {
        SecondsFormat::Millis
    } else {
        SecondsFormat::Micros
    };
    Utc.timestamp_micros(us)
        .unwrap()
        .to_rfc3339_opts(format, true)
}

/// A score as a JSON number without needless digits.
pub fn score_text(value: i64, decimals: u32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!(
        "{:0width$}",
        value.unsigned_abs(),
        width = decimals as usize + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - decimals as usize);
    format!("{sign}{whole}.{fraction}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// A board's definition.
pub fn definition(board: &Board) -> Value {
    const DAYS: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let windows: Vec<String> = board.windows.iter().copied().map(window_name).collect();
    #[expect(clippy::cast_precision_loss, reason = "at most a million")]
    let shares = board
        .carryover
        .iter()
        .map(|(unit, millionths)| (unit_name(*unit), *millionths as f64 / 1e6));
    let week_start = DAYS[usize::try_from(board.week_start).unwrap()];
    let season = json!({
        "start": time_text(board.season_start),
        "length": format!("{}m", board.season_length / 60_000),
    });
    let quotas: Vec<Value> = (0..).zip(&board.quotas).map(quota).collect();
    let mut definition = json!({
        "update": match board.update {
            Update::Sum => "sum",
            Update::Max => "max",
            Update::Min => "min",
            Update::Last => "last",
        },
        "order": if board.descending { "desc" } else { "asc" },
        "decimals": board.decimals,
        "ties": match board.ties {
            Ties::First => "first",
            Ties::Last => "last",
            Ties::Member => "member",
        },
        "ranking": match board.ranking {
            Ranking::Ordinal => "ordinal",
            Ranking::Competition => "competition",
            Ranking::Dense => "dense",
        },
        "timezone": board.zone.name(),
        "week_start": week_start,
        "windows": windows,
        "season": if board.windows.contains(&Window::Period(Unit::Season)) { season } else { Value::Null },
        "carryover": shares.collect::<BTreeMap<_, _>>(),
        "score_min": board.score_min.map(|min| number(min, board.decimals)),
        "score_max": board.score_max,
        "quotas": quotas,
        "accept_late": board.accept_late.map_or_else(|| "any".to_owned(), |age| format!("{}s", age / 1000)),
    });
    // What few boards have.
    if let Some(Weight { default, members }) = &board.weight {
        definition["weight"] = json!({"default": default, "members": members});
    }
    if !board.initial.is_empty() {
        let units = board.initial.iter().copied();
        definition["initial"] = units.map(unit_name).collect();
    }
    if let Some(uniques) = board.uniques {
        definition["uniques"] = match uniques {
            Uniques::Board => json!("board"),
            Uniques::Member => json!("member"),
        };
    }
    if !board.retention.is_empty() {
        let units = board.retention.iter().copied();
        definition["retention"] = units.map(|unit| (unit_name(unit), RETENTION)).collect();
    }
    if board.shards > 1 {
        definition["shards"] = json!(board.shards);
    }
    if let Some(top) = board.keep_top {
        definition["keep_top"] = json!(top);
    }
    if board.finalizes {
        definition["finalize"] = json!("10m");
    }
    if let Some(max_delay) = board.max_delay.filter(|_| board.finalizes) {
        definition["max_delay"] = json!(format!("{}s", max_delay / 1_000));
    }
    if board.history.is_some() {
        definition["history"] = history(board);
    }
    if board.entry_data {
        definition["entry_data"] = json!(true);
    }
    if !board.rewards.is_empty() {
        definition["rewards"] = rewards(board);
    }
    definition
}

/// How long a board keeps its events: at least as long as late events and ids need.
pub fn history(board: &Board) -> Value {
    let Some(kept) = board.history.filter(|_| board.keep_top.is_none()) else {
        return Value::Null;
    };
    match board.accept_late.filter(|_| kept < i64::MAX) {
        Some(late) => json!(format!("{}s", kept.max(late).max(HOUR) / 1_000)),
        None => json!("board"),
    }
}

/// A board's rules of rewards.
pub fn rewards(board: &Board) -> Value {
    let rules = board.rewards.iter();
    rules.map(|rule| rule_json(rule, board.decimals)).collect()
}

/// A rule of rewards.
pub fn rule_json(rule: &Rule, decimals: u32) -> Value {
    let mut json = json!({
        "id": rule.id,
        "window": unit_name(rule.unit),
        "reward": prize(rule),
    });
    match rule.wins {
        Wins::Ranks(first, last) => json["ranks"] = json!([first, last]),
        Wins::Top(share) => json["top_percent"] = number(i64::try_from(share).unwrap(), 6),
    }
    if let Some(min) = rule.min_score {
        json["min_score"] = number(min, decimals);
    }
    json
}

/// What a rule gives.
pub fn prize(rule: &Rule) -> Value {
    json!({"item": format!("{} {}", rule.id, rule.prize), "also": [null, true, {}]})
}

/// The entry that has won a period.
pub fn winner(model: &Model, window: Window, period: i64) -> Value {
    let standing = model.standing(window, period);
    let Some(first) = standing.first() else {
        return Value::Null;
    };
    let mut json = json!({
        "member": shown(&first.member),
        "score": score_text(first.score.value, model.board.decimals),
    });
    if model.board.ties != Ties::Member {
        json["reached_at"] = json!(instant_text(first.score.at));
    }
    json
}

/// A score small enough to be a [`Value`].
fn number(value: i64, decimals: u32) -> Value {
    score_text(value, decimals).parse().unwrap()
}

fn quota((place, quota): (usize, &Quota)) -> Value {
    let by = [(quota.by_voter, "voter"), (quota.by_member, "member")];
    let by = by.iter().filter(|(is_named, _)| *is_named);
    let extra = quota.extra.iter();
    let extra = extra.map(|extra| json!({"channel": extra.channels, "max": extra.max}));
    json!({
        "name": format!("q{place}"),
        "by": by.map(|(_, name)| name).collect::<Vec<_>>(),
        "window": match quota.window {
            QuotaWindow::Sliding(ms) => format!("{}s", ms / 1000),
            QuotaWindow::Period(unit) => unit_name(unit),
            QuotaWindow::Total => "total".to_owned(),
        },
        "max": quota.max,
        "measure": if quota.counts_points { "score" } else { "events" },
        "extra": extra.collect::<Vec<_>>(),
    })
}

/// What an outcome says of the standings, given the model just before the event and just after it.
pub fn changes(before: &Model, after: &Model, event: &Event, detail: Detail) -> Value {
    let (board, at) = (&after.board, after.latest_at().div_euclid(US));
    let change = |window: &Window| {
        let unit = window.unit();
        let period = board.period(unit, at);
        let score = |model: &Model| {
            model
                .score(*window, period, &event.member)
                .map(|score| score.value)
        };
        let rank = |model: &Model| {
            let standing = model.standing(*window, period);
            standing
                .iter()
                .find(|entry| entry.member == event.member)
                .and_then(|entry| rank_text(entry.rank))
        };
        let mut change = json!({
            "window": window_name(*window),
            "key": board.key(unit, period),
            "score": score_text(score(after).unwrap_or(0), board.decimals),
            "previous_score": score(before).map(|value| score_text(value, board.decimals)),
        });
        if detail == Detail::Ranks {
            change["rank"] = json!(rank(after));
            change["previous_rank"] = json!(rank(before));
        }
        change
    };
    match detail {
        Detail::Status => json!([]),
        Detail::Standings | Detail::Ranks => board.windows.iter().map(change).collect(),
    }
}

/// `applied`, or `unchanged` where the event did not do better than what its member had already.
pub fn status(before: &Model, after: &Model, event: &Event) -> &'static str {
    let (board, at) = (&after.board, after.latest_at().div_euclid(US));
    let differs = |window: &Window| {
        let period = board.period(window.unit(), at);
        let kept = |model: &Model| model.score(*window, period, &event.member);
        let (old, new) = (kept(before), kept(after));
        // A best score has no time on boards that don't break ties by it.
        let is_timed = board.ties != Ties::Member || board.update == Update::Last;
        old.map(|score| score.value) != new.map(|score| score.value) || (is_timed && old != new)
    };
    let is_changed = board.update == Update::Sum || board.windows.iter().any(differs);
    if is_changed { "applied" } else { "unchanged" }
}

/// A standing as the answers show it.
pub struct View<'a> {
    model: &'a Model,
    id: &'a str,
    window: Window,
    period: i64,
    entries: Vec<Entry>,
    has_data: bool,
    /// When it is read, if its state is told.
    now: Option<i64>,
}

/// A member as it is shown: a line that has outlived its member is nobody's.
pub fn shown(member: &str) -> Option<&str> {
    (!member.contains(NAMELESS)).then_some(member)
}

impl<'a> View<'a> {
    pub fn new(model: &'a Model, id: &'a str, window: Window, period: i64) -> Self {
        Self {
            model,
            id,
            window,
            period,
            entries: model.standing(window, period),
            has_data: false,
            now: None,
        }
    }

    /// The same with the state that it has now.
    pub fn with_state(self, now: i64) -> Self {
        Self {
            now: Some(now),
            ..self
        }
    }

    /// The same with the data of entries, if that is asked for.
    pub fn with_data(self, is_asked_for: bool) -> Self {
        Self {
            has_data: is_asked_for,
            ..self
        }
    }

    pub fn total(&self) -> usize {
        self.entries.len()
    }

    /// The greatest score that the board can have.
    pub fn bound(&self) -> i64 {
        match self.model.board.decimals {
            0 => (1 << 53) - 1,
            _ => 999_999_999_999_999,
        }
    }

    pub fn decimals(&self) -> u32 {
        self.model.board.decimals
    }

    /// The scores that are in it.
    pub fn scores(&self) -> Vec<i64> {
        self.entries.iter().map(|entry| entry.score.value).collect()
    }

    fn score(&self, value: i64) -> String {
        score_text(value, self.model.board.decimals)
    }

    /// The service has an estimate, which is exact for as few voters as there are.
    fn voters(&self, member: Option<&str>) -> String {
        let count = self.model.voter_count(self.window, self.period, member);
        count.to_string()
    }

    fn entry(&self, entry: &Entry) -> Value {
        let mut json = json!({
            "rank": rank_text(entry.rank),
            "member": shown(&entry.member),
            "score": self.score(entry.score.value),
        });
        if self.model.board.ties != Ties::Member {
            json["reached_at"] = json!(instant_text(entry.score.at));
        }
        if self.model.board.uniques == Some(Uniques::Member) {
            json["voters"] = json!(self.voters(Some(&entry.member)));
        }
        if self.has_data {
            json["data"] = entry.score.data.map_or(Value::Null, exact);
        }
        json
    }

    /// The lines of its export.
    pub fn export(&self) -> Value {
        let lines = self.listed().map(|entry| {
            let mut line = self.entry(entry);
            line.as_object_mut().unwrap().remove("voters");
            line
        });
        lines.collect()
    }

    /// Those that have a rank.
    fn listed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.rank.is_some())
    }

    fn find(&self, member: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.member == member)
    }

    /// What every answer says of its standing.
    fn head(&self) -> Value {
        let (board, unit) = (&self.model.board, self.window.unit());
        let oldest = self.period - self.window.length() + 1;
        let start = |period| {
            board
                .start(unit, period)
                .map(|at| utc(at).to_rfc3339_opts(SecondsFormat::Secs, true))
        };
        let mut json = json!({
            "board": self.id,
            "window": window_name(self.window),
            "key": board.key(unit, self.period),
            "starts_at": start(oldest),
            "ends_at": start(self.period + 1),
        });
        if let Some(now) = self.now {
            json["state"] = json!(self.model.state(unit, self.period, now));
        }
        json
    }

    /// The same with how many members it has.
    fn head_with_total(&self) -> Value {
        let mut json = self.head();
        json["total"] = json!(self.total().to_string());
        json
    }

    /// A page, from 1.
    pub fn page(&self, page: usize, size: usize, me: Option<&str>) -> Value {
        self.page_between(page, size, me, [None, None])
    }

    /// A page of the entries from one score to another.
    pub fn page_between(
        &self,
        page: usize,
        size: usize,
        me: Option<&str>,
        [from, to]: [Option<i64>; 2],
    ) -> Value {
        let is_within = |entry: &&Entry| {
            let score = entry.score.value;
            from.is_none_or(|from| from <= score) && to.is_none_or(|to| score <= to)
        };
        let list: Vec<&Entry> = self.listed().filter(is_within).collect();
        let skipped = (page - 1) * size;
        let mut json = self.part(&list, skipped, size, me);
        json["page"] = json!(page.to_string());
        json
    }

    /// The page around a score.
    pub fn around(&self, size: usize, me: Option<&str>, score: i64) -> Value {
        let list: Vec<&Entry> = self.listed().collect();
        let is_better = |entry: &&&Entry| {
            let value = entry.score.value;
            if self.model.board.descending {
                value > score
            } else {
                value < score
            }
        };
        let better = list.iter().filter(is_better).count();
        self.part(&list, better.saturating_sub(size / 2), size, me)
    }

    /// How many members have a better rank than the entry at a place from 0.
    fn outranked_by(&self, place: usize) -> usize {
        let scores = self.entries.iter().map(|entry| entry.score.value);
        match self.model.ranking_of(self.window.unit(), self.period) {
            Ranking::Ordinal => place,
            // Equal scores stand together.
            Ranking::Competition | Ranking::Dense => scores
                .take_while(|score| *score != self.entries[place].score.value)
                .count(),
        }
    }

    /// The entry at a percentile, in thousandths of a percent: the last that so many of the others do not outrank.
    pub fn at_percentile(&self, thousandths: usize) -> Value {
        let total = self.total();
        let reaches = |better: usize| (total - better - 1) * 100_000 >= thousandths * (total - 1);
        let first = (0..total).rev().find(|place| reaches(*place));
        let is_listed = |place: &usize| self.entries[*place].rank.is_some();
        let mut listed = (0..total).rev().filter(is_listed);
        let place = first
            .filter(is_listed)
            .and_then(|_| listed.find(|place| reaches(self.outranked_by(*place))));
        let entry = place.map(|place| &self.entries[place]);
        let mut json = self.head_with_total();
        json["percentile"] = json!(score_text(thousandths.try_into().unwrap(), 3));
        json["entry"] = json!(entry.map(|entry| self.entry(entry)));
        json
    }

    /// Some entries of a list.
    fn part(&self, list: &[&Entry], skipped: usize, size: usize, me: Option<&str>) -> Value {
        let entries = list.iter().skip(skipped).take(size);
        let mut json = self.head_with_total();
        json["listed"] = json!(list.len().to_string());
        json["size"] = json!(size.to_string());
        json["entries"] = entries.map(|entry| self.entry(entry)).collect();
        json["me"] = me
            .and_then(|me| self.find(me))
            .map_or(Value::Null, |entry| self.entry(entry));
        json
    }

    /// A member; `None` where it has no score.
    pub fn member(&self, member: &str, around: Option<usize>) -> Option<Value> {
        // Who is not listed stands behind those who are.
        let list: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.rank.is_some() || entry.member == member)
            .collect();
        let place = list.iter().position(|entry| entry.member == member)?;
        let own = list[place];
        let neighbour = |other: &Entry| {
            json!({
                "rank": rank_text(other.rank),
                "member": shown(&other.member),
                "score": self.score(other.score.value),
                "gap": self.score((other.score.value - own.score.value).abs()),
            })
        };
        let before = (self.window.unit() != Unit::All)
            .then(|| Self::new(self.model, self.id, self.window, self.period - 1));
        let previous = before.and_then(|before| {
            let old = before.find(member)?;
            let change = |(old, own): (usize, usize)| old.cast_signed() - own.cast_signed();
            Some(json!({
                "key": before.head()["key"],
                "rank": rank_text(old.rank),
                "score": self.score(old.score.value),
                "rank_change": old.rank.zip(own.rank).map(|ranks| change(ranks).to_string()),
                "score_change": self.score(own.score.value - old.score.value),
            }))
        });
        let mut json = self.head_with_total();
        json.as_object_mut()
            .unwrap()
            .extend(self.entry(own).as_object().unwrap().clone());
        json["percentile"] = json!(
            own.rank
                .map(|_| percentile(self.total(), self.outranked_by(place)))
        );
        json["ahead"] = json!(place.checked_sub(1).map(|index| neighbour(list[index])));
        json["behind"] = json!(list.get(place + 1).map(|entry| neighbour(entry)));
        json["previous"] = json!(previous);
        if let Some(around) = around {
            let near = list
                .iter()
                .enumerate()
                .filter(|(other, _)| other.abs_diff(place) <= around);
            json["around"] = near.map(|(_, entry)| self.entry(entry)).collect();
        }
        Some(json)
    }

    pub fn subset(&self, members: &[&str]) -> Value {
        let found: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| members.contains(&entry.member.as_str()))
            .collect();
        let ranking = self.model.ranking_of(self.window.unit(), self.period);
        let entries = found.iter().enumerate().map(|(place, entry)| {
            let ahead = &found[..place];
            let score = |entry: &&Entry| entry.score.value;
            let better = ahead
                .iter()
                .map(score)
                .filter(|other| *other != entry.score.value);
            let better = match ranking {
                Ranking::Ordinal => place,
                Ranking::Competition => better.count(),
                Ranking::Dense => better.collect::<BTreeSet<i64>>().len(),
            };
            let mut json = self.entry(entry);
            json["position"] = json!((better + 1).to_string());
            json
        });
        let mut json = self.head_with_total();
        json["entries"] = entries.collect();
        json["not_found"] = members
            .iter()
            .copied()
            .filter(|member| self.find(member).is_none())
            .collect();
        json
    }

    pub fn stats(&self) -> Value {
        let is_counted = self.model.board.uniques.is_some();
        let events = self.model.event_count(self.window, self.period);
        let sum = self.entries.iter().map(|entry| entry.score.value).sum();
        let mut json = self.head();
        json["members"] = json!(self.total().to_string());
        json["voters"] = json!(is_counted.then(|| self.voters(None)));
        json["events"] = json!(is_counted.then(|| events.to_string()));
        json["score_sum"] = json!(is_counted.then(|| self.score(sum)));
        json
    }
}

fn rank_text(rank: Option<usize>) -> Option<String> {
    rank.map(|rank| rank.to_string())
}

/// The share of the others that do not have a better rank, in percent to the nearest tenth; 100 for a member alone.
fn percentile(total: usize, better: usize) -> String {
    let tenths = match total - 1 {
        0 => 1000,
        others => (2000 * (others - better) + others) / (2 * others),
    };
    format!("{}.{}", tenths / 10, tenths % 10)
}
