//! A document as it is sent, with what caches need to know about it.

use std::fmt::Write;
use std::hash::{Hash, Hasher};

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::caching::Caching;
use super::memory::{Written, json_of};
use super::problem::Problem;
use super::supply::Taken;
use crate::core::read::store::standings::{MadeWith, Page};
use crate::domain::edition::Edition;

/// The maximum length of an entity tag, in bytes.
const TAG_BYTES_MAX: usize = 53;

/// A document as it is sent. Its copies share their memory.
#[derive(Clone, Debug)]
pub struct Rendered {
    body: Bytes,
    /// A hash of its content, without its revision.
    content: u128,
    /// A hash of the request and the edition that was found, if they determine the content.
    pub edition: Option<u64>,
    /// Links to the parts before and after it: its `Link`.
    pub links: Option<HeaderValue>,
}

impl Rendered {
    /// Writes an answer into the memory that was taken for it.
    pub fn new<T: Serialize>(body: &T, taken: Taken) -> Result<Self, Problem> {
        let Written(body) = taken.write(body)?;
        Ok(Self {
            content: content_of(&body),
            edition: None,
            links: None,
            body,
        })
    }

    /// Writes a page, once for all requests that share it. Each holds the memory that was taken for it.
    pub fn of_page<T: Serialize>(
        (page, with): (&Page, MadeWith),
        body: impl FnOnce() -> T,
        taken: Taken,
    ) -> Result<Self, Problem> {
        let written = page.memo.place(with);
        let (text, content) = if let Some(written) = written.get() {
            written.clone()
        } else {
            let text = json_of(&body())?;
            let content = content_of(&text);
            written.get_or_init(|| (text, content)).clone()
        };
        let Written(body) = taken.hold(text);
        Ok(Self {
            body,
            content,
            edition: None,
            links: None,
        })
    }

    /// The response to a request with these headers: the document, or 304.
    pub fn answer(self, headers: &HeaderMap, caching: Caching) -> Response {
        let tag = self.tag();
        let answer = if self.is_known(headers) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Written(self.body).into_response()
        };
        let mut answer = validated(answer, tag, caching);
        if let Some(links) = self.links {
            answer.headers_mut().insert(header::LINK, links);
        }
        answer
    }

    /// Its entity tag. Weak, since compression makes other bytes of the same content.
    fn tag(&self) -> String {
        let mut tag = String::with_capacity(TAG_BYTES_MAX);
        tag.push_str("W/\"");
        let written = match self.edition {
            Some(edition) => write!(tag, "{edition:016x}-{:032x}", self.content),
            None => write!(tag, "{:032x}", self.content),
        };
        written.expect("invariant: a text takes all that is written");
        tag.push('"');
        tag
    }

    /// Whether the client already has its content, of this edition or another one.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        if !headers.contains_key(header::IF_NONE_MATCH) {
            return false;
        }
        let content = format!("{:032x}", self.content);
        known_tags(headers).any(|known| {
            let known = opaque(known);
            let known = known.split_once('-').map_or(known, |(_, content)| content);
            known == "*" || known == content
        })
    }
}

/// A hash of the request and the edition that was found.
pub fn edition_hash(uri: &Uri, key: &str, edition: &Edition) -> u64 {
    let mut hash = Xxh3::new();
    // Another release may write the same content differently.
    let release = env!("CARGO_PKG_VERSION");
    for part in [uri.path(), uri.query().unwrap_or(""), key, release] {
        part.hash(&mut hash);
    }
    edition.hash(&mut hash);
    hash.finish()
}

/// The response to a client that already has the content of this edition; `None` if it doesn't.
pub fn unchanged(headers: &HeaderMap, edition: u64, caching: Caching) -> Option<Response> {
    let edition = format!("{edition:016x}");
    let mut known = known_tags(headers);
    let tag = known.find(|known| {
        opaque(known)
            .split_once('-')
            .is_some_and(|(of, _)| of == edition)
    })?;
    let answer = StatusCode::NOT_MODIFIED.into_response();
    Some(validated(answer, tag.to_owned(), caching))
}

/// Whether the client has the content of any edition.
pub fn names_editions(headers: &HeaderMap) -> bool {
    known_tags(headers).any(|known| known.contains('-'))
}

/// Adds what caches need to know to a response.
fn validated(mut answer: Response, tag: String, caching: Caching) -> Response {
    let tag = HeaderValue::try_from(tag).expect("invariant: an entity tag is a header");
    let rule = HeaderValue::from_static(caching.rule());
    let headers = answer.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(header::CACHE_CONTROL, rule);
    answer
}

/// The tags of the answers that the client has.
fn known_tags(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let tags = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    tags.flat_map(|tags| tags.split(',').map(str::trim))
}

/// A tag without its quotes and its mark of weakness.
fn opaque(tag: &str) -> &str {
    tag.trim_start_matches("W/").trim_matches('"')
}

/// The bytes before the revision of a standing.
const REVISION: &[u8] = b",\"revision\":\"";

/// An answer names its standing, with the revision, within this many bytes; text from callers comes later.
const HEAD_BYTES_MAX: usize = 1_024;

/// A hash of the content. The revision of a standing does not belong to its content.
pub(crate) fn content_of(body: &[u8]) -> u128 {
    let head = &body[..body.len().min(HEAD_BYTES_MAX)];
    let begin = head
        .windows(REVISION.len())
        .position(|part| part == REVISION);
    let Some(begin) = begin else {
        return xxh3_128(body);
    };
    let end = body[begin + REVISION.len()..]
        .iter()
        .position(|byte| *byte == b'"');
    let behind = end.map_or(body.len(), |end| begin + REVISION.len() + end);
    let mut hash = Xxh3::new();
    hash.update(&body[..begin]);
    hash.update(&body[behind..]);
    hash.digest128()
}
