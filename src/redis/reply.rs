//! Parses the replies of scripts.

use std::collections::BTreeMap;

use bytes::Bytes;
use fred::types::Value;

use super::StoreError;

/// The parts of a reply, taken from the front.
pub(crate) struct Reply(std::vec::IntoIter<Value>);

fn unexpected(what: &str, value: &impl std::fmt::Debug) -> StoreError {
    StoreError::Unexpected(format!("expected {what}, not {value:?}"))
}

impl Reply {
    pub(crate) fn new(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(parts) => Ok(Self(parts.into_iter())),
            other => Err(unexpected("an array", &other)),
        }
    }

    /// A list of one part.
    pub(crate) fn of_one(value: Value) -> Self {
        Self(vec![value].into_iter())
    }

    /// Skips an empty text, which stands for none. Returns whether nothing else is left: a Lua list ends before a final
    /// `nil`.
    pub(crate) fn skip_none(&mut self) -> bool {
        let is_none = self.0.as_slice().first().is_none_or(|next| match next {
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            other => other.is_null(),
        });
        if is_none {
            self.0.next();
        }
        is_none
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(crate) fn next(&mut self) -> Result<Value, StoreError> {
        self.0
            .next()
            .ok_or_else(|| StoreError::Unexpected("the reply is too short".into()))
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes, StoreError> {
        bytes_of(self.next()?)
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?.into()).map_err(|error| unexpected("text", &error))
    }

    /// An integer, possibly as text.
    pub(crate) fn integer(&mut self) -> Result<i64, StoreError> {
        let value = self.next()?;
        value
            .as_i64()
            .ok_or_else(|| unexpected("an integer", &value))
    }

    /// An index of a Lua list, converted to count from 0.
    pub(crate) fn index(&mut self) -> Result<usize, StoreError> {
        let index = usize::try_from(self.integer()?).ok();
        let index = index.and_then(|index| index.checked_sub(1));
        require(index, "an index is 0")
    }

    /// Reads everything that is left, item by item.
    pub(crate) fn all<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::with_capacity(self.0.len());
        while !self.is_empty() {
            all.push(read(self)?);
        }
        Ok(all)
    }

    pub(crate) fn list(&mut self) -> Result<Self, StoreError> {
        Self::new(self.next()?)
    }

    /// The content after `OK`, in a reply that depends on a board's version and has no other code.
    pub(crate) fn answer(value: Value) -> Result<Self, StoreError> {
        let mut reply = Self::new(value)?;
        match reply.text()?.as_str() {
            "OK" => Ok(reply),
            "STALE" => Err(StoreError::Stale),
            other => unknown_code(other),
        }
    }
}

/// The fields in a reply of `INFO`.
pub(crate) fn info_fields(info: &str) -> BTreeMap<&str, &str> {
    info.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .collect()
}

/// A value that is a string.
pub(crate) fn bytes_of(value: Value) -> Result<Bytes, StoreError> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::String(text) => Ok(text.into_inner()),
        other => Err(unexpected("a string", &other)),
    }
}

/// A value that the scripts' protocol guarantees; `fault` says what is wrong with a reply without it.
pub(crate) fn require<T>(value: Option<T>, fault: &str) -> Result<T, StoreError> {
    value.ok_or_else(|| StoreError::Unexpected(fault.to_owned()))
}

/// Checks that a list has an item for each of the `count` things asked for.
pub(crate) fn for_each_of<T>(found: Vec<T>, count: usize) -> Result<Vec<T>, StoreError> {
    let found = (found.len() == count).then_some(found);
    require(found, "there is not one result for each item")
}

/// The error for a code that a script doesn't have.
pub(crate) fn unknown_code<T>(code: &str) -> Result<T, StoreError> {
    Err(StoreError::Unexpected(format!("unknown code {code:?}")))
}
