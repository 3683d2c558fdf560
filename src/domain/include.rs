//! What entries can have in addition to scores: the words of the parameter `include`.

use utoipa::ToSchema;

use super::texts::words;

words! {
    /// An additional field of entries.
    #[derive(Ord, PartialOrd, ToSchema)]
    pub enum Include {
        /// The profile of the member: its name, its picture and its attributes.
        Profile = "profile",
        /// The data of the event that gave the entry its time.
        Data = "data",
    }
}

/// A set of these words.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Includes(u8);

impl Includes {
    /// The number of possible sets.
    pub const SETS: usize = 1 << Include::ALL.len();

    /// All of them.
    pub fn all() -> Self {
        Include::ALL.into_iter().collect()
    }

    /// Parses words separated by commas. The error names an invalid one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let word = |name: &str| {
            Include::named(name).ok_or_else(|| {
                let name: String = name.chars().take(64).collect();
                let known = Include::ALL.map(Include::name).join(", ");
                format!("{name:?} is not one of: {known}")
            })
        };
        text.split(',').map(word).collect()
    }

    /// Whether it contains this word.
    pub const fn has(self, include: Include) -> bool {
        self.0 & 1 << include as u8 != 0
    }

    /// The set without the words of another.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The words of the set.
    pub fn words(self) -> impl Iterator<Item = Include> {
        Include::ALL.into_iter().filter(move |word| self.has(*word))
    }

    /// The index of the set among all [`Includes::SETS`] sets.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl FromIterator<Include> for Includes {
    fn from_iter<T: IntoIterator<Item = Include>>(words: T) -> Self {
        let words = words.into_iter();
        Self(words.fold(0, |bits, word| bits | 1 << word as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_a_wrong_one_is_named() {
        let profile = Includes::from_iter([Include::Profile]);
        for text in ["profile", "profile,profile"] {
            assert_eq!(Includes::parse(text), Ok(profile), "{text}");
        }
        for (text, named) in [
            ("", "\"\""),
            ("profile,", "\"\""),
            ("Profile", "\"Profile\""),
            ("name", "\"name\""),
        ] {
            let error = Includes::parse(text).unwrap_err();
            assert!(error.starts_with(named), "{error}");
        }
    }

    #[test]
    fn a_set_contains_its_words() {
        let all = Includes::all();
        assert!(all.words().eq(Include::ALL.iter().copied()));
        assert_eq!(all.index(), Includes::SETS - 1);
        assert!(all.without(all).is_empty());
        assert_eq!(all.without(Includes::default()), all);
        for word in Include::ALL {
            let json = serde_json::to_value(word).unwrap();
            assert_eq!(json, word.name());
        }
    }
}
