//! A part of a list, and where the next one begins.

/// A part of a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part<T, N = String> {
    /// Its items, in order.
    pub items: Vec<T>,
    /// The item after which the next part begins; `None`: this is the last part.
    pub next: Option<N>,
}

impl<T, N> Part<T, N> {
    /// The last part of a list.
    pub fn last(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// The first `limit` of the items found. One more item means that there is a next part; `name` returns the name of the
    /// last item of this one.
    pub fn split(mut found: Vec<T>, limit: usize, name: impl FnOnce(&T) -> N) -> Self {
        let is_more = found.len() > limit;
        found.truncate(limit);
        Self {
            next: found.last().filter(|_| is_more).map(name),
            items: found,
        }
    }
}

impl<T, N: ToString> Part<T, N> {
    /// Its items as `show` shows them, and `next` as text.
    pub fn shown<U>(self, show: impl FnMut(T) -> U) -> (Vec<U>, Option<String>) {
        let next = self.next.map(|next| next.to_string());
        (self.items.into_iter().map(show).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_extra_item_means_that_more_follow() {
        let split = |count: u32, limit| Part::split((1..=count).collect(), limit, u32::clone);
        assert_eq!(split(0, 2), Part::last(vec![]));
        assert_eq!(split(2, 2), Part::last(vec![1, 2]));
        let first = split(3, 2);
        assert_eq!((&first.items, first.next), (&vec![1, 2], Some(2)));
        let shown = first.shown(|item| item * 10);
        assert_eq!(shown, (vec![10, 20], Some("2".to_owned())));
    }
}
