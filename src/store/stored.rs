//! Things that are stored as JSON, and are replaced only if they are still what the caller saw.

use std::marker::PhantomData;

use fred::types::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::script::Script;

/// A kind of thing of which a hash has some, by their names.
pub trait Named: DeserializeOwned + Serialize {
    /// What an error calls one of them.
    const WHAT: &'static str;
    /// The hash.
    const HASH: &'static str;
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
    pub(super) fn new(json: String) -> Self {
        let of = PhantomData;
        Self { json, of }
    }

    /// Reads it.
    pub fn read(&self) -> Result<T, StoreError> {
        read_json(T::WHAT, &self.json)
    }
}

/// How a change ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Changed {
    /// It is done.
    Done,
    /// What is stored is not what the caller saw.
    Not,
    /// There are as many as there may be.
    Full,
}

impl Store {
    /// Makes, changes or, without a new one, deletes one of a kind, if what is stored is what the caller saw. The script takes
    /// its name, what was seen, the new one, how many there may be, and `more`.
    pub(super) async fn change<T: Named>(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        name: &str,
        (seen, new): (Option<&Stored<T>>, Option<&T>),
        more: Option<Value>,
    ) -> Result<Changed, StoreError> {
        let new = new.map(to_json).transpose()?;
        let mut args: Vec<Value> = vec![
            name.into(),
            seen.map_or("", |seen| &seen.json).into(),
            new.unwrap_or_default().into(),
            T::COUNT_MAX.to_string().into(),
        ];
        args.extend(more);
        let reply = self.write_at(T::HASH, script, keys, args);
        match Reply::new(reply.await?)?.text()?.as_str() {
            "OK" => Ok(Changed::Done),
            "CHANGED" => Ok(Changed::Not),
            "FULL" => Ok(Changed::Full),
            other => unknown_code(other),
        }
    }
}

/// The JSON of what is to be stored.
pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unexpected(error.to_string()))
}

/// Reads what is stored as JSON.
pub(super) fn read_json<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, StoreError> {
    let read = serde_json::from_str(json);
    read.map_err(|error| StoreError::Unexpected(format!("{what} that is stored: {error}")))
}
