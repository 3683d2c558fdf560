//! What caches may do with an answer.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::App;
use super::memory::{Taken, Written};
use super::problem::Problem;
use crate::domain::board::Board;
use crate::engine::reader::Rendered;

/// Who may keep an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Audience {
    /// Nobody: it shows more than readers may see.
    Nobody,
    /// Who has asked.
    Caller,
    /// Everybody, since there are no keys.
    Anybody,
    /// Everybody, without asking each time: the board is public.
    Public,
}

/// What caches may do with an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caching {
    audience: Audience,
    is_fixed: bool,
}

impl Caching {
    /// Of an answer about a board that may change at any time.
    pub(super) fn of(app: &App, board: &Board) -> Self {
        let audience = match (board.definition.public, app.is_open) {
            (true, _) => Audience::Public,
            (false, true) => Audience::Anybody,
            (false, false) => Audience::Caller,
        };
        Self {
            audience,
            is_fixed: false,
        }
    }

    /// Of one that shows more than readers may see, if it does.
    pub(super) fn restricted_if(self, is_restricted: bool) -> Self {
        let audience = if is_restricted {
            Audience::Nobody
        } else {
            self.audience
        };
        Self { audience, ..self }
    }

    /// Of one that no event can change any more, if that is so.
    pub(super) fn fixed_if(self, is_fixed: bool) -> Self {
        Self { is_fixed, ..self }
    }

    /// Never for long, since a board can still be deleted.
    fn rule(self) -> &'static str {
        match (self.audience, self.is_fixed) {
            (Audience::Nobody, _) => "private, no-store",
            (Audience::Caller, false) => "private, no-cache",
            (Audience::Caller, true) => "private, max-age=300",
            (Audience::Anybody, false) => "public, no-cache",
            (Audience::Anybody, true) => "public, max-age=300",
            (Audience::Public, false) => "public, max-age=1, stale-while-revalidate=5",
            (Audience::Public, true) => "public, max-age=60, stale-while-revalidate=300",
        }
    }
}

/// Writes an answer out, into the memory that was taken for it, and makes its entity tag.
pub(super) fn render<T: Serialize>(body: &T, taken: Taken) -> Result<Rendered, Problem> {
    let Written(body) = taken.write(body)?;
    Ok(Rendered {
        // Weak, since compression makes other bytes of the same content.
        tag: format!("W/\"{:032x}\"", xxh3_128(&body)),
        body,
    })
}

/// An answer that caches can check.
pub(super) fn cacheable(headers: &HeaderMap, caching: Caching, rendered: Rendered) -> Response {
    let Rendered { body, tag } = rendered;
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|known| known.trim() == "*" || opaque(known.trim()) == opaque(&tag));
    let validators = [
        (
            header::ETAG,
            HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("W/\"\"")),
        ),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static(caching.rule()),
        ),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, validators).into_response();
    }
    (validators, Written(body)).into_response()
}
