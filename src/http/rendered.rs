//! A document as it is sent, and what caches need to know of it.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::caching::Caching;
use super::memory::{Taken, Written};
use super::problem::{INTERNAL, Problem};
use crate::store::standings::{MadeWith, Page};

/// A document as it is sent. Its copies share their memory.
#[derive(Clone, Debug)]
pub struct Rendered {
    body: Bytes,
    /// Tells it from others: its `ETag`.
    tag: HeaderValue,
    /// What comes before and after it: its `Link`.
    links: Option<HeaderValue>,
}

impl Rendered {
    /// Writes an answer out, into the memory that was taken for it, and makes its entity tag.
    pub fn new<T: Serialize>(body: &T, taken: Taken) -> Result<Self, Problem> {
        let Written(body) = taken.write(body)?;
        // Weak, since compression makes other bytes of the same content.
        let tag = format!("W/\"{:032x}\"", xxh3_128(&body));
        let no_header = |_| Problem::new(INTERNAL, "an entity tag that is no header");
        Ok(Self {
            tag: HeaderValue::try_from(tag).map_err(no_header)?,
            links: None,
            body,
        })
    }

    /// The same for a page, which is written once for all who share it.
    pub fn of_page<T: Serialize>(
        (page, with): (&Page, MadeWith),
        body: impl FnOnce() -> T,
        taken: Taken,
    ) -> Result<Self, Problem> {
        if let Some(rendered) = page.memo.get::<Self>(with) {
            return Ok(rendered.clone());
        }
        Ok(page.memo.keep(with, Self::new(&body(), taken)?).clone())
    }

    /// The same with links.
    #[must_use]
    pub fn linked(self, links: Option<HeaderValue>) -> Self {
        Self { links, ..self }
    }

    /// The answer to a request with these headers: the document, or that the client has it.
    pub fn answer(self, headers: &HeaderMap, caching: Caching) -> Response {
        let is_known = self.is_known(headers);
        let validators = [
            (header::ETAG, self.tag),
            (
                header::CACHE_CONTROL,
                HeaderValue::from_static(caching.rule()),
            ),
        ];
        let mut answer = if is_known {
            (StatusCode::NOT_MODIFIED, validators).into_response()
        } else {
            (validators, Written(self.body)).into_response()
        };
        if let Some(links) = self.links {
            answer.headers_mut().insert(header::LINK, links);
        }
        answer
    }

    /// Whether the client has it already.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let own = self.tag.to_str().ok().map(opaque);
        headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|tags| tags.split(',').map(str::trim))
            .any(|known| known == "*" || own == Some(opaque(known)))
    }
}

/// A tag without its mark of weakness.
fn opaque(tag: &str) -> &str {
    tag.trim_start_matches("W/")
}
