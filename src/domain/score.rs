//! Fixed-point numbers: scores and the ratios that are applied to them.
//!
//! A score is an integer, scaled by 10^decimals of its board. A Redis sorted set and every JSON client hold it exactly:
//! whole numbers are within ±(2^53 − 1), and numbers with decimals have up to 15 digits, which is what a double keeps
//! (`DBL_DIG` of C). A score is parsed from the text of a JSON number and written as one, digit by digit, without floats in
//! between.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;
use serde_json::value::RawValue;
use thiserror::Error;

/// The maximum number of decimals that a board can keep.
pub const DECIMALS_MAX: u8 = 6;
/// The greatest scaled score of any board, 2^53 − 1: see [`Decimals::score_max`].
pub const SCORE_MAX: i64 = (1 << 53) - 1;
/// The greatest scaled score of a board with decimals: 15 digits.
const FRACTION_MAX: i64 = 10_i64.pow(15) - 1;
/// The digits of [`SCORE_MAX`]; a number with more digits is always out of range.
const SCORE_DIGITS_MAX: i64 = 16;

/// Why a number is not a valid score of a board.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ScoreError {
    /// It has more decimals than the board keeps.
    #[error("has more decimals ({found}) than the board keeps ({allowed})")]
    Decimals {
        /// Its decimals, without trailing zeros.
        found: u64,
        /// The decimals that the board keeps.
        allowed: u8,
    },
    /// It is above or below the board's range.
    #[error("is beyond ±{max}")]
    Range {
        /// The greatest score of the board.
        max: ShownScore,
    },
    /// It isn't a JSON number.
    #[error("is not a number")]
    Syntax,
}

/// How many decimals a board keeps: 0 to 6.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "u64")]
pub struct Decimals(u8);

impl Decimals {
    /// The number of digits.
    pub fn digits(self) -> u8 {
        self.0
    }

    /// The greatest score of a board with these decimals: 2^53 − 1 without decimals, else 15 digits.
    pub fn score_max(self) -> Score {
        Score(if self.0 == 0 { SCORE_MAX } else { FRACTION_MAX })
    }
}

impl TryFrom<u64> for Decimals {
    type Error = String;

    fn try_from(digits: u64) -> Result<Self, String> {
        u8::try_from(digits)
            .ok()
            .filter(|digits| *digits <= DECIMALS_MAX)
            .map(Self)
            .ok_or_else(|| format!("must be from 0 to {DECIMALS_MAX}, not {digits}"))
    }
}

/// A score in scaled units: `value · 10^decimals`, within ±[`Decimals::score_max`]. It is stored as this integer; users see
/// a [`ShownScore`].
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Score(i64);

impl Score {
    /// Takes a scaled integer; `None` if it is out of range.
    pub fn from_scaled(scaled: i64, decimals: Decimals) -> Option<Self> {
        let max = decimals.score_max().0;
        (-max..=max).contains(&scaled).then_some(Self(scaled))
    }

    /// Takes a scaled integer from Redis. A rolling sum can exceed the range after periods of the opposite sign have left
    /// it; it is shown unchanged.
    pub fn from_stored(scaled: i64) -> Self {
        Self(scaled)
    }

    /// The scaled integer.
    pub fn scaled(self) -> i64 {
        self.0
    }

    /// Parses the text of a JSON number exactly: `12`, `-0.50`, `1.2e3`. Trailing zeros don't count as decimals.
    pub fn parse(text: &str, decimals: Decimals) -> Result<Self, ScoreError> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let well_formed = !whole.is_empty()
            && mantissa.ends_with(|last: char| last.is_ascii_digit())
            && whole
                .bytes()
                .chain(fraction.bytes())
                .all(|byte| byte.is_ascii_digit());
        if !well_formed {
            return Err(ScoreError::Syntax);
        }

        let digits = if fraction.is_empty() {
            Cow::Borrowed(whole)
        } else {
            Cow::Owned([whole, fraction].concat())
        };
        let significant = digits.trim_end_matches('0');
        // The value is `significant` × 10^power, and `significant` doesn't end in a zero.
        let dropped = digits.len() - significant.len();
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Ok(Self(0));
        }
        let power = exponent
            .saturating_sub(length(fraction.len()))
            .saturating_add(length(dropped));
        let shift = power.saturating_add(i64::from(decimals.0));
        if shift < 0 {
            return Err(ScoreError::Decimals {
                found: power.unsigned_abs(),
                allowed: decimals.0,
            });
        }
        let range = ScoreError::Range {
            max: decimals.score_max().shown(decimals),
        };
        if length(significant.len()).saturating_add(shift) > SCORE_DIGITS_MAX {
            return Err(range);
        }
        let scaled = significant
            .bytes()
            .fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'))
            * (0..shift).fold(1, |factor, _| factor * 10);
        Self::from_scaled(if negative { -scaled } else { scaled }, decimals).ok_or(range)
    }

    /// The score as shown on a board with these decimals.
    pub fn shown(self, decimals: Decimals) -> ShownScore {
        ShownScore {
            scaled: self.0.into(),
            decimals,
        }
    }
}

/// Parses an exponent; beyond a million digits it only has to stay out of range.
fn parse_exponent(text: &str) -> Result<i64, ScoreError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ScoreError::Syntax);
    }
    let size = digits
        .parse::<i64>()
        .unwrap_or(i64::MAX / 4)
        .min(i64::MAX / 4);
    Ok(if text.starts_with('-') { -size } else { size })
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / 4)
}

/// A score, a difference of two, or the sum of many, with its board's decimals: displays and serialises as an exact JSON
/// number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShownScore {
    scaled: i128,
    decimals: Decimals,
}

impl ShownScore {
    /// `a − b`, which may be up to twice the maximum score.
    pub fn difference(a: Score, b: Score, decimals: Decimals) -> Self {
        Self {
            scaled: i128::from(a.0) - i128::from(b.0),
            decimals,
        }
    }

    /// How far two scores are from each other.
    #[must_use]
    pub fn distance(self, other: Self) -> Self {
        let decimals = Decimals(self.decimals.0.max(other.decimals.0));
        let scaled = |shown: Self| {
            let missing = u32::from(decimals.0 - shown.decimals.0);
            shown.scaled * 10_i128.pow(missing)
        };
        Self {
            scaled: (scaled(self) - scaled(other)).abs(),
            decimals,
        }
    }

    /// A sum of scores, in scaled units.
    pub fn sum(scaled: i128, decimals: Decimals) -> Self {
        Self { scaled, decimals }
    }
}

impl fmt::Display for ShownScore {
    /// Without trailing zeros: 1.50 is `1.5`, and 2.00 is `2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10_u128.pow(u32::from(self.decimals.0));
        let size = self.scaled.unsigned_abs();
        if self.scaled < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", size / scale)?;
        let fraction = size % scale;
        if fraction > 0 {
            let digits = format!("{fraction:0width$}", width = usize::from(self.decimals.0));
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

impl Serialize for ShownScore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.decimals.0 == 0 {
            // Usually it is an `i64`, which is written faster.
            return match i64::try_from(self.scaled) {
                Ok(scaled) => serializer.serialize_i64(scaled),
                Err(_) => serializer.serialize_i128(self.scaled),
            };
        }
        RawValue::from_string(self.to_string())
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

/// Parses a response. A double holds the digits of any score.
impl<'de> Deserialize<'de> for ShownScore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let text = match number.as_f64().filter(|_| number.is_f64()) {
            // Without an exponent.
            Some(float) => float.to_string(),
            None => number.to_string(),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let scaled = [whole, fraction].concat().parse();
        Ok(Self {
            scaled: scaled.map_err(D::Error::custom)?,
            decimals: Decimals::try_from(fraction.len() as u64).map_err(D::Error::custom)?,
        })
    }
}

/// A bound of scores in a definition, independent of the board's decimals. Its text is exact.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bound(ShownScore);

impl Bound {
    /// The bound as a score of a board with these decimals.
    pub fn score(self, decimals: Decimals) -> Result<Score, ScoreError> {
        Score::parse(&self.0.to_string(), decimals)
    }
}

impl From<Score> for Bound {
    fn from(whole: Score) -> Self {
        Self(whole.shown(Decimals(0)))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let bound = (0..=DECIMALS_MAX).map(Decimals).find_map(|decimals| {
            let score = Score::parse(text.get(), decimals).ok()?;
            Some(Self(score.shown(decimals)))
        });
        bound.ok_or_else(|| {
            D::Error::custom("must be a whole number within ±(2^53 − 1), or have up to 15 digits, at most 6 of them decimals")
        })
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A share between 0 and 1 with up to six decimals, applied exactly and rounded down.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ratio(i64);

const MILLION: i64 = 1_000_000;

impl Ratio {
    /// The ratio of this many millionths; `None` unless they are from 1 to 1,000,000.
    pub fn from_millionths(millionths: i64) -> Option<Self> {
        (1..=MILLION)
            .contains(&millionths)
            .then_some(Self(millionths))
    }

    /// The ratio in millionths, from 1 to 1,000,000.
    pub fn millionths(self) -> i64 {
        self.0
    }

    /// `floor(ratio · score)`, in scaled units; negative scores are rounded away from zero.
    pub fn of(self, score: Score) -> Score {
        let product = i128::from(score.0) * i128::from(self.0);
        let floor = product.div_euclid(i128::from(MILLION));
        // A ratio is at most 1, so the result is no larger than the score.
        Score(i64::try_from(floor).unwrap_or(score.0))
    }
}

/// Serialises numbers that are kept as a count of their smallest parts, such as millionths for 6 decimals. Other numbers
/// are refused with the given text.
macro_rules! serde_as_parts {
    ($type:ident, $decimals:literal, $allowed:expr, $refusal:literal) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::domain::score::read_parts(from, $decimals, $allowed, $refusal).map(Self)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::domain::score::write_parts(self.0, $decimals, to)
            }
        }
    };
}
pub(crate) use serde_as_parts;

serde_as_parts!(
    Ratio,
    6,
    1..=MILLION,
    "must be a number above 0 and up to 1, with at most 6 decimals"
);

/// Reads a number as a count of its smallest parts, such as millionths for 6 decimals. The error says `detail`.
pub(crate) fn read_parts<'de, D: Deserializer<'de>>(
    deserializer: D,
    decimals: u8,
    allowed: RangeInclusive<i64>,
    detail: &str,
) -> Result<i64, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let parts = Score::parse(text.get(), Decimals(decimals))
        .map(Score::scaled)
        .ok()
        .filter(|parts| allowed.contains(parts));
    parts.ok_or_else(|| D::Error::custom(detail))
}

/// Writes a number kept as a count of its smallest parts.
pub(crate) fn write_parts<S: Serializer>(
    parts: i64,
    decimals: u8,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Score(parts).shown(Decimals(decimals)).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, decimals: u8) -> Result<i64, ScoreError> {
        Score::parse(text, Decimals(decimals)).map(Score::scaled)
    }

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(parse("10", 0), Ok(10));
        assert_eq!(parse("-0", 0), Ok(0));
        assert_eq!(parse("1.0", 0), Ok(1));
        assert_eq!(parse("12.345", 3), Ok(12_345));
        assert_eq!(parse("0.1", 6), Ok(100_000));
        assert_eq!(parse("1.5e2", 0), Ok(150));
        assert_eq!(parse("150E-1", 0), Ok(15));
        assert_eq!(parse("0.000e99999999999999999999", 0), Ok(0));
        assert_eq!(parse("999999999.999999", 6), Ok(FRACTION_MAX));
        assert_eq!(parse("-99999999999999.9", 1), Ok(-FRACTION_MAX));
        assert_eq!(parse("-9007199254740991", 0), Ok(-SCORE_MAX));
        assert_eq!(parse("0000000000000000000000001e0", 0), Ok(1));
    }

    #[test]
    fn every_score_is_exact_in_a_double() {
        for digits in 0..=DECIMALS_MAX {
            let decimals = Decimals(digits);
            for below in 0..1_000 {
                let score = Score(decimals.score_max().0 - below);
                let text = score.shown(decimals).to_string();
                let double: f64 = text.parse().unwrap();
                assert_eq!(double.to_string(), text, "at {digits} decimals");
            }
        }
    }

    fn range(decimals: u8) -> ScoreError {
        let decimals = Decimals(decimals);
        ScoreError::Range {
            max: decimals.score_max().shown(decimals),
        }
    }

    #[test]
    fn scores_out_of_range_are_refused() {
        assert_eq!(
            parse("12.345", 0),
            Err(ScoreError::Decimals {
                found: 3,
                allowed: 0
            })
        );
        assert_eq!(
            parse("1e-7", 6),
            Err(ScoreError::Decimals {
                found: 7,
                allowed: 6
            })
        );
        assert_eq!(parse("9007199254740992", 0), Err(range(0)));
        assert_eq!(parse("9999999999999999", 0), Err(range(0)));
        assert_eq!(parse("1e999999999999999999999", 0), Err(range(0)));
        assert_eq!(parse("100000000000000", 1), Err(range(1)));
        assert_eq!(parse("1000000000", 6), Err(range(6)));
        assert_eq!(range(0).to_string(), "is beyond ±9007199254740991");
        assert_eq!(range(2).to_string(), "is beyond ±9999999999999.99");
        assert!(matches!(
            parse("1e-999999999999999999999", 0),
            Err(ScoreError::Decimals { .. })
        ));
        for text in [
            "", "-", ".5", "5.", "1e", "1e+", "+1", "0x1", "\"1\"", "null", "1.-2", "NaN",
        ] {
            assert_eq!(parse(text, 2), Err(ScoreError::Syntax), "{text:?}");
        }
    }

    #[test]
    fn scores_are_shown_without_a_float() {
        let shown = |scaled, decimals| Score(scaled).shown(Decimals(decimals)).to_string();
        assert_eq!(shown(-5, 1), "-0.5");
        assert_eq!(shown(150, 2), "1.5");
        assert_eq!(shown(200, 2), "2");
        assert_eq!(shown(SCORE_MAX, 6), "9007199254.740991");
        let json = |scaled, decimals| {
            serde_json::to_string(&Score(scaled).shown(Decimals(decimals))).unwrap()
        };
        assert_eq!(json(SCORE_MAX, 6), "9007199254.740991");
        assert_eq!(json(-7, 0), "-7");
    }

    #[test]
    fn a_shown_score_is_read_digit_by_digit() {
        for (scaled, decimals) in [
            (0, 0),
            (1, 6),
            (-50, 2),
            (2 * i128::from(FRACTION_MAX), 1),
            (-i128::from(FRACTION_MAX), 6),
            (i128::from(SCORE_MAX), 0),
        ] {
            let shown = ShownScore::sum(scaled, Decimals(decimals));
            let json = serde_json::to_string(&shown).unwrap();
            let read: ShownScore = serde_json::from_str(&json).unwrap();
            assert_eq!(read.to_string(), json);
        }
    }

    #[test]
    fn bounds_are_exact_whatever_the_decimals() {
        let bound: Bound = serde_json::from_str("-1.50").unwrap();
        assert_eq!(bound.score(Decimals(3)), Ok(Score(-1500)));
        assert!(matches!(
            bound.score(Decimals(0)),
            Err(ScoreError::Decimals { .. })
        ));
        assert_eq!(serde_json::to_string(&bound).unwrap(), "-1.5");
        let largest: Bound = serde_json::from_str("9007199254740991").unwrap();
        assert_eq!(largest.score(Decimals(0)), Ok(Score(SCORE_MAX)));
        assert!(matches!(
            largest.score(Decimals(1)),
            Err(ScoreError::Range { .. })
        ));
        for bad in ["9007199254740992", "0.0000001", "\"1\"", "true"] {
            assert!(serde_json::from_str::<Bound>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ratios_are_exact_and_round_down() {
        let ratio: Ratio = serde_json::from_str("0.29").unwrap();
        assert_eq!(
            ratio.of(Score(100)),
            Score(29),
            "a float would give 28.999…"
        );
        assert_eq!(ratio.of(Score(-1)), Score(-1));
        assert_eq!(ratio.of(Score(1)), Score(0));
        assert_eq!(serde_json::to_string(&ratio).unwrap(), "0.29");
        assert_eq!(
            serde_json::from_str::<Ratio>("1")
                .unwrap()
                .of(Score(SCORE_MAX)),
            Score(SCORE_MAX)
        );
        for bad in ["0", "-0.1", "1.000001", "0.0000001", "\"0.2\""] {
            assert!(serde_json::from_str::<Ratio>(bad).is_err(), "{bad}");
        }
    }
}
