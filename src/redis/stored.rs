//! Items stored as JSON, which are replaced only if they are still what the caller read.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::call::ScriptCall;

/// A type of item stored in a hash by name.
pub trait Named: DeserializeOwned + Serialize {
    /// What errors call it.
    const WHAT: &'static str;
    /// The maximum number of items.
    const COUNT_MAX: usize;
}

/// A stored item as JSON. A newer release may have written it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stored<T> {
    json: String,
    of: PhantomData<T>,
}

impl<T: Named> Stored<T> {
    pub(crate) fn new(json: String) -> Self {
        let of = PhantomData;
        Self { json, of }
    }

    /// Parses it.
    pub fn read(&self) -> Result<T, StoreError> {
        read_json(T::WHAT, &self.json)
    }
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub enum Changed {
    /// It is done.
    #[serde(rename = "OK")]
    Done,
    /// The stored item is not what the caller read.
    #[serde(rename = "CHANGED")]
    Not,
    /// There are too many items.
    #[serde(rename = "FULL")]
    Full,
}

impl ScriptCall<'_> {
    /// The arguments of a script that creates, changes or, without a new value, deletes an item if it is still what the
    /// caller read: name, old value, new value, and the maximum number of items.
    pub(crate) fn change<T: Named>(
        self,
        name: &str,
        (seen, new): (Option<&Stored<T>>, Option<&T>),
    ) -> Self {
        self.arg(name)
            .arg(seen.map(|seen| &seen.json))
            .json_or_none(new)
            .arg(T::COUNT_MAX)
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unexpected(error.to_string()))
}

/// Parses stored JSON.
pub(crate) fn read_json<T: DeserializeOwned>(
    what: &str,
    json: &(impl AsRef<[u8]> + ?Sized),
) -> Result<T, StoreError> {
    let read = serde_json::from_slice(json.as_ref());
    read.map_err(|error| StoreError::Unexpected(format!("{what} in Redis can't be read: {error}")))
}
