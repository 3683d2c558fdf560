//! Display names of members: which texts are valid, and how names are compared.

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
/// The longest text that is parsed, in bytes: a valid name is shorter in any encoding.
const TEXT_BYTES_MAX: usize = 2 << 10;
/// How many combining marks may follow each other (UTS 39, 5.4).
const MARKS_MAX: usize = 4;
/// Joins two emoji into one.
const JOINER: char = '\u{200d}';
/// After an emoji they select how it is drawn: as text, or in colour.
const SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];
/// The Braille pattern without dots, which is invisible.
const BLANK: char = '\u{2800}';
/// The starts of alphabets from A to Z without compatible characters (NFKC): white letters in black circles and squares,
/// and the letters that flags are made of.
const ALPHABETS: [u32; 3] = [0x1f150, 0x1f170, 0x1f1e6];
/// Other substitutes for Latin letters that are neither compatible nor confusable (UTS 39) with only these: small capitals,
/// letters of other scripts, signs.
const DRAWN: &[(char, &str)] = &[
    ('a', "ᴀᗩΛλɅΔ₳ɐ"),
    ('b', "ʙƅ฿"),
    ('c', "ᑕ₵©"),
    ('d', "ᴅ∂"),
    ('e', "ᴇǝɜεꞓꞒΣƩξΞэЭ"),
    ('f', "ꜰ₣"),
    ('g', "ɢᘜ₲"),
    ('h', "ʜɥ"),
    ('i', "ɪ"),
    ('j', "ᴊ"),
    ('k', "ᴋĸʞ"),
    ('l', "ʟ£"),
    ('m', "ᴍʍ"),
    ('n', "ɴᑎՈπΠᴎИ₦"),
    ('o', "ᴏ"),
    ('p', "ᴘ₱"),
    ('q', "ꞯᑫ"),
    ('r', "ʀᴙЯɹ®"),
    ('s', "ꜱᔕƨ"),
    ('t', "ᴛʇ"),
    ('u', "ᴜцЦ"),
    ('w', "ШѠѡω"),
    ('y', "ʏ"),
    ('z', "ᴢᘔ"),
];
/// Digits and signs written for letters, and those letters.
const LEET: [&str; 2] = ["0123456789@$!|", "oizeasgtbgasii"];

/// Why a text is not a valid name.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum NameError {
    /// It is empty, or only spaces.
    #[error("must have at least one visible character")]
    Empty,
    /// It is too long.
    #[error("must have at most {NAME_CHARS_MAX} characters")]
    Long,
    /// It has a character that is invisible, or changes how others are shown.
    #[error(
        "must not have control characters, invisible characters, characters that change the direction of text, or characters that Unicode has not assigned; U+{0:04X} is one"
    )]
    Invisible(u32),
    /// It has too many combining marks in a row.
    #[error("must have at most {MARKS_MAX} combining marks in a row")]
    Marks,
}

/// A name as it is stored and shown: in NFC, trimmed, and with single spaces.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Parses a name. Trims spaces, and collapses inner ones.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(NameError::Long);
        }
        let normalized = ComposingNormalizerBorrowed::new_nfc().normalize(text);
        let name = normalized
            .split(is_space)
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        check(&name)?;
        Ok(Self(name))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The forms that patterns are matched against: case-folded with compatible characters (NFKC) unified; with lookalikes
    /// of Latin letters replaced; as the skeleton that all lookalike names share (UTS 39); and with digits and signs
    /// replaced by the letters that they stand for. Each with and without characters that are neither letters nor digits.
    pub fn forms(&self) -> Vec<String> {
        let compatible = ComposingNormalizerBorrowed::new_nfkc().normalize(&self.0);
        let folded = fold(&compatible);
        // A capital may look like a different letter than its small one.
        let (small, great) = (latin(&folded, is_mark), fold(&latin(&compatible, is_mark)));
        let mut forms: Vec<String> = [
            without_digits(&small, 'i'),
            without_digits(&small, 'l'),
            without_digits(&great, 'i'),
            without_digits(&great, 'l'),
            small,
            great,
            skeleton(&compatible),
            folded,
        ]
        .into_iter()
        .flat_map(|form| [bare(&form), form])
        .collect();
        forms.sort_unstable();
        forms.dedup();
        forms
    }

    /// A key shared by names that people take for the same, regardless of accents, digits and letters of other scripts.
    pub fn likeness(&self) -> String {
        let compatible = ComposingNormalizerBorrowed::new_nfkc().normalize(&self.0);
        let letters = without_digits(&fold(&latin(&compatible, is_accent)), 'i');
        // Capitals resemble other letters than small ones do: `I` resembles `l`, `m` resembles `rn`.
        let of_great = skeleton(&letters.to_uppercase());
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

/// Whether it is a mark that any letter may have. Words of scripts such as those of India or Thailand change without their
/// own marks.
pub(super) fn is_accent(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

/// Whether a character is invisible by itself, or its appearance is undefined.
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
    let is_shown = characters.iter().any(shows);
    is_shown.then_some(()).ok_or(NameError::Empty)
}

/// Whether an invisible character is part of an emoji: a selector after one, or a joiner between two.
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

/// The text, case-folded.
pub(super) fn fold(text: &str) -> String {
    let folded = CaseMapper::new().fold_string(text);
    // Folding may leave a text that is not in its normal form.
    let normalizer = ComposingNormalizerBorrowed::new_nfkc();
    normalizer.normalize(&folded).into_owned()
}

/// The text with characters replaced by the Latin letters and digits that they resemble, without certain marks.
fn latin(text: &str, is_dropped: impl Fn(char) -> bool) -> String {
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(text);
    let characters = decomposed.chars().filter(|one| !is_dropped(*one));
    let mut latin = String::with_capacity(decomposed.len());
    for character in characters {
        let letter = drawn(character);
        if letter.is_ascii() {
            latin.push(letter);
            continue;
        }
        let mut bytes = [0; 4];
        let looks = unicode_security::skeleton(character.encode_utf8(&mut bytes))
            .filter(|one| !is_mark(*one))
            .map(drawn)
            .collect::<String>();
        match &*looks {
            // All strokes share the small letter.
            "l" if character.is_uppercase() => latin.push('I'),
            looks if !looks.is_empty() && looks.is_ascii() => latin.push_str(looks),
            _ => latin.push(character),
        }
    }
    latin
}

/// The Latin letter that a character stands for; the character itself if there is none.
fn drawn(character: char) -> char {
    let of_alphabet = ALPHABETS.iter().find_map(|first| {
        let place = u32::from(character).checked_sub(*first)?;
        let letter = u8::try_from(place).ok().filter(|place| *place < 26)?;
        Some(char::from(b'a' + letter))
    });
    let is_drawn = |(_, drawn): &&(char, &str)| drawn.contains(character);
    let of_letters = || DRAWN.iter().find(is_drawn).map(|(letter, _)| *letter);
    of_alphabet.or_else(of_letters).unwrap_or(character)
}

/// The text with digits and signs replaced by the letters that they stand for, and words of letters and digits only. A
/// character that may stand for i or l becomes `stroke`. Several digits at the end of a word are a number.
fn without_digits(text: &str, stroke: char) -> String {
    let letter_of = |character: char| {
        let (_, letter) = LEET[0]
            .chars()
            .zip(LEET[1].chars())
            .find(|(written, _)| *written == character)?;
        Some(if letter == 'i' { stroke } else { letter })
    };
    let is_kept = |one: &char| one.is_alphanumeric() || letter_of(*one).is_some();
    let mut words = Vec::new();
    for word in text.split(' ') {
        let characters: String = word.chars().filter(is_kept).collect();
        let start = characters.trim_end_matches(|one: char| one.is_ascii_digit());
        let (start, end) = characters.split_at(start.len());
        let (written, number) = if end.len() > 1 {
            (start, end)
        } else {
            (&*characters, "")
        };
        let letters = written.chars().map(|one| letter_of(one).unwrap_or(one));
        words.push(letters.chain(number.chars()).collect::<String>());
    }
    words.join(" ")
}

/// The folded skeleton that all lookalike texts share (UTS 39).
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
    fn invisible_characters_are_refused() {
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
    fn a_name_is_bounded() {
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
    fn lookalike_names_share_a_form() {
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
            "ᴀᴅᴍɪɴ",
            "🅰dmin",
            "🅐🅓🅜🅘🅝",
            "🄰🄳🄼🄸🄽",
            "🇦🇩🇲🇮🇳",
            "ᗩᗪᗰIᑎ",
            "аԁmіп", // Cyrillic
            "@dmin",
            "4dmin",
            "4dm1n",
            "ΛDMIИ",
            "ađmin",
            "@ d m ! n",
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
        for text in ["Ánn", "4nn", "@NN", "ᴀɴɴ", "Апп", "🅰nn"] {
            assert_eq!(likeness("Ann"), likeness(text), "{text}");
        }
        assert_ne!(likeness("कम"), likeness("काम"), "another word");
        assert_ne!(likeness("мама"), likeness("дама"));
        // Numbers stay numbers.
        assert_eq!(likeness("b1ll"), likeness("bill"));
        assert_ne!(likeness("ann55"), likeness("annss"));
        assert_ne!(likeness("455"), likeness("ass"));
    }
}
