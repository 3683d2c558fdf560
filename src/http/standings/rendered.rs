//! A document as it is sent, and what caches need to know of it.

use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::answers::PageBody;
use crate::http::App;
use crate::http::memory::{Taken, Written};
use crate::http::problem::{INTERNAL, Problem};
use crate::service::period::{Choice, Target};
use crate::store::Dated;
use crate::store::standings::Page;

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
    pub fn of_page(
        page: &Page,
        body: impl FnOnce() -> PageBody,
        taken: Taken,
    ) -> Result<Self, Problem> {
        if let Some(rendered) = page.memo.get::<Self>() {
            return Ok(rendered.clone());
        }
        Ok(page.memo.keep(Self::new(&body(), taken)?).clone())
    }

    /// The same with links.
    pub fn linked(self, links: Option<HeaderValue>) -> Self {
        Self { links, ..self }
    }

    /// The answer to a request with these headers: the document, or that the client has it. `choice` says whether the same
    /// address means the same period tomorrow.
    pub fn answer(
        self,
        app: &App,
        headers: &HeaderMap,
        choice: &Choice,
        (target, as_of): (&Target, Option<Instant>),
    ) -> Dated<Response> {
        // Not for long, since a board can still be deleted. A replica may lack the last of its events.
        let is_fixed =
            target.is_final && as_of.is_none() && matches!(choice, Choice::Key(_) | Choice::At(_));
        let cache_control = match (app.is_open, is_fixed) {
            (true, true) => "public, max-age=300",
            (true, false) => "public, no-cache",
            (false, true) => "private, max-age=300",
            (false, false) => "private, no-cache",
        };
        let is_known = self.is_known(headers);
        let validators = [
            (header::ETAG, self.tag),
            (
                header::CACHE_CONTROL,
                HeaderValue::from_static(cache_control),
            ),
        ];
        let mut value = if is_known {
            (StatusCode::NOT_MODIFIED, validators).into_response()
        } else {
            (validators, Written(self.body)).into_response()
        };
        if let Some(links) = self.links {
            value.headers_mut().insert(header::LINK, links);
        }
        Dated { value, as_of }
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
