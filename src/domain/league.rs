//! Leagues: boards whose members compete in cohorts, each at its own level.
//!
//! The window of a league is its period. In a period each member is in one *cohort*, a small standing of its *tier*. After
//! the period the best of a cohort move up a tier, and the last move down. Settings apply to whole periods: see
//! [`Board::league_of`].

pub mod decision;
pub mod player;
pub mod zone;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::board::{Board, Definition, FieldError, Ingest, Order, Ranking, Update, require};
use super::event::FUTURE_MS_MAX;
use super::period::{Period, Unit};
use super::quota::Dimension;
use super::score::{Bound, Decimals, Score, serde_as_parts};
use super::texts::{checked_text, serde_as_text};
use super::ties::Ties;
use super::time::{Span, Timestamp};
use super::window::Window;

/// How many shards a league has, permanently.
pub const LEAGUE_SHARDS: u16 = 16;
/// The maximum number of tiers of a league.
pub const TIERS_MAX: usize = 20;
/// The maximum number of rules of `entry_bonus`.
const BONUSES_MAX: usize = 20;
/// The allowed sizes of a cohort.
pub const COHORT_SIZES: std::ops::RangeInclusive<u32> = 2..=1_000;
/// The longest wait between the end of a period and its closing.
const LEAGUE_FINALIZE_MAX: Span = Span::minutes(1);
/// How many replaced settings are kept.
const FORMER_MAX: usize = 64;
/// The error for an invalid score in the settings.
const NO_SCORE: &str = "must be 0 or more, with no more decimals than the board keeps";
/// The value 1 in units of [`Share`].
const WHOLE: i64 = 10_000;

/// The settings of a league. Changed settings apply from the next period on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct League {
    /// The maximum number of members in a cohort.
    #[serde(default = "cohort_size")]
    #[schema(minimum = 2, maximum = 1_000, default = 100)]
    pub cohort_size: u32,
    /// How long after the start of a period the seats of erased members stay empty in older cohorts: a duration. After that,
    /// new members take those seats before a new cohort opens. Null: until the period ends.
    pub join_until: Option<Span>,
    /// In a cohort with fewer members nobody changes tier, and nobody gets a bonus or a reward.
    #[serde(default = "super::board::one")]
    #[schema(minimum = 1, maximum = 1_000, default = 1)]
    pub min_cohort: u32,
    /// Members with a smaller score are not promoted.
    #[serde(default = "nothing")]
    #[schema(value_type = f64, minimum = 0, default = 0)]
    pub min_score_to_promote: Bound,
    /// What happens to the tier of a member that misses a period.
    #[serde(default)]
    pub idle: Idle,
    /// The levels, the lowest first, where new members begin: 1 to 20.
    #[schema(min_items = 1, max_items = 20)]
    pub tiers: Vec<Tier>,
    /// Scores with which the best of a cohort start their next period; up to 20 rules, which add up.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub entry_bonus: Vec<EntryBonus>,
}

/// A level of a league.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeagueTier)]
pub struct Tier {
    /// Its name, which is unique among the tiers.
    pub name: TierName,
    /// The share of a cohort that is promoted by one tier, from 0 to 1 with up to 4 decimals; 0 in the last tier.
    pub promote: Share,
    /// The share that is demoted by one tier; 0 in the first.
    pub demote: Share,
}

checked_text! {
    /// The name of a tier: `[a-z0-9][a-z0-9_]{0,31}`.
    TierName, check_tier_name, &'static str
}

/// A share from 0 to 1 with up to four decimals, which are exact.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share(i64);

/// What happens to the tier of a member that misses a period.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = LeagueIdle)]
pub enum Idle {
    /// Nothing.
    #[default]
    Keep,
    /// The member goes down by a tier.
    Demote,
}

/// A score with which some members of a cohort start their next period.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryBonus {
    /// The first and the last place in the cohort that get it: `[1, 3]`.
    #[schema(value_type = Vec<u64>, min_items = 2, max_items = 2, example = json!([1, 3]))]
    pub ranks: [u64; 2],
    /// The score.
    #[schema(value_type = f64, minimum = 0, example = 20)]
    pub score: Bound,
}

/// Settings that were replaced.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FormerLeague {
    /// They apply to periods that begin before this instant, and not before that of the preceding item.
    pub until: Timestamp,
    /// The settings.
    pub league: League,
}

/// A cohort of a period. Its text in Redis keys and stored records is `1-17`. (Users see `silver-17`:
/// [`League::cohort_name`].)
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Cohort {
    /// Its tier: the index in the settings of the period.
    pub tier: u8,
    /// Its number within the tier, from 1.
    pub number: u32,
}

/// What one list of a unit covers: a period, or in a league one cohort of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Section {
    /// The period.
    pub period: Period,
    /// The cohort; `None`: the whole period.
    pub cohort: Option<Cohort>,
}

fn cohort_size() -> u32 {
    100
}

fn nothing() -> Bound {
    Bound::from(Score::default())
}

fn check_tier_name(text: &str) -> Result<&str, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_sound = (1..=32).contains(&text.len())
        && text.bytes().all(|byte| is_plain(byte) || byte == b'_')
        && !text.starts_with('_');
    is_sound.then_some(text).ok_or(
        "the name of a tier must have 1 to 32 of the characters a-z 0-9 _ and begin with a letter or a digit",
    )
}

serde_as_text!(Cohort);

impl Share {
    /// ⌊share · count⌋.
    pub fn of(self, count: u64) -> u64 {
        let product = u128::from(self.0.unsigned_abs()) * u128::from(count);
        let share = product / u128::from(WHOLE.unsigned_abs());
        u64::try_from(share).expect("invariant: a share of a count is no more than the count")
    }
}

serde_as_parts!(
    Share,
    4,
    0..=WHOLE,
    "must be a number from 0 to 1 with at most 4 decimals"
);

impl fmt::Display for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.tier, self.number)
    }
}

impl FromStr for Cohort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let cohort = text.split_once('-').and_then(|(tier, number)| {
            let (tier, number) = (tier.parse().ok()?, number.parse().ok()?);
            Some(Self { tier, number })
        });
        // A cohort has one spelling.
        let sound = cohort.filter(|cohort| cohort.number > 0 && cohort.to_string() == text);
        sound.ok_or("a stored cohort must be a tier and a number, such as 1-17")
    }
}

impl From<Period> for Section {
    fn from(period: Period) -> Self {
        let cohort = None;
        Self { period, cohort }
    }
}

impl League {
    /// The tier with this index; the last one if the index is greater.
    pub fn tier(&self, index: u8) -> &Tier {
        let last = self.tiers.last().expect("invariant: a league has tiers");
        self.tiers.get(usize::from(index)).unwrap_or(last)
    }

    /// The index of the tier with this name.
    pub fn tier_named(&self, name: &str) -> Option<u8> {
        let index = self
            .tiers
            .iter()
            .position(|tier| tier.name.as_str() == name)?;
        u8::try_from(index).ok()
    }

    /// The index of the last tier.
    pub fn last_tier(&self) -> u8 {
        let last = self
            .tiers
            .len()
            .checked_sub(1)
            .and_then(|last| u8::try_from(last).ok());
        last.expect("invariant: a league has 1 to 20 tiers")
    }

    /// The name of a cohort for users: `silver-17`.
    pub fn cohort_name(&self, cohort: Cohort) -> String {
        format!("{}-{}", self.tier(cohort.tier).name, cohort.number)
    }

    /// The cohort with this name for users; `None` if there can't be one.
    pub fn cohort_named(&self, name: &str) -> Option<Cohort> {
        let (tier, number) = name.rsplit_once('-')?;
        let cohort = Cohort {
            tier: self.tier_named(tier)?,
            number: number.parse().ok()?,
        };
        let is_sound = cohort.number > 0 && self.cohort_name(cohort) == name;
        is_sound.then_some(cohort)
    }

    /// The minimum score for a promotion.
    pub fn promotes_from(&self, decimals: Decimals) -> Score {
        score_of(self.min_score_to_promote, decimals)
    }

    /// The score with which the member at this place of its cohort, from 1, opens its next period.
    pub fn bonus(&self, place: u64, decimals: Decimals) -> Score {
        let won = self
            .entry_bonus
            .iter()
            .filter(|rule| (rule.ranks[0]..=rule.ranks[1]).contains(&place))
            .map(|rule| score_of(rule.score, decimals).scaled());
        Score::from_stored(won.sum())
    }

    /// When new cohorts of a period stop being opened freely, in milliseconds since the epoch.
    pub fn joined_freely_until_ms(&self, period: &Period) -> i64 {
        let until_ms = |span: Span| period.start_ms.saturating_add_unsigned(span.ms());
        self.join_until.map_or(i64::MAX, until_ms)
    }

    /// Errors within the settings themselves.
    fn check(&self, decimals: Decimals) -> Vec<FieldError> {
        let (has_size, min) = (
            COHORT_SIZES.contains(&self.cohort_size),
            self.min_score_to_promote,
        );
        let mut errors = Vec::new();
        require! { errors;
            "/league/cohort_size", has_size => "must be from 2 to 1,000";
            "/league/min_cohort", !has_size || (1..=self.cohort_size).contains(&self.min_cohort)
                => "must be from 1 to `cohort_size`";
            "/league/min_score_to_promote", min.score(decimals).is_ok_and(|min| min.scaled() >= 0) => NO_SCORE;
            "/league/tiers", (1..=TIERS_MAX).contains(&self.tiers.len()) => "must have 1 to 20 tiers";
        }
        self.check_tiers(&mut errors);
        self.check_bonuses(decimals, &mut errors);
        errors
    }

    fn check_tiers(&self, errors: &mut Vec<FieldError>) {
        let last = self.tiers.len().saturating_sub(1);
        for (index, tier) in self.tiers.iter().enumerate() {
            let at = format!("/league/tiers/{index}");
            let (Share(promote), Share(demote)) = (tier.promote, tier.demote);
            require! { errors;
                format!("{at}/name"), self.tiers[..index].iter().all(|other| other.name != tier.name)
                    => "another tier has this name";
                format!("{at}/promote"), index != last || promote == 0
                    => "must be 0: no tier is above the last one";
                format!("{at}/demote"), index != 0 || demote == 0
                    => "must be 0: no tier is below the first one";
                at, promote + demote <= WHOLE => "`promote` and `demote` together must be at most 1";
            }
        }
    }

    fn check_bonuses(&self, decimals: Decimals, errors: &mut Vec<FieldError>) {
        require! { errors;
            "/league/entry_bonus", self.entry_bonus.len() <= BONUSES_MAX
                => "must have at most 20 rules";
        }
        let places = 1..=u64::from(*COHORT_SIZES.end());
        let mut sum: i128 = 0;
        for (index, rule) in self.entry_bonus.iter().enumerate() {
            let ([first, last], score) = (rule.ranks, rule.score.score(decimals).ok());
            let score = score.filter(|score| score.scaled() >= 0);
            let at = format!("/league/entry_bonus/{index}");
            require! { errors;
                format!("{at}/ranks"), first <= last && places.contains(&first) && places.contains(&last)
                    => "must be two ranks from 1 to 1,000, the better one first";
                format!("{at}/score"), score.is_some() => NO_SCORE;
            }
            sum += score.map_or(0, |score| i128::from(score.scaled()));
        }
        require! { errors;
            "/league/entry_bonus", sum <= i128::from(decimals.score_max().scaled())
                => "the scores of all rules together exceed the range of scores";
        }
    }
}

/// A bound, checked with the definition, as a score.
fn score_of(bound: Bound, decimals: Decimals) -> Score {
    let score = bound.score(decimals);
    score.expect("invariant: the scores of a league are scores of its board")
}

/// All errors of a definition because of its league.
pub fn check(definition: &Definition) -> Vec<FieldError> {
    let Some(league) = &definition.league else {
        return Vec::new();
    };
    let mut errors = league.check(definition.decimals);
    check_needs(definition, &mut errors);
    check_times(definition, league, &mut errors);
    errors
        .into_iter()
        .map(|error| error.with(["league"]))
        .collect()
}

/// Checks the other fields that a league depends on.
fn check_needs(of: &Definition, errors: &mut Vec<FieldError>) {
    let min = of.score_min.and_then(|min| min.score(of.decimals).ok());
    let mut quotas = of.quotas.iter();
    require! { errors;
        "/windows", unit_of(of).is_some()
            => "a league must have exactly one window: `day`, `week`, `month` or `season`", with [season];
        "/update", of.update == Update::Sum => "a league needs `update: sum`";
        "/order", of.order == Order::Desc => "a league needs `order: desc`";
        "/ties", of.ties == Ties::First => "a league needs `ties: first`";
        "/score_min", min.is_some_and(|min| min.scaled() >= 0)
            => "a league needs a `score_min` of at least 0, so that scores never fall";
        "/finalize", of.finalize.is_some_and(|wait| wait <= LEAGUE_FINALIZE_MAX)
            => "must be at most `1m` in a league: members get no new seats until a period is closed";
        "/carryover", of.carryover.is_empty()
            => "a league can't have carryover; use `entry_bonus` for the scores with which members begin a period";
        "/initial", of.initial.is_empty()
            => "a league can't have initial scores; use `entry_bonus` for the scores with which members begin a period";
        "/weight", of.weight.is_none() => "a league can't have weights";
        "/keep_top", of.keep_top.is_none() => "a league can't have `keep_top`: it lists all members of a cohort";
        "/ranking", of.ranking != Ranking::Dense
            => "a league can't have `dense` ranks";
        "/uniques", of.uniques.is_none() => "a league can't count voters";
        "/quotas", quotas.all(|quota| quota.by == [Dimension::Member])
            => "the quotas of a league can count by `member` only";
        "/ingest", of.ingest == Ingest::Sync
            => "a league can't have `ingest: async`: the member needs a seat before its event can count";
        "/max_delay", of.max_delay.is_none()
            => "a league has no queues to wait for";
        "/shards", of.shards == LEAGUE_SHARDS
            => "a league always has 16 shards";
    }
}

/// Checks times. Ids are looked up in one earlier cohort, so they can't be remembered for longer than the following period
/// lasts. `join_until` after the end of every period would have no effect.
fn check_times(of: &Definition, league: &League, errors: &mut Vec<FieldError>) {
    let (shortest, longest) = match (unit_of(of), of.season) {
        // A change to daylight saving shortens a day, by three hours at most.
        (Some(Unit::Day), _) => (Span::hours(20), Span::days(1)),
        (Some(Unit::Week), _) => (Span::days(6), Span::days(7)),
        (Some(Unit::Month), _) => (Span::days(27), Span::days(31)),
        (Some(_), Some(season)) => (season.length(), season.length()),
        _ => return,
    };
    let remembered_ms = of.idempotency.ms() + of.finalize.map_or(0, Span::ms);
    require! { errors;
        "/idempotency", remembered_ms <= shortest.ms()
            => format!("together with `finalize` it must be at most {shortest} in a league with this period"), with [finalize];
        "/league/join_until", league.join_until.is_none_or(|until| until < longest)
            => "must be shorter than the period; leave it out";
    }
}

/// The unit of a league's periods, if its windows have a single one.
fn unit_of(definition: &Definition) -> Option<Unit> {
    match definition.windows[..] {
        [Window::Period(unit @ (Unit::Day | Unit::Week | Unit::Month | Unit::Season))] => {
            Some(unit)
        }
        _ => None,
    }
}

impl Board {
    /// Whether its members compete in cohorts.
    pub fn is_league(&self) -> bool {
        self.definition.league.is_some()
    }

    /// The unit of its periods, if it is a league.
    pub fn league_unit(&self) -> Option<Unit> {
        self.definition.league.as_ref()?;
        unit_of(&self.definition)
    }

    /// The settings of its league that apply to a period; `None` if it is not a league.
    pub fn league_of(&self, period: &Period) -> Option<&League> {
        self.leagues_from(period).next()
    }

    /// The settings of a league in a period of it.
    pub fn settings_in(&self, period: &Period) -> &League {
        self.league_of(period)
            .expect("invariant: only a league has cohorts, seats and players")
    }

    /// The index of a tier in a later period. A tier is followed by its name; if the next settings lack that name, by its
    /// index, at most their last one.
    pub fn tier_in(&self, tier: u8, from: &Period, to: &Period) -> u8 {
        let later = self.leagues_from(to).count();
        let all: Vec<&League> = self.leagues_from(from).collect();
        all.windows(2)
            .take(all.len().saturating_sub(later))
            .fold(tier, |tier, change| {
                let name = change[0].tier(tier).name.as_str();
                let same = change[1].tier_named(name);
                same.unwrap_or_else(|| tier.min(change[1].last_tier()))
            })
    }

    /// The settings that apply to a period, and those that came after them.
    fn leagues_from(&self, period: &Period) -> impl Iterator<Item = &League> {
        let own = self.definition.league.as_ref();
        let start_ms = period.start_ms;
        let former = self
            .league_before
            .iter()
            .skip_while(move |former| former.until.ms() <= start_ms);
        former.map(|former| &former.league).chain(own)
    }

    /// The replaced settings once those of this definition replace the current ones. The current ones still apply to the
    /// running period, and to the next one if it is near, since members may already be seated in it.
    pub(crate) fn league_before_with(
        &self,
        definition: &Definition,
        now: Timestamp,
    ) -> Vec<FormerLeague> {
        let (Some(league), Some(after)) = (&self.definition.league, &definition.league) else {
            return Vec::new();
        };
        let mut former = self.league_before.clone();
        if league == after {
            return former;
        }
        let soon = Timestamp::from_ms_clamped(now.ms().saturating_add(FUTURE_MS_MAX));
        let unit = self.league_unit().unwrap_or(Unit::All);
        let running = self.calendar.containing(unit, soon);
        let until = running.end().unwrap_or(Timestamp::MAX);
        if former.last().is_none_or(|last| last.until < until) {
            let league = league.clone();
            former.push(FormerLeague { until, league });
        }
        let spare = former.len().saturating_sub(FORMER_MAX);
        former.split_off(spare)
    }

    /// The name of a cohort of a period for users: `silver-17`. `None` if the board is not a league.
    pub fn cohort_name(&self, period: &Period, cohort: Cohort) -> Option<String> {
        let league = self.league_of(period)?;
        Some(league.cohort_name(cohort))
    }

    /// The key of the period of a league that holds an instant.
    pub fn period_key_at(&self, instant: Timestamp) -> String {
        let unit = self.league_unit().unwrap_or(Unit::All);
        self.calendar.key(&self.calendar.containing(unit, instant))
    }

    /// The name of a section: `2026-11-16`, or of a cohort `2026-11-16/1-17`.
    pub fn section_key(&self, section: &Section) -> String {
        let key = self.calendar.key(&section.period);
        match section.cohort {
            None => key,
            Some(cohort) => format!("{key}/{cohort}"),
        }
    }

    /// The section of a unit that has this name.
    pub fn section_named(&self, unit: Unit, name: &str) -> Option<Section> {
        let (key, cohort) = match name.split_once('/') {
            None => (name, None),
            Some((key, cohort)) => (key, Some(cohort.parse().ok()?)),
        };
        let period = self.calendar.parse_key(unit, key).ok()?;
        Some(Section { period, cohort })
    }

    /// The name of a section with its unit: `week 2026-11-16`.
    pub fn section_title(&self, section: &Section) -> String {
        format!("{} {}", section.period.unit, self.section_key(section))
    }

    /// The section with this title.
    pub fn section_titled(&self, title: &str) -> Option<Section> {
        let (unit, name) = title.split_once(' ')?;
        self.section_named(Unit::named(unit)?, name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::super::board::FieldError;
    use super::super::ids::BoardId;
    use super::super::time::at;
    use super::*;
    use crate::boards::draft::Draft;

    fn defined(fields: &Value) -> Definition {
        let draft = Draft::Whole(serde_json::from_str(&fields.to_string()).unwrap());
        let id = BoardId::parse("b").unwrap();
        draft.definition(&id, None, None).unwrap()
    }

    fn tiers(shares: &[(&str, f64, f64)]) -> Value {
        shares.iter().map(
            |(name, promote, demote)| json!({"name": name, "promote": promote, "demote": demote}),
        ).collect()
    }

    fn three() -> Value {
        tiers(&[
            ("bronze", 0.3, 0.0),
            ("silver", 0.2, 0.2),
            ("gold", 0.0, 0.3),
        ])
    }

    fn league(other: &Value) -> Value {
        let mut fields = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": three()}});
        for (name, value) in other.as_object().unwrap() {
            fields[name] = value.clone();
        }
        fields
    }

    fn board(fields: &Value) -> Board {
        let id = BoardId::parse("b").unwrap();
        Board::new(id, defined(fields), 1, 1, BTreeMap::new())
    }

    fn pointers(fields: &Value) -> Vec<String> {
        defined(fields)
            .check()
            .into_iter()
            .map(|FieldError { pointer, .. }| pointer)
            .collect()
    }

    #[test]
    fn a_league_has_its_own_defaults() {
        let definition = defined(&league(&json!({})));
        assert_eq!(definition.check(), []);
        let shown = serde_json::to_value(&definition).unwrap();
        assert_eq!(
            (&shown["shards"], &shown["finalize"]),
            (&json!(16), &json!("0s"))
        );
        // 0 is written as such, and not as 0.0.
        let expected = json!({"cohort_size": 100, "join_until": null, "min_cohort": 1, "min_score_to_promote": 0,
            "idle": "keep", "entry_bonus": [], "tiers": three()}).to_string().replace("0.0", "0");
        assert_eq!(shown["league"].to_string().replace("0.0", "0"), expected);
    }

    #[test]
    fn settings_that_do_not_fit_a_league_are_refused() {
        for (other, pointer) in [
            (json!({"windows": ["day", "week"]}), "/windows"),
            (json!({"windows": ["year"]}), "/windows"),
            (json!({"windows": ["last-7-days"]}), "/windows"),
            (json!({"update": "max"}), "/update"),
            (json!({"order": "asc"}), "/order"),
            (json!({"ties": "last"}), "/ties"),
            (json!({"score_min": null}), "/score_min"),
            (json!({"score_min": -1}), "/score_min"),
            (json!({"carryover": {"week": 0.5}}), "/carryover"),
            (json!({"weight": {}}), "/weight"),
            (json!({"initial": ["week"]}), "/initial"),
            (json!({"keep_top": 10, "score_min": 1}), "/keep_top"),
            (json!({"uniques": "board"}), "/uniques"),
            (json!({"ranking": "dense"}), "/ranking"),
            (json!({"shards": 4}), "/shards"),
            (json!({"finalize": "2m"}), "/finalize"),
            (json!({"max_delay": "1m"}), "/max_delay"),
            (json!({"idempotency": "7d"}), "/idempotency"),
            (
                json!({"windows": ["day"], "idempotency": "1d"}),
                "/idempotency",
            ),
        ] {
            assert_eq!(pointers(&league(&other)), [pointer], "{other}");
        }
        let quota =
            |by: &[&str]| json!({"quotas": [{"name": "q", "by": by, "window": "1h", "max": 1}]});
        assert_eq!(pointers(&league(&quota(&["voter"]))), ["/quotas"]);
        assert_eq!(
            pointers(&league(&json!({"ranking": "dense"}))),
            ["/ranking"]
        );
        for (windows, join_until, pointers_of) in [
            ("day", "23h", &[][..]),
            ("day", "1d", &["/league/join_until"]),
            ("week", "6d", &[]),
            ("week", "7d", &["/league/join_until"]),
            ("month", "31d", &["/league/join_until"]),
        ] {
            let settings = json!({"tiers": three(), "join_until": join_until});
            let other = json!({"windows": [windows], "idempotency": "1h", "league": settings});
            assert_eq!(pointers(&league(&other)), pointers_of, "{other}");
        }
        for other in [
            quota(&["member"]),
            json!({"shards": 16, "finalize": "1m", "idempotency": "5d", "entry_data": true}),
            json!({"idempotency": "6d"}),
            json!({"finalize": null}),
        ] {
            assert_eq!(pointers(&league(&other)), [""; 0], "{other}");
        }
    }

    #[test]
    fn the_settings_of_a_league_are_checked() {
        let check = |field: &str, value: &Value| {
            let mut settings = json!({"tiers": three()});
            settings[field] = value.clone();
            pointers(&league(&json!({"league": settings})))
        };
        let bonus =
            |first: u64, last: u64, score: f64| json!([{"ranks": [first, last], "score": score}]);
        for (field, value, pointer) in [
            ("cohort_size", json!(0), "/league/cohort_size"),
            ("cohort_size", json!(1), "/league/cohort_size"),
            ("cohort_size", json!(1_001), "/league/cohort_size"),
            ("min_cohort", json!(0), "/league/min_cohort"),
            ("min_cohort", json!(101), "/league/min_cohort"),
            (
                "min_score_to_promote",
                json!(-1),
                "/league/min_score_to_promote",
            ),
            (
                "min_score_to_promote",
                json!(0.5),
                "/league/min_score_to_promote",
            ),
            ("tiers", json!([]), "/league/tiers"),
            (
                "tiers",
                tiers(&[("a", 0.1, 0.0), ("a", 0.0, 0.1)]),
                "/league/tiers/1/name",
            ),
            (
                "tiers",
                tiers(&[("a", 0.1, 0.1), ("b", 0.0, 0.1)]),
                "/league/tiers/0/demote",
            ),
            (
                "tiers",
                tiers(&[("a", 0.1, 0.0), ("b", 0.1, 0.1)]),
                "/league/tiers/1/promote",
            ),
            (
                "tiers",
                tiers(&[("a", 1.0, 0.0), ("b", 0.6, 0.5), ("c", 0.0, 1.0)]),
                "/league/tiers/1",
            ),
            (
                "entry_bonus",
                bonus(0, 1, 5.0),
                "/league/entry_bonus/0/ranks",
            ),
            (
                "entry_bonus",
                bonus(3, 2, 5.0),
                "/league/entry_bonus/0/ranks",
            ),
            (
                "entry_bonus",
                bonus(1, 2, -5.0),
                "/league/entry_bonus/0/score",
            ),
        ] {
            assert_eq!(check(field, &value), [pointer], "{field} {value}");
        }
        for wrong in [
            json!({"name": "A", "promote": 0, "demote": 0}),
            json!({"name": "a-b", "promote": 0, "demote": 0}),
            json!({"name": "a", "promote": 0.00001, "demote": 0}),
            json!({"name": "a", "promote": 1.1, "demote": 0}),
            json!({"name": "a", "promote": -0.1, "demote": 0}),
        ] {
            assert!(
                serde_json::from_str::<Tier>(&wrong.to_string()).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn shares_are_exact() {
        let share = |text: &str| serde_json::from_str::<Share>(text).unwrap();
        assert_eq!(share("0.07").of(100), 7);
        assert_eq!(share("0.29").of(100), 29);
        assert_eq!(share("0.3333").of(10_000), 3_333);
        assert_eq!(
            [share("1").of(7), share("0").of(7), share("0.5").of(7)],
            [7, 0, 3]
        );
        assert_eq!(serde_json::to_string(&share("0.2500")).unwrap(), "0.25");
    }

    #[test]
    fn bonuses_add_up() {
        let rules = json!([{"ranks": [1, 1], "score": 50}, {"ranks": [1, 3], "score": 20.5}]);
        let settings = json!({"tiers": three(), "entry_bonus": rules});
        let fields = league(&json!({"decimals": 1, "league": settings}));
        let definition = defined(&fields);
        let league = definition.league.unwrap();
        let bonus = |place| league.bonus(place, definition.decimals).scaled();
        assert_eq!([1, 2, 3, 4].map(bonus), [705, 205, 205, 0]);
    }

    #[test]
    fn cohorts_have_one_name_each() {
        let board = board(&league(&json!({})));
        let period = board
            .calendar
            .containing(Unit::Week, at("2026-11-18T12:00:00Z"));
        let settings = board.league_of(&period).unwrap();
        let cohort = Cohort {
            tier: 1,
            number: 17,
        };
        assert_eq!(settings.cohort_name(cohort), "silver-17");
        assert_eq!(settings.cohort_named("silver-17"), Some(cohort));
        for none in [
            "silver",
            "silver-0",
            "silver-017",
            "silver-+1",
            "iron-1",
            "silver-",
            "1-17",
        ] {
            assert_eq!(settings.cohort_named(none), None, "{none}");
        }
        assert_eq!("1-17".parse(), Ok(cohort));
        for none in ["1", "1-0", "01-1", "1-01", "256-1", "-1"] {
            assert!(none.parse::<Cohort>().is_err(), "{none}");
        }
        for (cohort, name) in [(None, "2026-11-16"), (Some(cohort), "2026-11-16/1-17")] {
            let section = Section { period, cohort };
            assert_eq!(board.section_key(&section), name);
            assert_eq!(board.section_named(Unit::Week, name), Some(section));
        }
        assert_eq!(board.section_named(Unit::Week, "2026-11-16/"), None);
        let used: std::collections::BTreeSet<usize> = (1..1_000)
            .map(|number| board.shard_of_cohort(&period, Cohort { tier: 0, number }))
            .collect();
        assert_eq!(used, (0..16).collect());
    }

    #[test]
    fn changed_settings_apply_from_the_next_period() {
        let first = board(&league(&json!({})));
        let size = |board: &Board, day: &str| {
            let period = board
                .calendar
                .containing(Unit::Week, at(&format!("{day}T12:00:00Z")));
            board.league_of(&period).unwrap().cohort_size
        };
        let with = |size: u64| {
            defined(&league(
                &json!({"league": {"tiers": three(), "cohort_size": size}}),
            ))
        };
        let second = first.replaced(with(50), 2, at("2026-11-18T12:00:00Z"));
        assert_eq!(
            ["2026-11-16", "2026-11-23"].map(|day| size(&second, day)),
            [100, 50]
        );
        // Settings that were replaced before they applied are dropped.
        let third = second.replaced(with(30), 3, at("2026-11-19T12:00:00Z"));
        assert_eq!(third.league_before.len(), 1);
        assert_eq!(
            ["2026-11-16", "2026-11-23"].map(|day| size(&third, day)),
            [100, 30]
        );
        let same = third.replaced(with(30), 4, at("2026-12-02T12:00:00Z"));
        assert_eq!(same.league_before, third.league_before);
        // In the last minute members may already be seated for the next period.
        let fourth = third.replaced(with(20), 4, at("2026-11-22T23:59:30Z"));
        let days = ["2026-11-16", "2026-11-23", "2026-11-30"];
        assert_eq!(days.map(|day| size(&fourth, day)), [100, 30, 20]);
    }

    #[test]
    fn a_tier_is_matched_by_name_then_by_index() {
        let with = |names: &[&str]| {
            let shares: Vec<_> = names.iter().map(|name| (*name, 0.0, 0.0)).collect();
            league(&json!({"league": {"tiers": tiers(&shares)}}))
        };
        let mut board = board(&with(&["a", "b", "c"]));
        // Renamed, reordered, and two removed, from week to week.
        let changes = [vec!["a", "x", "c"], vec!["c", "a", "x"], vec!["x"]];
        for (index, names) in changes.iter().enumerate() {
            let now = at(&format!("2026-11-{:02}T12:00:00Z", 4 + 7 * index));
            board = board.replaced(defined(&with(names)), 2, now);
        }
        let week = |day: u32| {
            let day = at(&format!("2026-11-{day:02}T12:00:00Z"));
            board.calendar.containing(Unit::Week, day)
        };
        let [first, second, third, last] = [4, 11, 18, 25].map(week);
        let tiers = |to: &Period| [0, 1, 2].map(|tier| board.tier_in(tier, &first, to));
        assert_eq!(tiers(&first), [0, 1, 2]);
        assert_eq!(tiers(&second), [0, 1, 2]);
        assert_eq!(tiers(&third), [1, 2, 0]);
        assert_eq!(tiers(&last), [0, 0, 0]);
        assert_eq!(board.tier_in(2, &second, &second), 2);
        assert_eq!(board.tier_in(2, &second, &third), 0);
    }
}
