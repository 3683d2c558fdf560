//! What other rooms keep in memory, by type. So the core depends on none of these types.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;

/// The states of rooms, one of each type.
#[derive(Default)]
pub struct States(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl States {
    /// Adds the state of a room.
    pub fn adopt<T: Any + Send + Sync>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(state));
    }

    /// The state of a room.
    ///
    /// # Panics
    ///
    /// If there is none: the engine was not put together by `setup.rs`.
    pub fn get<T: Any>(&self) -> &T {
        let state = self
            .0
            .get(&TypeId::of::<T>())
            .and_then(|state| state.downcast_ref());
        state.unwrap_or_else(|| panic!("invariant: setup.rs adopts {}", type_name::<T>()))
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}
