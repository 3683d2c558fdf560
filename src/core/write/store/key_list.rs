//! Collects the keys of a call, each once.

use std::collections::HashMap;

use crate::domain::series::{Series, Standing};
use crate::domain::shard::Shard;
use crate::redis::keys;

/// The keys of a call for a shard; the first are its head and its registry. Indexes count from 1, as in Lua.
pub(crate) struct KeyList<'a> {
    shard: &'a Shard,
    /// All of them.
    pub(crate) all: Vec<String>,
    standings: HashMap<Standing, usize>,
    states: HashMap<Series, usize>,
}

impl<'a> KeyList<'a> {
    /// Those of every call.
    pub(crate) fn of(shard: &'a Shard) -> Self {
        Self {
            shard,
            all: keys::head_and_registry(shard),
            standings: HashMap::new(),
            states: HashMap::new(),
        }
    }

    /// Adds a key that is not there yet, and returns its index.
    pub(crate) fn add(&mut self, key: String) -> usize {
        self.all.push(key);
        self.all.len()
    }

    /// The index of the first key of a standing.
    pub(crate) fn standing(&mut self, standing: Standing) -> usize {
        if let Some(index) = self.standings.get(&standing) {
            return *index;
        }
        let index = self.all.len() + 1;
        self.all.extend(keys::standing(self.shard, &standing));
        self.standings.insert(standing, index);
        index
    }

    /// The index of the state of a derived series.
    pub(crate) fn state(&mut self, series: Series) -> usize {
        if let Some(index) = self.states.get(&series) {
            return *index;
        }
        let index = self.add(keys::state(self.shard, series));
        self.states.insert(series, index);
        index
    }
}
