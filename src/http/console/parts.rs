//! Lists that come in parts: the ways from one part to others.

use serde::Deserialize;

use super::address::address;

/// Which part of a list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PartParams {
    /// It begins behind this one.
    pub(super) after: String,
    /// What was done before the page was shown.
    pub(super) done: String,
}

/// The ways to other parts of a list.
pub(super) struct Parts {
    /// What is listed, in the plural.
    pub(super) listed: &'static str,
    /// The first part; `None` if it is this one.
    pub(super) first: Option<String>,
    /// The next part; `None` if this is the last one.
    pub(super) next: Option<String>,
}

impl Parts {
    /// Those of the page with this path and these parameters, whose part begins behind `after`, and the next one behind `next`.
    pub(super) fn new(
        listed: &'static str,
        path: &[&str],
        query: &[(&str, &str)],
        after: &str,
        next: Option<&str>,
    ) -> Self {
        let behind = |next| address(path, &[query, &[("after", next)]].concat());
        Self {
            listed,
            first: (!after.is_empty()).then(|| address(path, query)),
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
        let path = ["console", "names"];
        let of =
            |after: &str, next| Parts::new("names", &path, &[("status", "blocked")], after, next);
        let parts = of("", Some("a&b"));
        let next = "/console/names?status=blocked&after=a%26b";
        assert_eq!(
            (parts.first.as_deref(), parts.next.as_deref()),
            (None, Some(next))
        );
        assert!(!parts.is_later());
        let parts = of("a&b", None);
        let first = "/console/names?status=blocked";
        assert_eq!((parts.first.as_deref(), parts.next), (Some(first), None));
    }
}
