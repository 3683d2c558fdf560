//! When each item of a job is due, in memory. Items that are not due cost nothing.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use parking_lot::Mutex;

use crate::domain::time::Timestamp;

/// Items by the time at which they are due.
#[derive(Debug)]
pub struct Schedule<K> {
    items: Mutex<Items<K>>,
}

#[derive(Debug)]
struct Items<K> {
    by_time: BTreeSet<(i64, K)>,
    due_ms: HashMap<K, i64>,
}

impl<K: Clone + Hash + Ord> Schedule<K> {
    /// Sets when an item is due.
    pub fn set(&self, item: &K, at_ms: i64) {
        let mut items = self.items.lock();
        if let Some(before_ms) = items.due_ms.insert(item.clone(), at_ms) {
            items.by_time.remove(&(before_ms, item.clone()));
        }
        items.by_time.insert((at_ms, item.clone()));
    }

    /// Makes an item due at once.
    pub fn set_due(&self, item: &K) {
        self.set(item, i64::MIN);
    }

    /// Makes an item due at once if it is wanted; otherwise forgets it.
    pub fn plan(&self, item: &K, is_wanted: bool) {
        if is_wanted {
            self.set_due(item);
        } else {
            self.remove(item);
        }
    }

    pub fn remove(&self, item: &K) {
        let mut items = self.items.lock();
        if let Some(at_ms) = items.due_ms.remove(item) {
            items.by_time.remove(&(at_ms, item.clone()));
        }
    }

    /// The next `count` items that are not due yet, in the order of their times.
    pub fn next(&self, now: Timestamp, count: usize) -> Vec<K> {
        let items = self.items.lock();
        let later = items.by_time.iter().filter(|(at_ms, _)| *at_ms > now.ms());
        later.take(count).map(|(_, item)| item.clone()).collect()
    }

    /// The items that are due, longest due first.
    pub fn due(&self, now: Timestamp) -> Vec<K> {
        let items = self.items.lock();
        items
            .by_time
            .iter()
            .take_while(|(at_ms, _)| *at_ms <= now.ms())
            .map(|(_, item)| item.clone())
            .collect()
    }
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            items: Mutex::new(Items {
                by_time: BTreeSet::new(),
                due_ms: HashMap::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_due_at_the_last_time_set_for_them() {
        let schedule = Schedule::default();
        let due = |ms| schedule.due(Timestamp::from_ms_clamped(ms));
        schedule.set(&"a", 20);
        schedule.set(&"b", 10);
        schedule.set(&"c", 30);
        let next = |ms| schedule.next(Timestamp::from_ms_clamped(ms), 2);
        assert_eq!([next(9), next(10)], [["b", "a"], ["a", "c"]]);
        assert_eq!(due(9), [""; 0]);
        assert_eq!(due(20), ["b", "a"]);
        schedule.set(&"a", 40);
        schedule.remove(&"b");
        schedule.remove(&"unknown");
        assert_eq!(due(39), ["c"]);
        schedule.set_due(&"a");
        assert_eq!(due(0), ["a"]);
    }
}
