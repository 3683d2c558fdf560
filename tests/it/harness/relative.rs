//! What a browser makes of the relative addresses in a page: addresses from the root.

use regex::{Captures, Regex};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};

/// A page with addresses from the root.
pub fn resolved(page: &str, at: &Url) -> String {
    let relative =
        Regex::new(r#" (action|data-stream|formaction|href|src)="((?:\.\./)+|\./)"#).unwrap();
    let resolve =
        |found: &Captures| format!(" {}=\"{}", &found[1], at.join(&found[2]).unwrap().path());
    relative.replace_all(page, resolve).into_owned()
}

/// Has a redirect lead to an address from the root.
pub fn resolve_location(headers: &mut HeaderMap, at: &Url) {
    let location = headers
        .get(LOCATION)
        .map(|location| location.to_str().unwrap());
    let path = location.filter(|location| location.starts_with('.'));
    if let Some(target) = path.and_then(|path| at.join(path).ok()) {
        let (_, path) = target.as_str().split_once("://").unwrap();
        let path = path.split_once('/').unwrap().1;
        headers.insert(LOCATION, HeaderValue::try_from(format!("/{path}")).unwrap());
    }
}
