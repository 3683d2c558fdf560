//! The header `Link` of a page: where the pages before and after it are (RFC 8288).

use axum::http::{HeaderValue, Uri};
use url::form_urlencoded;

/// The links of a page of so many entries, where the pages of the list have `listed` together; `None` if there is no page
/// before or after it. Their addresses are relative, with the parameters of the request.
pub fn links(uri: &Uri, page: u64, size: u64, listed: u64) -> Option<HeaderValue> {
    let pages = listed.div_ceil(size);
    let link = |page: u64, relation: &str| {
        let is_there = (1..=pages).contains(&page);
        is_there.then(|| format!("<{}>; rel=\"{relation}\"", address(uri, page)))
    };
    let links = [link(page + 1, "next"), link(page - 1, "prev")];
    let links: Vec<String> = links.into_iter().flatten().collect();
    let value = HeaderValue::try_from(links.join(", ")).ok();
    value.filter(|_| !links.is_empty())
}

/// The same address with another page.
fn address(uri: &Uri, page: u64) -> String {
    let sent = form_urlencoded::parse(uri.query().unwrap_or("").as_bytes());
    let mut query = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    query
        .extend_pairs(sent.filter(|(name, _)| name != "page"))
        .append_pair("page", &page.to_string());
    query.finish()
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
