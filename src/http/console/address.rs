//! Addresses: of pages, and of routes of `/v1`.

use axum::http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded::Serializer;

use crate::http::problem::{Problem, URI_TOO_LONG};

/// What a part of a path is not written with as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The address with these parts of its path, and those parameters that have a value.
pub(in crate::http) fn address(path: &[&str], query: &[(&str, &str)]) -> String {
    let mut address = String::new();
    for part in path {
        address.push('/');
        address.extend(utf8_percent_encode(part, ENCODED));
    }
    let query = query.iter().filter(|(_, value)| !value.is_empty());
    let query = Serializer::new(String::new()).extend_pairs(query).finish();
    if !query.is_empty() {
        address.push('?');
        address.push_str(&query);
    }
    address
}

/// A route of `/v1` with these parts of its path.
pub(super) fn v1(path: &[&str]) -> String {
    v1_with(path, &[])
}

/// The same, with those parameters that have a value.
pub(super) fn v1_with(path: &[&str], query: &[(&str, &str)]) -> String {
    address(&[&["v1"], path].concat(), query)
}

/// An address as that of a request.
///
/// # Errors
///
/// [`URI_TOO_LONG`]: somebody has filled in more than fits in one.
pub(in crate::http) fn uri(address: &str) -> Result<Uri, Problem> {
    let too_long = "what was sent is longer than any name or id: with it the address has more than 65534 bytes";
    Uri::try_from(address).map_err(|_| Problem::new(URI_TOO_LONG, too_long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_values_are_written_so_that_they_come_back() {
        let of = |member: &str| address(&["v1", member], &[("key", ""), ("after", member)]);
        assert_eq!(of("a-1"), "/v1/a-1?after=a-1");
        assert_eq!(of("a/b?c"), "/v1/a%2Fb%3Fc?after=a%2Fb%3Fc");
        assert_eq!(of("'ü"), "/v1/%27%C3%BC?after=%27%C3%BC");
        assert_eq!(address(&["console"], &[]), "/console");
    }
}
