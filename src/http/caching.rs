//! What caches may do with an answer.
//!
//! The table of routes decides it ([`rule_answer`]), so that no route can forget it: answers that need more than `read` are not
//! kept, nor are answers that are valid only for a moment. The handler of a read may say more, by its board ([`Caching`]).

use axum::http::{HeaderValue, header};
use axum::response::Response;
use utoipa::IntoParams;

use super::App;
use crate::domain::access::Scope;
use crate::domain::board::Board;
use crate::domain::include::Includes;

/// The header of a read whose answers caches may keep. `tests/it/openapi/document.rs` describes such an answer.
#[expect(dead_code, reason = "it only describes the header")]
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct IfNoneMatch {
    /// The `ETag` of a response: if nothing has changed since, the response is 304
    #[param(rename = "If-None-Match", nullable)]
    if_none_match: Option<String>,
}

/// Which caches may keep an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Audience {
    /// No cache: it shows more than readers may see.
    Nobody,
    /// Only the caller's.
    Caller,
    /// Any cache, since there are no keys.
    Anybody,
    /// Any cache, without revalidating each time: the board is public.
    Public,
}

/// What caches may do with an answer.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    audience: Audience,
    is_fixed: bool,
}

impl Caching {
    /// For an answer about a board that may change at any time. What it includes may be less public than the board.
    pub(crate) fn of(app: &App, board: &Board, includes: Includes) -> Self {
        let definition = &board.definition;
        let is_for_all = includes.without(definition.public_includes()).is_empty();
        let mut caching = Self::of_read(app.is_open);
        if definition.public && is_for_all {
            caching.audience = Audience::Public;
        }
        caching
    }

    /// Keeps an answer out of caches if it shows more than readers may see.
    pub(crate) fn restricted_if(mut self, is_restricted: bool) -> Self {
        if is_restricted {
            self.audience = Audience::Nobody;
        }
        self
    }

    /// Lets caches keep an answer without revalidating if no event can change it any more.
    pub(crate) fn fixed_if(self, is_fixed: bool) -> Self {
        Self { is_fixed, ..self }
    }

    /// For a read whose handler does not set it.
    fn of_read(is_open: bool) -> Self {
        let audience = if is_open {
            Audience::Anybody
        } else {
            Audience::Caller
        };
        Self {
            audience,
            is_fixed: false,
        }
    }

    /// Never for more than six seconds: a hidden or erased member has to disappear from caches, too.
    pub(crate) fn rule(self) -> &'static str {
        match (self.audience, self.is_fixed) {
            (Audience::Nobody, _) => "private, no-store",
            (Audience::Caller, false) => "private, no-cache",
            (Audience::Caller, true) => "private, max-age=6",
            (Audience::Anybody, false) => "public, no-cache",
            (Audience::Anybody | Audience::Public, true) => "public, max-age=6",
            (Audience::Public, false) => "public, max-age=1, stale-while-revalidate=5",
        }
    }
}

/// Sets what caches may do with an answer of a route that needs this scope.
pub(crate) fn rule_answer(scope: Option<Scope>, is_open: bool, answer: &mut Response) {
    let headers = answer.headers_mut();
    let rule = match scope {
        Some(Scope::Read) if headers.contains_key(header::CACHE_CONTROL) => return,
        Some(Scope::Read) => Caching::of_read(is_open).rule(),
        Some(_) => "private, no-store",
        None => "no-store",
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(rule));
}

/// Sets that caches keep no answer of a route that any client may call: it is valid only for a moment.
pub(crate) async fn unkept(mut answer: Response) -> Response {
    rule_answer(None, false, &mut answer);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_keeps_an_answer_for_more_than_six_seconds() {
        let audiences = [
            Audience::Nobody,
            Audience::Caller,
            Audience::Anybody,
            Audience::Public,
        ];
        for (audience, is_fixed) in audiences
            .into_iter()
            .flat_map(|one| [(one, false), (one, true)])
        {
            let rule = Caching { audience, is_fixed }.rule();
            let seconds = rule.split(',').filter_map(|part| {
                let (_, seconds) = part.split_once('=')?;
                seconds.parse::<u32>().ok()
            });
            assert!(seconds.sum::<u32>() <= 6, "{rule}");
            assert!(!rule.contains("immutable"), "{rule}");
        }
    }
}
