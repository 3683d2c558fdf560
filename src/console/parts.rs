//! Lists in parts: the links from one part to others.

use super::prelude::*;

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
    /// The links of the part that the page shows; the next one begins after `next`.
    pub(super) fn new(listed: &'static str, frame: &Frame, next: Option<String>) -> Self {
        Self::by("after", listed, frame, next)
    }

    /// Those of a list whose parts this parameter names.
    pub(super) fn by(
        parameter: &str,
        listed: &'static str,
        frame: &Frame,
        next: Option<String>,
    ) -> Self {
        let is_first = frame.param(parameter).is_empty();
        Self {
            listed,
            first: (!is_first).then(|| frame.here(&[(parameter, "")])),
            next: next.map(|next| frame.here(&[(parameter, &next)])),
        }
    }

    /// Whether this is not the first part.
    pub(super) fn is_later(&self) -> bool {
        self.first.is_some()
    }
}
