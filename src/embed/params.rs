//! What the address of a page asks for.

use serde::{Deserialize, Deserializer, de};

use super::colours::Colours;
use super::languages::Chosen;

/// The longest form of a noun, in characters.
const NOUN_MAX: usize = 40;

/// What the page shows, and how.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    pub(super) size: Option<u64>,
    /// In a league, the cohort.
    #[serde(default)]
    pub(super) cohort: String,
    #[serde(default, rename = "lang")]
    pub(super) language: Chosen,
    #[serde(default)]
    pub(super) theme: Theme,
    pub(super) noun: Option<Noun>,
    #[serde(flatten)]
    pub(super) colours: Colours,
}

/// Whether the page is light or dark.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Theme {
    Light,
    Dark,
    /// As the viewer's system is.
    #[default]
    Auto,
}

impl Theme {
    /// The value of `color-scheme`.
    pub(super) fn color_scheme(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
            Self::Auto => "light dark",
        }
    }
}

/// What the members are called: after 1, and after other numbers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Noun(pub(super) String, pub(super) String);

impl<'de> Deserialize<'de> for Noun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (one, many) = text.split_once(',').unwrap_or((&text, &text));
        let forms = [one, many].map(|form| form.trim().to_owned());
        let is_noun = |form: &String| (1..=NOUN_MAX).contains(&form.chars().count());
        if !forms.iter().all(is_noun) {
            let wrong = "must be a word such as `songs`, or two such as `song,songs`, each with up to 40 characters";
            return Err(de::Error::custom(wrong));
        }
        let [one, many] = forms;
        Ok(Self(one, many))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_has_one_form_or_two() {
        let noun = |text: &str| serde_json::from_value::<Noun>(text.into()).ok();
        let forms = |one: &str, many: &str| Some(Noun(one.into(), many.into()));
        assert_eq!(noun("songs"), forms("songs", "songs"));
        assert_eq!(noun("song, songs"), forms("song", "songs"));
        for wrong in ["", ",", "song,", &"x".repeat(41)] {
            assert_eq!(noun(wrong), None, "{wrong}");
        }
    }
}
