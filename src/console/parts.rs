//! Lists in parts: the links from one part to others.

use serde::Deserialize;
use url::form_urlencoded::Serializer;

/// Which part of a list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PartParams {
    /// For things that have a status, lists those with this one; empty for the status that is shown first.
    pub(super) status: String,
    /// It begins after this item.
    pub(super) after: String,
    /// What was done before the page was shown.
    pub(super) done: String,
    /// The name of what it was done to, or how many there were.
    pub(super) name: String,
}

impl PartParams {
    /// The parameters for this part of up to `limit` items in `/v1`.
    pub(super) fn of_at_most<'a>(&'a self, limit: &'a str) -> [(&'a str, &'a str); 3] {
        let Self { status, after, .. } = self;
        [("status", status), ("after", after), ("limit", limit)]
    }
}

/// The links to other parts of a list.
pub(super) struct Parts {
    /// What is listed, in the plural.
    pub(super) listed: &'static str,
    /// The first part; `None` if it is this one.
    pub(super) first: Option<String>,
    /// The next part; `None` if this is the last one.
    pub(super) next: Option<String>,
}

impl Parts {
    /// The links of the part that begins after `after`, in a list whose first part is at `page`; the next part begins after
    /// `next`.
    pub(super) fn new(listed: &'static str, page: &str, after: &str, next: Option<String>) -> Self {
        let behind = |next: String| {
            let separator = if page.contains('?') { '&' } else { '?' };
            let mut query = Serializer::new(String::new());
            format!(
                "{page}{separator}{}",
                query.append_pair("after", &next).finish()
            )
        };
        Self {
            listed,
            first: (!after.is_empty()).then(|| page.to_owned()),
            next: next.map(behind),
        }
    }

    /// Whether this is not the first part.
    pub(super) fn is_later(&self) -> bool {
        self.first.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_leads_to_the_first_and_to_the_next() {
        let of = |page: &str, after: &str, next: Option<&str>| {
            let parts = Parts::new("names", page, after, next.map(str::to_owned));
            (parts.is_later(), parts.first, parts.next)
        };
        let (all, blocked) = ("/console/names", "/console/names?status=blocked");
        let next = |next: &str| Some(next.to_owned());
        let blocked_next = next("/console/names?status=blocked&after=a%26b");
        assert_eq!(of(blocked, "", Some("a&b")), (false, None, blocked_next));
        let all_next = next("/console/names?after=a%26b");
        assert_eq!(of(all, "", Some("a&b")), (false, None, all_next));
        assert_eq!(
            of(blocked, "a&b", None),
            (true, Some(blocked.to_owned()), None)
        );
    }
}
