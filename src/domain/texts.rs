//! Macros for types that are text in JSON and in Redis.

/// Declares an enum whose values have names, which JSON and stored data use.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident {
            $($(#[$of_word:meta])* $word:ident = $name:tt,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, serde::Deserialize, Eq, PartialEq, serde::Serialize)]
        pub enum $type {
            $($(#[$of_word])* #[serde(rename = $name)] $word,)+
        }

        impl $type {
            /// All of them, in the order of declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$word),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$word => $name,)+
                }
            }

            /// The value with this name, if any.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// Declares a text that has passed a check, such as an id. The check may trim the text.
macro_rules! checked_text {
    ($(#[$attribute:meta])* $type:ident, $check:expr, $error:ty) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize)]
        #[serde(transparent)]
        pub struct $type(std::sync::Arc<str>);

        impl $type {
            /// Checks a text.
            ///
            /// # Errors
            /// It breaks the rules of the type.
            pub fn parse(text: &str) -> Result<Self, $error> {
                let check: fn(&str) -> Result<&str, $error> = $check;
                check(text).map(|checked| Self(checked.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(from)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Serialises types in JSON as the text that they display and parse.
macro_rules! serde_as_text {
    ($($type:ty),+) => {
        $(
            impl serde::Serialize for $type {
                fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    to.collect_str(self)
                }
            }

            impl<'de> serde::Deserialize<'de> for $type {
                fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    let text = <String as serde::Deserialize>::deserialize(from)?;
                    text.parse().map_err(serde::de::Error::custom)
                }
            }
        )+
    };
}

/// Gives types a text of their fields separated by spaces; each field is followed by its parser.
macro_rules! fields_as_text {
    ($type:ident { $($field:ident: $read:expr,)+ }) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&[$(self.$field.to_string()),+].join(" "))
            }
        }

        impl std::str::FromStr for $type {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                let mut parts = text.split(' ');
                let read = Self { $($field: parts.next().and_then($read).ok_or(())?,)+ };
                parts.next().is_none().then_some(read).ok_or(())
            }
        }
    };
}

pub(crate) use {checked_text, fields_as_text, serde_as_text, words};
