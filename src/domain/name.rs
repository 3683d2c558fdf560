//! Names that people give themselves: which texts are one, and as what they are compared.

use std::fmt;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::props::{
    DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic, GeneralCategory,
};
use icu_properties::{CodePointMapData, CodePointSetData};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest name, in characters (Unicode scalar values).
pub const NAME_CHARS_MAX: usize = 64;
/// The longest text that is looked at, in bytes: a name is shorter than that however it is written.
const TEXT_BYTES_MAX: usize = 2 << 10;
/// How many combining marks may follow each other (UTS 39, 5.4).
const MARKS_MAX: usize = 4;
/// Between emoji it makes one of two.
const JOINER: char = '\u{200d}';
/// Behind an emoji it says how that is drawn: as text, in colour.
const SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];
/// A letter of Braille without a dot, which shows nothing.
const BLANK: char = '\u{2800}';

/// Why a text is no name.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum NameError {
    /// It is empty, or has nothing but spaces.
    #[error("a name has at least one character that shows")]
    Empty,
    /// It is too long.
    #[error("a name has up to {NAME_CHARS_MAX} characters")]
    Long,
    /// It has a character that shows nothing, or changes how others are shown.
    #[error(
        "a name has no control characters, no characters that show nothing or turn the direction of text, and none that Unicode has not assigned; U+{0:04X} is one"
    )]
    Invisible(u32),
    /// It has too many combining marks in a row.
    #[error("a name has up to {MARKS_MAX} combining marks in a row")]
    Marks,
}

/// A name as it is stored and shown: in NFC, trimmed, and with single spaces.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Reads a name. Spaces at its ends go, and those in it become single ones.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(NameError::Long);
        }
        let normalized = ComposingNormalizerBorrowed::new_nfc().normalize(text);
        let words = normalized.split(is_space).filter(|word| !word.is_empty());
        let name = words.collect::<Vec<_>>().join(" ");
        check(&name)?;
        Ok(Self(name))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The forms in which a pattern looks for it: without a difference between capitals and small letters and between
    /// compatible characters (NFKC); the same with characters that look like Latin letters as these; the same as the
    /// skeleton that all names have which look alike (UTS 39). Each comes with and without what is no letter and no digit.
    pub fn forms(&self) -> Vec<String> {
        let compatible = ComposingNormalizerBorrowed::new_nfkc().normalize(&self.0);
        let folded = fold(&compatible);
        let forms = [
            latin(&folded),
            // A capital may look like another letter than the small one does.
            fold(&latin(&compatible)),
            skeleton(&compatible),
            folded,
        ];
        let mut forms: Vec<String> = forms
            .into_iter()
            .flat_map(|form| [bare(&form), form])
            .collect();
        forms.sort_unstable();
        forms.dedup();
        forms
    }

    /// What it has in common with names that people take for the same.
    pub fn likeness(&self) -> String {
        let compatible = ComposingNormalizerBorrowed::new_nfkc().normalize(&self.0);
        // Great letters look like others than small ones do: `I` like `l`, `m` like `rn`.
        let of_great = skeleton(&compatible.to_uppercase());
        bare(&skeleton(&of_great))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn category(character: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(character)
}

/// A space of any width, but no line break.
fn is_space(character: char) -> bool {
    category(character) == GeneralCategory::SpaceSeparator
}

fn is_mark(character: char) -> bool {
    matches!(
        category(character),
        GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
    )
}

/// Whether a character shows nothing by itself, or nobody knows what it shows.
fn is_invisible(character: char) -> bool {
    use GeneralCategory as G;
    let is_kind = matches!(
        category(character),
        G::Control
            | G::Format
            | G::LineSeparator
            | G::ParagraphSeparator
            | G::PrivateUse
            | G::Surrogate
            | G::Unassigned
    );
    let is_ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character);
    is_kind || is_ignorable || character == BLANK
}

fn check(name: &str) -> Result<(), NameError> {
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(NameError::Long);
    }
    let characters: Vec<char> = name.chars().collect();
    let mut marks = 0;
    for (place, character) in characters.iter().enumerate() {
        if is_invisible(*character) && !belongs_to_emoji(&characters, place) {
            return Err(NameError::Invisible((*character).into()));
        }
        marks = if is_mark(*character) { marks + 1 } else { 0 };
        if marks > MARKS_MAX {
            return Err(NameError::Marks);
        }
    }
    let shows = |character: &char| !is_space(*character) && !is_mark(*character);
    if characters.iter().any(shows) {
        Ok(())
    } else {
        Err(NameError::Empty)
    }
}

/// Whether what shows nothing by itself is a part of an emoji: a selector behind one, or a joiner between two.
fn belongs_to_emoji(characters: &[char], place: usize) -> bool {
    let is_pictograph = |character: &char| {
        let pictographs = CodePointSetData::new::<ExtendedPictographic>();
        pictographs.contains(*character)
    };
    let before = &characters[..place];
    match characters[place] {
        JOINER => {
            let modifiers = CodePointSetData::new::<EmojiModifier>();
            let is_part = |character: &&char| {
                SELECTORS.contains(character) || modifiers.contains(**character)
            };
            let joined = before.iter().rev().find(|character| !is_part(character));
            let next = characters.get(place + 1);
            joined.is_some_and(is_pictograph) && next.is_some_and(is_pictograph)
        }
        selector if SELECTORS.contains(&selector) => {
            let emoji = CodePointSetData::new::<Emoji>();
            before.last().is_some_and(|last| emoji.contains(*last))
        }
        _ => false,
    }
}

/// The same without a difference between capitals and small letters.
fn fold(text: &str) -> String {
    let folded = CaseMapper::new().fold_string(text);
    // Folding may leave a text that is not in its normal form.
    let normalizer = ComposingNormalizerBorrowed::new_nfkc();
    normalizer.normalize(&folded).into_owned()
}

/// The same with the Latin letters and digits that others look like, and without marks.
fn latin(text: &str) -> String {
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(text);
    let characters = decomposed.chars().filter(|one| !is_mark(*one));
    let mut latin = String::with_capacity(decomposed.len());
    for character in characters {
        let mut bytes = [0; 4];
        let alone: &str = character.encode_utf8(&mut bytes);
        let looks: String = unicode_security::skeleton(alone).collect();
        latin.push_str(match &*looks {
            _ if alone.is_ascii() => alone,
            // All strokes have the small letter in common.
            "l" if character.is_uppercase() => "I",
            looks if !looks.is_empty() && looks.is_ascii() => looks,
            _ => alone,
        });
    }
    latin
}

/// What all texts have in common that look alike (UTS 39), folded.
fn skeleton(text: &str) -> String {
    let skeleton: String = unicode_security::skeleton(text).collect();
    fold(&skeleton)
}

/// The letters and digits of a text.
fn bare(text: &str) -> String {
    let is_kept = |character: &char| character.is_alphanumeric();
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<String, NameError> {
        Name::parse(text).map(|name| name.to_string())
    }

    #[test]
    fn a_name_may_be_in_any_script() {
        for text in [
            "Ann",
            "O'Neill-Smith 3rd",
            "Dvořák",
            "Ελένη",
            "Владимир",
            "محمد علي",
            "דָּוִד",
            "山田 太郎",
            "김민준",
            "สมชาย",
            "राम",
            "Nguyễn Thị Ánh",
            "!!!",
            "★",
        ] {
            assert_eq!(name(text).as_deref(), Ok(text), "{text}");
        }
    }

    #[test]
    fn emoji_stay_whole() {
        for text in [
            "😀",
            "❤\u{fe0f}",
            "👩\u{200d}🚀",
            "👩🏽\u{200d}🚀",
            "🏳\u{fe0f}\u{200d}🌈",
            "1\u{fe0f}\u{20e3}",
            "🇩🇪",
            "👨\u{200d}👩\u{200d}👧",
        ] {
            assert_eq!(name(text).as_deref(), Ok(text), "{text}");
        }
        for text in ["a\u{200d}b", "😀\u{200d}", "\u{200d}😀", "a\u{fe0f}"] {
            assert!(
                matches!(name(text), Err(NameError::Invisible(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_name_has_one_spelling() {
        assert_eq!(name("  Ann\u{a0}\u{3000} B. ").as_deref(), Ok("Ann B."));
        assert_eq!(name("e\u{301}").as_deref(), Ok("é"));
        assert_eq!(
            name(&format!("{}e\u{301}", "a".repeat(63)))
                .unwrap()
                .chars()
                .count(),
            64
        );
    }

    #[test]
    fn what_does_not_show_is_refused() {
        for character in [
            '\0',
            '\n',
            '\t',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{2800}',
            '\u{3164}',
            '\u{e000}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{ffff}',
            '\u{e0041}',
            '\u{e0100}',
            '\u{378}',
        ] {
            let refused = Err(NameError::Invisible(character.into()));
            assert_eq!(name(&format!("a{character}b")), refused);
        }
        for text in ["", " ", "\u{3000}\u{a0}", "\u{301}"] {
            assert_eq!(name(text), Err(NameError::Empty), "{text:?}");
        }
    }

    #[test]
    fn a_name_is_short() {
        assert!(name(&"é".repeat(64)).is_ok());
        assert!(name(&"😀".repeat(64)).is_ok());
        assert_eq!(name(&"a".repeat(65)), Err(NameError::Long));
        assert_eq!(name(&"a".repeat(100 << 10)), Err(NameError::Long));
        assert_eq!(
            name(&format!("a{}", "\u{300}".repeat(6))),
            Err(NameError::Marks)
        );
    }

    #[test]
    fn names_that_look_alike_have_a_form_in_common() {
        for text in [
            "admin",
            "ADMIN",
            "Admin",
            "аdmіn",      // Cyrillic а, і
            "АDМІN",      // Cyrillic capitals
            "ａｄｍｉｎ", // full width
            "𝓪𝓭𝓶𝓲𝓷",
            "a d m i n",
            "a.d-m_i*n",
            "ádmín",
            "ⓐⓓⓜⓘⓝ",
        ] {
            let forms = Name::parse(text).unwrap().forms();
            assert!(
                forms.iter().any(|form| form == "admin"),
                "{text}: {forms:?}"
            );
        }
        let likeness = |text: &str| Name::parse(text).unwrap().likeness();
        assert_eq!(likeness("PayPal"), likeness("Рау Раl"));
        assert_eq!(likeness("paypal"), likeness("paypaI"), "a capital i");
        assert_ne!(likeness("ann"), likeness("bob"));
    }
}
