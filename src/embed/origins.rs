//! The origins whose pages may show boards in a frame.

use std::fmt;
use std::str::FromStr;

use axum::http::HeaderValue;

use crate::http::cors::{CorsOrigins, NULL, OriginError};

/// The origins whose pages may show public boards in a frame.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum EmbedOrigins {
    /// All: what is shown is public, and nothing in it can be clicked.
    #[default]
    All,
    /// Those of these origins.
    Listed(Vec<HeaderValue>),
    None,
}

impl FromStr for EmbedOrigins {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text.trim() == "none" {
            return Ok(Self::None);
        }
        Ok(match text.parse()? {
            origins if origins.lists_null() => return Err(OriginError::Form(NULL.to_owned())),
            CorsOrigins::None | CorsOrigins::All => Self::All,
            CorsOrigins::Listed(origins) => Self::Listed(origins),
        })
    }
}

/// In the form of `frame-ancestors`.
impl fmt::Display for EmbedOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::None => f.write_str("'none'"),
            Self::Listed(origins) => {
                f.write_str("'self'")?;
                origins
                    .iter()
                    .filter_map(|origin| origin.to_str().ok())
                    .try_for_each(|origin| write!(f, " {origin}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_follow_the_syntax_of_a_policy() {
        for (text, ancestors) in [
            ("*", "*"),
            ("", "*"),
            ("none", "'none'"),
            (
                "https://a.example, http://localhost:3000",
                "'self' https://a.example http://localhost:3000",
            ),
        ] {
            let origins: EmbedOrigins = text.parse().unwrap();
            assert_eq!(origins.to_string(), ancestors);
        }
        for wrong in [
            "a.example",
            "none,https://a.example",
            "*,https://a.example",
            "https://a.example/;script-src *",
            "null",
        ] {
            assert!(wrong.parse::<EmbedOrigins>().is_err(), "{wrong}");
        }
    }
}
