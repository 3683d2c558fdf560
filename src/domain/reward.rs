//! Rewards: what members of a final standing win, by the rules of a board.
//!
//! A rule gives its reward to each visible member that is within its ranks, or in its best percent, and has the required
//! score. Rules add up: a member may win by several. Winners follow from the order of the standing alone, entry by entry
//! from the top: see [`RewardScan`].

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::board::{Definition, FieldError, Order, Ranking, require};
use super::data;
use super::ids::{self, IdError};
use super::score::{Bound, Decimals, Score, serde_as_parts};
use super::texts::checked_text;
use super::window::Window;

/// The maximum number of rules of a board.
pub const RULES_MAX: usize = 32;
/// The longest reward, in bytes of its canonical form.
pub const REWARD_BYTES_MAX: usize = 1_024;
/// The greatest rank in a rule: more members than any standing has.
const RANK_MAX: u64 = 1_000_000_000;
/// 1 % in units of [`Percent`].
const PERCENT: i64 = 1_000_000;

checked_text! {
    /// The name of a rule: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    RuleId, |text| ids::plain(text, "the id of a rule"), IdError
}

/// A share of the members of a standing: above 0, up to 100, with at most 6 decimals, which are exact.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Percent(i64);

impl Percent {
    /// The last place within this share of `total` members: ⌈share · total / 100⌉.
    pub fn last_place(self, total: u64) -> u64 {
        let product = u128::from(self.0.unsigned_abs()) * u128::from(total);
        let place = product.div_ceil(u128::from((100 * PERCENT).unsigned_abs()));
        u64::try_from(place).expect("invariant: a share of a total is no more than the total")
    }
}

serde_as_parts!(
    Percent,
    6,
    1..=100 * PERCENT,
    "must be a number above 0 and up to 100, with at most 6 decimals"
);

/// What is won: any JSON value that all clients understand alike, in its canonical form (RFC 8785).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Reward(#[serde(serialize_with = "data::as_json")] Arc<str>);

impl<'de> Deserialize<'de> for Reward {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let (_, canonical) = data::canonical(text.get()).map_err(serde::de::Error::custom)?;
        if canonical.len() > REWARD_BYTES_MAX {
            return Err(serde::de::Error::custom(format_args!(
                "has {} bytes in its canonical form (RFC 8785), and {REWARD_BYTES_MAX} are allowed",
                canonical.len()
            )));
        }
        Ok(Self(canonical.into()))
    }
}

/// Who wins a reward. A rule has either `ranks` or `top_percent`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RewardRule)]
pub struct Rule {
    /// Its name, which is unique on the board.
    pub id: RuleId,
    /// The window whose standings count: a period, `season` or `all`, among the board's windows.
    #[schema(value_type = super::period::Unit)]
    pub window: Window,
    /// The first and the last public rank that win: `[1, 3]`.
    #[schema(value_type = Option<Vec<u64>>, min_items = 2, max_items = 2, example = json!([1, 3]))]
    pub ranks: Option<[u64; 2]>,
    /// The best members that win, in percent: above 0, up to 100, at most 6 decimals. Tied members all win if the first of
    /// them does.
    pub top_percent: Option<Percent>,
    /// Only members with at least this score win; on boards with `order: asc`, with at most this score.
    pub min_score: Option<Bound>,
    /// What is won: any JSON value of up to 1,024 bytes.
    pub reward: Reward,
}

/// What is wrong with a definition's rewards.
pub fn check(definition: &Definition) -> Vec<FieldError> {
    let (rules, mut errors) = (&definition.rewards, Vec::new());
    require! { errors;
        "/rewards", rules.len() <= RULES_MAX => format!("must have at most {RULES_MAX} rules");
        "/rewards", rules.is_empty() || definition.finalize.is_some()
            => "rewards need `finalize`: without it no period becomes final", with [finalize];
    }
    for (index, rule) in rules.iter().enumerate() {
        require! { errors;
            format!("/rewards/{index}/id"), rules[..index].iter().all(|other| other.id != rule.id)
                => "another rule has this id";
        }
        rule.check(definition, &format!("/rewards/{index}"), &mut errors);
    }
    errors
}

impl Rule {
    fn check(&self, definition: &Definition, at: &str, errors: &mut Vec<FieldError>) {
        let window = self.window;
        let is_sound = |[first, last]: [u64; 2]| (1..=last).contains(&first) && last <= RANK_MAX;
        let keep_top = definition.keep_top.map(u64::from);
        require! { errors;
            format!("{at}/window"), !window.is_rolling() => "rolling windows can't have rewards", with [windows];
            format!("{at}/window"), window.is_rolling() || definition.windows.contains(&window)
                => format!("`{window}` is not one of the board's windows"), with [windows];
            at, self.ranks.is_some() != self.top_percent.is_some()
                => "must have either `ranks` or `top_percent`";
            format!("{at}/ranks"), self.top_percent.is_some() || self.ranks.is_none_or(is_sound)
                => format!("must be two ranks from 1 to {RANK_MAX}, the better one first");
        }
        if let Some(Err(error)) = self.min_score.map(|min| min.score(definition.decimals)) {
            errors.push(FieldError::new(format!("{at}/min_score"), error).with(["decimals"]));
        }
        require! { errors;
            at, keep_top.is_none_or(|keep_top| self.stays_within(keep_top, definition.ranking))
                => "may go beyond `keep_top`: use `ranks` up to that number, and `ranking: ordinal`",
                with [keep_top ranking];
        }
    }

    /// Whether only the first `listed` members of a standing can win by it.
    fn stays_within(&self, listed: u64, ranking: Ranking) -> bool {
        // With shared ranks, any number of ties may follow.
        ranking == Ranking::Ordinal && self.ranks.is_some_and(|[_, last]| last <= listed)
    }

    fn wins(&self, standing: &RankedStanding, at: &Placing) -> bool {
        let is_placed = match (self.ranks, self.top_percent) {
            (Some([first, last]), _) => (first..=last).contains(&at.rank(standing.ranking)),
            (None, Some(percent)) => at.place <= percent.last_place(standing.total),
            (None, None) => false,
        };
        is_placed && self.takes_score(standing, at.score)
    }

    /// Whether an entry after this one may win.
    fn may_go_on(&self, standing: &RankedStanding, at: &Placing) -> bool {
        let may_be_placed = match (self.ranks, self.top_percent) {
            (Some([_, last]), _) => match standing.ranking {
                Ranking::Ordinal => at.position < last,
                // Members tied with the last one win, too.
                Ranking::Competition | Ranking::Dense => at.rank(standing.ranking) <= last,
            },
            (None, Some(percent)) => at.place <= percent.last_place(standing.total),
            (None, None) => false,
        };
        may_be_placed && self.takes_score(standing, at.score)
    }

    fn takes_score(&self, standing: &RankedStanding, score: Score) -> bool {
        // A bound that is not a valid score of the board was refused with the definition.
        let min = self
            .min_score
            .and_then(|min| min.score(standing.decimals).ok());
        min.is_none_or(|min| match standing.order {
            Order::Desc => score >= min,
            Order::Asc => score <= min,
        })
    }
}

/// What the rules need to know about a final standing, in addition to its entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RankedStanding {
    /// How ranks count.
    pub ranking: Ranking,
    /// Which end is rank 1.
    pub order: Order,
    /// The decimals of its scores.
    pub decimals: Decimals,
    /// How many visible members it has.
    pub total: u64,
}

/// The place of an entry. All numbers count from 1.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct Placing {
    /// Its rank with ties broken.
    position: u64,
    /// The position of the first entry with the same score.
    place: u64,
    /// How many distinct scores there are up to its own.
    step: u64,
    score: Score,
}

impl Placing {
    fn rank(&self, ranking: Ranking) -> u64 {
        match ranking {
            Ranking::Ordinal => self.position,
            Ranking::Competition => self.place,
            Ranking::Dense => self.step,
        }
    }
}

/// What an entry wins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Won {
    /// The displayed rank of the entry.
    pub rank: u64,
    /// The indexes of the rules by which it wins, in ascending order. Empty: it wins nothing.
    pub rules: Vec<usize>,
}

/// A scan along a standing from the first entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RewardScan(Placing);

impl RewardScan {
    /// Advances to the next entry, which has this score, and returns what it wins by rules with their indexes.
    pub fn next<'a>(
        &mut self,
        score: Score,
        rules: impl IntoIterator<Item = (usize, &'a Rule)>,
        standing: &RankedStanding,
    ) -> Won {
        let Self(at) = self;
        at.position += 1;
        if at.position == 1 || at.score != score {
            at.place = at.position;
            at.step += 1;
            at.score = score;
        }
        let winning = rules
            .into_iter()
            .filter(|(_, rule)| rule.wins(standing, at));
        Won {
            rank: at.rank(standing.ranking),
            rules: winning.map(|(index, _)| index).collect(),
        }
    }

    /// How many entries it has passed.
    pub fn entries(&self) -> u64 {
        self.0.position
    }

    /// Whether a later entry may win by one of these rules.
    pub fn goes_on<'a>(
        &self,
        rules: impl IntoIterator<Item = (usize, &'a Rule)>,
        standing: &RankedStanding,
    ) -> bool {
        let Self(at) = self;
        let mut rules = rules.into_iter();
        if at.position == 0 {
            return rules.next().is_some() && standing.total > 0;
        }
        at.position < standing.total && rules.any(|(_, rule)| rule.may_go_on(standing, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(rest: &str, rules: &str) -> Definition {
        let json = format!(
            r#"{{"windows": ["day", "last-7-days"], "finalize": "1h", {rest} "rewards": {rules}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    /// The errors of one rule for the days of a board.
    fn errors(rest: &str, rule: &str) -> Vec<String> {
        let rules = format!(r#"[{{"id": "a", "reward": 1, {rule}}}]"#);
        check(&definition(rest, &rules))
            .into_iter()
            .map(|error| error.pointer)
            .collect()
    }

    #[test]
    fn invalid_rules_are_refused() {
        let day = |rule: &str| errors("", &format!(r#""window": "day", {rule}"#));
        for sound in [
            r#""ranks": [1, 1]"#,
            r#""ranks": [2, 1000]"#,
            r#""top_percent": 0.000001"#,
            r#""top_percent": 100, "min_score": -5"#,
        ] {
            assert!(day(sound).is_empty(), "{sound}");
        }
        assert_eq!(day(r#""min_score": 1"#), ["/rewards/0"]);
        assert_eq!(day(r#""ranks": [1, 2], "top_percent": 5"#), ["/rewards/0"]);
        for ranks in ["[0, 1]", "[2, 1]", "[1, 1000000001]"] {
            assert_eq!(day(&format!(r#""ranks": {ranks}"#)), ["/rewards/0/ranks"]);
        }
        assert_eq!(
            day(r#""ranks": [1, 1], "min_score": 0.5"#),
            ["/rewards/0/min_score"]
        );
        for window in ["last-7-days", "week"] {
            let rule = format!(r#""window": "{window}", "ranks": [1, 1]"#);
            assert_eq!(errors("", &rule), ["/rewards/0/window"]);
        }
        let json = r#"{"windows": ["day"], "rewards": [{"id": "a", "window": "day", "ranks": [1, 1], "reward": 1}]}"#;
        let errors = check(&serde_json::from_str(json).unwrap());
        assert_eq!(errors[0].pointer, "/rewards", "without `finalize`");
        let twice = r#"[{"id": "a", "window": "day", "ranks": [1, 1], "reward": 1},
            {"id": "a", "window": "day", "ranks": [2, 2], "reward": null}]"#;
        assert_eq!(check(&definition("", twice))[0].pointer, "/rewards/1/id");
        let rules: Vec<String> = (0..=RULES_MAX)
            .map(|id| format!(r#"{{"id": "{id}", "window": "day", "ranks": [1, 1], "reward": 1}}"#))
            .collect();
        let rules = format!("[{}]", rules.join(","));
        assert_eq!(check(&definition("", &rules))[0].pointer, "/rewards");
    }

    #[test]
    fn no_rule_reaches_beyond_a_short_list() {
        let short = |rest: &str, rule: &str| {
            let rest = format!(r#""keep_top": 10, "update": "max", {rest}"#);
            let json = format!(
                r#"{{"windows": ["day"], "finalize": "1h", {rest} "rewards": [{{"id": "a", "window": "day", "reward": 1, {rule}}}]}}"#
            );
            check(&serde_json::from_str(&json).unwrap()).len()
        };
        assert_eq!(short("", r#""ranks": [1, 10]"#), 0);
        assert_eq!(short("", r#""ranks": [1, 11]"#), 1);
        assert_eq!(short("", r#""top_percent": 1"#), 1);
        assert_eq!(
            short(r#""ranking": "competition","#, r#""ranks": [1, 2]"#),
            1
        );
    }

    #[test]
    fn invalid_percentages_ids_and_rewards_are_refused() {
        let parse = |rule: &str| serde_json::from_str::<Rule>(rule).is_ok();
        let percent = |percent: &str| {
            parse(&format!(
                r#"{{"id": "a", "window": "day", "top_percent": {percent}, "reward": 1}}"#
            ))
        };
        assert!(["5", "0.1", "1e2", "33.333333"].into_iter().all(percent));
        assert!(
            !["0", "-1", "100.000001", "0.0000001", "\"5\""]
                .into_iter()
                .any(percent)
        );
        let reward = |reward: &str| {
            parse(&format!(
                r#"{{"id": "a", "window": "day", "ranks": [1, 1], "reward": {reward}}}"#
            ))
        };
        let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        assert!(reward("null") && reward("[1, {}]") && reward(&text(REWARD_BYTES_MAX)));
        assert!(!reward(&text(REWARD_BYTES_MAX + 1)));
        assert!(!reward("9007199254740993") && !reward(r#"{"a": 1, "a": 2}"#));
        assert!(!parse(
            r#"{"id": "-a", "window": "day", "ranks": [1, 1], "reward": 1}"#
        ));
        let rule = r#"{"id":"a","window":"day","ranks":null,"top_percent":5.5,"min_score":1.5,"reward":{"b":[1,2],"c":"é"}}"#;
        let parsed: Rule = serde_json::from_str(rule).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), rule);
        let value = serde_json::to_value(&parsed).unwrap();
        assert_eq!(serde_json::from_value::<Rule>(value).unwrap(), parsed);
    }

    /// The rules by which each entry of a standing wins.
    fn winners(ranking: Ranking, order: Order, rules: &[&str], scores: &[i64]) -> Vec<Vec<usize>> {
        let rules: Vec<Rule> = rules
            .iter()
            .map(|rule| {
                let json = format!(r#"{{"id": "a", "window": "day", "reward": 1, {rule}}}"#);
                serde_json::from_str(&json).unwrap()
            })
            .collect();
        let standing = RankedStanding {
            ranking,
            order,
            decimals: Decimals::default(),
            total: scores.len() as u64,
        };
        let mut scan = RewardScan::default();
        let mut won = Vec::new();
        while scan.goes_on(rules.iter().enumerate(), &standing) {
            let score = Score::from_stored(scores[won.len()]);
            won.push(scan.next(score, rules.iter().enumerate(), &standing).rules);
        }
        // No later entry wins anything.
        for score in &scores[won.len()..] {
            let score = Score::from_stored(*score);
            let behind = scan.next(score, rules.iter().enumerate(), &standing);
            assert!(behind.rules.is_empty(), "{scores:?}");
        }
        while won.last().is_some_and(Vec::is_empty) {
            won.pop();
        }
        won
    }

    #[test]
    fn rewards_use_the_shown_ranks() {
        let scores = [9, 7, 7, 7, 5, 3];
        let won = |ranking, rule| winners(ranking, Order::Desc, &[rule], &scores).len();
        let ranks = r#""ranks": [1, 2]"#;
        assert_eq!(won(Ranking::Ordinal, ranks), 2);
        assert_eq!(won(Ranking::Competition, ranks), 4);
        assert_eq!(won(Ranking::Dense, ranks), 4);
        let third = r#""ranks": [3, 3]"#;
        assert_eq!(won(Ranking::Ordinal, third), 3);
        assert_eq!(won(Ranking::Competition, third), 0, "there is no third");
        assert_eq!(won(Ranking::Dense, third), 5);
        assert_eq!(won(Ranking::Ordinal, r#""ranks": [5, 900]"#), 6);
    }

    #[test]
    fn a_percentage_uses_the_first_of_a_tie_and_is_rounded_up() {
        let won = |percent: &str, scores: &[i64]| {
            let rule = format!(r#""top_percent": {percent}"#);
            let of = |ranking| winners(ranking, Order::Desc, &[&rule], scores).len();
            assert_eq!(of(Ranking::Ordinal), of(Ranking::Competition));
            assert_eq!(of(Ranking::Ordinal), of(Ranking::Dense));
            of(Ranking::Ordinal)
        };
        let ten = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1];
        for (percent, count) in [
            ("0.000001", 1),
            ("10", 1),
            ("10.000001", 2),
            ("70", 7),
            ("100", 10),
        ] {
            assert_eq!(won(percent, &ten), count, "{percent}");
        }
        // In floats, 7 % of 100 is more than 7.
        let hundred: Vec<i64> = (0..100).rev().collect();
        assert_eq!(won("7", &hundred), 7);
        assert_eq!(won("20", &[5, 4, 4, 4, 1]), 1);
        assert_eq!(won("40", &[5, 4, 4, 4, 1]), 4, "all that are tied");
        assert_eq!(won("50", &[]), 0);
    }

    #[test]
    fn rules_add_up_and_may_require_a_score() {
        let rules = [r#""ranks": [1, 1]"#, r#""top_percent": 50, "min_score": 5"#];
        let won = winners(Ranking::Ordinal, Order::Desc, &rules, &[9, 5, 4, 3, 2, 1]);
        assert_eq!(won, [vec![0, 1], vec![1]]);
        let fast = winners(Ranking::Ordinal, Order::Asc, &rules, &[2, 5, 6, 7, 8, 9]);
        assert_eq!(fast, [vec![0, 1], vec![1]]);
    }

    #[test]
    fn a_scan_continues_where_it_was_stored() {
        let rule = r#"{"id": "a", "window": "day", "ranks": [1, 3], "reward": 1}"#;
        let rules: [Rule; 1] = [serde_json::from_str(rule).unwrap()];
        let standing = RankedStanding {
            ranking: Ranking::Competition,
            order: Order::Desc,
            decimals: Decimals::default(),
            total: 4,
        };
        let (mut scan, mut ranks) = (RewardScan::default(), Vec::new());
        for score in [7, 5, 5, 1] {
            let score = Score::from_stored(score);
            ranks.push(scan.next(score, rules.iter().enumerate(), &standing).rank);
            let noted = serde_json::to_string(&scan).unwrap();
            scan = serde_json::from_str(&noted).unwrap();
        }
        assert_eq!(ranks, [1, 2, 2, 4]);
    }
}
