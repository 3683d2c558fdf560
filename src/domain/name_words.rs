//! The words of names. Moderators find members with them.

use icu_normalizer::DecomposingNormalizerBorrowed;

use super::ids::NAME_BYTES_MAX;
use super::name::{NAME_CHARS_MAX, Name, fold, is_accent};

/// How many words of a name are in the index.
const WORDS_MAX: usize = 4;
/// How many bytes of a word are in the index.
const WORD_BYTES_MAX: usize = 16;
/// What separates a word from the member, and a line from the next one.
const SIGNS: usize = 2;
/// How many bytes the words of a member take in the index, each with the member's id: one word with the longest id. With what
/// blocks and entries add (`scripts/lib/name_words.lua`), a member takes at most 200 bytes of Redis.
const MEMBER_BYTES_MAX: usize = NAME_BYTES_MAX + WORD_BYTES_MAX + SIGNS;

/// The words of a text in the form in which they are compared: without differences of case, accents and compatible
/// characters. Spaces and ASCII punctuation separate words.
fn words_of(text: &str) -> Vec<String> {
    let decomposed = DecomposingNormalizerBorrowed::new_nfkd().normalize(text);
    let plain: String = decomposed.chars().filter(|one| !is_accent(*one)).collect();
    fold(&plain)
        .split(|one: char| one.is_whitespace() || one.is_ascii_punctuation())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The beginning of a word that the index has.
fn beginning(word: &str) -> &str {
    &word[..word.floor_char_boundary(WORD_BYTES_MAX)]
}

/// The words of a name that the index has for a member. A word that another one begins with is left out: who looks for it
/// finds the member by the other one.
pub fn indexed_words(name: &str, member: &str) -> Vec<String> {
    let all = words_of(name);
    let mut words: Vec<String> = Vec::new();
    let mut left = MEMBER_BYTES_MAX;
    for (place, word) in all.iter().enumerate() {
        let word = beginning(word);
        let is_in = |(other, longer): (usize, &String)| {
            let longer = beginning(longer);
            longer.starts_with(word) && (longer.len() > word.len() || other < place)
        };
        let bytes = word.len() + member.len() + SIGNS;
        if bytes <= left && words.len() < WORDS_MAX && !all.iter().enumerate().any(is_in) {
            left -= bytes;
            words.push(word.to_owned());
        }
    }
    words
}

/// What a moderator looks for: the beginnings of words of a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameQuery(Vec<String>);

impl NameQuery {
    /// Parses it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > NAME_CHARS_MAX {
            return Err(format!("must have at most {NAME_CHARS_MAX} characters"));
        }
        let words = words_of(text);
        if words.is_empty() {
            return Err("must have a letter, a digit or another character of a word".to_owned());
        }
        Ok(Self(words))
    }

    /// The beginning of a word to look up in the index: the longest one, which the fewest members have.
    pub fn looked_up(&self) -> &str {
        let longest = self.0.iter().max_by_key(|word| word.len());
        beginning(longest.map_or("", String::as_str))
    }

    /// Whether each of the words begins a word of this name.
    pub fn matches(&self, name: &Name) -> bool {
        let words = words_of(name.as_str());
        let begins = |sought: &String| words.iter().any(|word| word.starts_with(sought));
        self.0.iter().all(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_without_case_accents_and_compatible_characters() {
        for (name, words) in [
            ("Ann Smith", "ann smith"),
            ("Müller-Lüdenscheidt", "muller ludenscheidt"),
            ("O'Neil (bot)", "o neil bot"),
            ("xX_Foo_Xx", "xx foo"),
            ("ＡＤＭＩＮ ﬁx", "admin fix"),
            ("STRASSE straße", "strasse"),
            ("Ann Anna ANN", "anna"),
            ("Иванов Йод", "иванов иод"),
            ("ΌΔΥΣΣΕΎΣ", "οδυσσευσ"),
            ("한국 が", "한국 が"),
            ("🦊 fox", "🦊 fox"),
            ("राजा", "राजा"),
            ("one two three four five", "one two three four"),
            ("...", ""),
        ] {
            assert_eq!(indexed_words(name, "m").join(" "), words, "{name}");
        }
    }

    #[test]
    fn a_member_has_few_bytes_in_the_index() {
        for (name, member, words) in [
            ("a".repeat(64), "m".to_owned(), vec!["a".repeat(16)]),
            ("é".repeat(64), "m".to_owned(), vec!["e".repeat(16)]),
            ("東".repeat(64), "m".to_owned(), vec!["東".repeat(5)]),
            (
                "ab cd ef gh".to_owned(),
                "m".repeat(36),
                vec!["ab".into(), "cd".into(), "ef".into()],
            ),
            ("abcd efgh".to_owned(), "m".repeat(128), vec!["abcd".into()]),
        ] {
            assert_eq!(indexed_words(&name, &member), words, "{name}");
        }
        for bytes in 1..=128 {
            let member = "m".repeat(bytes);
            let words = indexed_words("abcdefghijklmnopqrs bcdef cdefg defgh efghij", &member);
            let all: usize = words.iter().map(|word| word.len() + bytes + SIGNS).sum();
            assert!(
                words[0].len() == WORD_BYTES_MAX && all <= MEMBER_BYTES_MAX,
                "{bytes}"
            );
        }
    }

    #[test]
    fn each_word_of_a_query_begins_a_word_of_the_name() {
        let name = Name::parse("Zoë van der Linden").unwrap();
        for (text, matches) in [
            ("zoe", true),
            ("ZO", true),
            ("lin zoë", true),
            ("Zoë van der Linden", true),
            ("der l", true),
            ("oe", false),
            ("zoe x", false),
            ("zoe-v", true),
        ] {
            let query = NameQuery::parse(text).unwrap();
            assert_eq!(query.matches(&name), matches, "{text}");
        }
        assert_eq!(NameQuery::parse("an linden").unwrap().looked_up(), "linden");
        for wrong in ["", "  ", "-", &"a".repeat(65)] {
            NameQuery::parse(wrong).unwrap_err();
        }
    }
}
