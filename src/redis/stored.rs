//! Things that are stored as JSON, and are replaced only if they are still what the caller saw.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::call::ScriptCall;

/// A kind of thing of which a hash has some, by their names.
pub trait Named: DeserializeOwned + Serialize {
    /// What an error calls one of them.
    const WHAT: &'static str;
    /// How many there may be.
    const COUNT_MAX: usize;
}

/// What is stored of something: its JSON. A newer release may have written it.
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

    /// Reads it.
    pub fn read(&self) -> Result<T, StoreError> {
        read_json(T::WHAT, &self.json)
    }
}

/// How a change ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub enum Changed {
    /// It is done.
    #[serde(rename = "OK")]
    Done,
    /// What is stored is not what the caller saw.
    #[serde(rename = "CHANGED")]
    Not,
    /// There are as many as there may be.
    #[serde(rename = "FULL")]
    Full,
}

impl ScriptCall<'_> {
    /// The arguments of a script that makes, changes or, without a new one, deletes one of a kind, if what is stored is what the
    /// caller saw: its name, what was seen, the new one, and how many there may be.
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

/// The JSON of what is to be stored.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unexpected(error.to_string()))
}

/// Reads what is stored as JSON.
pub(crate) fn read_json<T: DeserializeOwned>(
    what: &str,
    json: &(impl AsRef<[u8]> + ?Sized),
) -> Result<T, StoreError> {
    let read = serde_json::from_slice(json.as_ref());
    read.map_err(|error| StoreError::Unexpected(format!("{what} that is stored: {error}")))
}
