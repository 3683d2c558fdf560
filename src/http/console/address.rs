//! Addresses: of pages, and of routes of `/v1`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded::Serializer;

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
