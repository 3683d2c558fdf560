//! The `Link` header of a page (RFC 8288): the previous and the next page.

use axum::http::{HeaderValue, Uri};
use url::form_urlencoded;

/// Typical length of a link in bytes, without the request's parameters.
const LINK_BYTES: usize = 40;

/// The links of a page of `size` entries in a list of `listed` entries; `None` if there is no page before or after it.
/// Addresses are relative and keep the parameters of the request.
pub fn links(uri: &Uri, page: u64, size: u64, listed: u64) -> Option<HeaderValue> {
    let pages = listed.div_ceil(size);
    let links = [(page + 1, "next"), (page - 1, "prev")]
        .into_iter()
        .filter(|(page, _)| (1..=pages).contains(page))
        .fold(String::new(), |links, link| with_link(links, uri, link));
    let value = (!links.is_empty()).then(|| HeaderValue::try_from(links));
    value?.ok()
}

/// Adds a link to the same address with another page number.
fn with_link(mut links: String, uri: &Uri, (page, relation): (u64, &str)) -> String {
    let query = uri.query().unwrap_or("");
    links.reserve(LINK_BYTES + query.len());
    if !links.is_empty() {
        links.push_str(", ");
    }
    links.push_str("<?");
    let begin = links.len();
    let sent = form_urlencoded::parse(query.as_bytes());
    let mut written = form_urlencoded::Serializer::for_suffix(links, begin);
    written
        .extend_pairs(sent.filter(|(name, _)| name != "page"))
        .append_pair("page", &page.to_string());
    let mut links = written.finish();
    links.extend([">; rel=\"", relation, "\""]);
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_that_are_there() {
        let links = |query: &str, page, size, listed| {
            let uri = format!("/v1/boards/b/standings/day{query}");
            let links = links(&uri.parse().unwrap(), page, size, listed)?;
            Some(links.to_str().unwrap().to_owned())
        };
        assert_eq!(links("", 1, 50, 0), None);
        assert_eq!(links("", 1, 50, 50), None);
        let next = r#"<?page=2>; rel="next""#;
        assert_eq!(links("", 1, 50, 51).as_deref(), Some(next));
        let both = r#"<?size=2&member=a%2C+%3E&page=3>; rel="next", <?size=2&member=a%2C+%3E&page=1>; rel="prev""#;
        let of_second = links("?page=2&size=2&member=a,%20%3E", 2, 2, 5);
        assert_eq!(of_second.as_deref(), Some(both));
        let before = r#"<?page=2>; rel="prev""#;
        assert_eq!(links("?page=3", 3, 2, 5).as_deref(), Some(before));
        assert_eq!(links("?page=9", 9, 2, 5), None);
    }
}
