//! Builds a call of a script: keys, arguments, and the type of its reply.

use bytes::Bytes;
use fred::types::Value;
use futures::future::{BoxFuture, ready};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::Call;
use super::decode::decode;
use super::dispatch::Store;
use super::script::Script;
use super::stored::to_json;
use super::{StoreError, keys};
use crate::domain::board::Board;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

#[must_use]
pub(crate) struct ScriptCall<'a> {
    store: &'a Store,
    script: &'static Script,
    tag: String,
    keys: Vec<String>,
    args: Vec<Value>,
    /// The entries of the map that is the first argument, as `MessagePack`; their number is written at the end.
    fields: Vec<u8>,
    field_count: u16,
    fault: Option<StoreError>,
}

/// An argument of a script, as text: `true` is `1`, `false` is `0`, an instant is in milliseconds since the epoch, and none
/// is empty.
pub(crate) trait Arg {
    fn value(self) -> Value;
}

macro_rules! args {
    ($($type:ty: $arg:ident => $value:expr;)*) => {
        $(impl Arg for $type {
            fn value(self) -> Value {
                let $arg = self;
                $value
            }
        })*
    };
}

args! {
    &str: text => text.into();
    String: text => text.into();
    &String: text => text.as_str().into();
    Bytes: bytes => Value::Bytes(bytes);
    Vec<u8>: bytes => Value::Bytes(bytes.into());
    bool: is_so => if is_so { "1" } else { "0" }.into();
    Value: value => value;
    i64: number => number.to_string().into();
    u32: number => number.to_string().into();
    u64: number => number.to_string().into();
    u128: number => number.to_string().into();
    usize: number => number.to_string().into();
    Timestamp: at => at.ms().value();
}

impl<T: Arg> Arg for Option<T> {
    fn value(self) -> Value {
        self.map_or_else(|| "".into(), T::value)
    }
}

impl Store {
    /// A call for the slot of this tag; see [`Store::write_at`].
    pub(crate) fn call(&self, script: &'static Script, tag: &str) -> ScriptCall<'_> {
        ScriptCall {
            store: self,
            script,
            tag: tag.to_owned(),
            keys: Vec::new(),
            args: Vec::new(),
            fields: Vec::new(),
            field_count: 0,
            fault: None,
        }
    }

    /// A call for a shard; its first keys are the head and the registry.
    pub(crate) fn call_shard(&self, script: &'static Script, shard: &Shard) -> ScriptCall<'_> {
        self.call(script, shard.tag())
            .keys(keys::head_and_registry(shard))
    }

    /// Like `call_shard`, but the script does nothing unless the shard has this version of the definition.
    pub(crate) fn call_version(&self, script: &'static Script, shard: &Shard) -> ScriptCall<'_> {
        self.call_shard(script, shard)
            .field("version", shard.version())
    }

    /// A call for a board itself; its first keys are the head and the registry of results.
    pub(crate) fn call_board(&self, script: &'static Script, board: &Board) -> ScriptCall<'_> {
        self.call_head(script, board)
            .key(keys::results_registry(&board.id, board.generation))
    }

    /// A call for a board itself; its first key is the head.
    pub(crate) fn call_head(&self, script: &'static Script, board: &Board) -> ScriptCall<'_> {
        let id = board.id.as_str();
        self.call(script, id).key(keys::head(id))
    }
}

impl<'a> ScriptCall<'a> {
    pub(crate) fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Sets the keys to these only.
    pub(crate) fn with_keys(self, keys: Vec<String>) -> Self {
        Self { keys, ..self }
    }

    pub(crate) fn keys(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.keys.extend(keys.into_iter().map(Into::into));
        self
    }

    pub(crate) fn arg(mut self, arg: impl Arg) -> Self {
        self.args.push(arg.value());
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl Arg>) -> Self {
        self.args.extend(args.into_iter().map(Arg::value));
        self
    }

    /// Adds an argument as JSON.
    pub(crate) fn json(mut self, value: &impl Serialize) -> Self {
        match to_json(value) {
            Ok(json) => self.args.push(json.into()),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// Adds an argument as JSON; empty for `None`.
    pub(crate) fn json_or_none(self, value: Option<&impl Serialize>) -> Self {
        match value {
            Some(value) => self.json(value),
            None => self.arg(""),
        }
    }

    /// Adds a field to the map in the script's first argument, as `MessagePack`. Lua drops a `None`.
    pub(crate) fn field(mut self, name: &str, value: impl Serialize) -> Self {
        if self.fields.is_empty() {
            // A map, with two bytes for the number of entries.
            self.fields.extend([0xde, 0, 0]);
        }
        let written = rmp_serde::encode::write_named(&mut self.fields, name)
            .and_then(|()| rmp_serde::encode::write_named(&mut self.fields, &value));
        if let Err(error) = written {
            let message = format!("arguments that can't be packed: {error}");
            self.fault = Some(StoreError::Unexpected(message));
        }
        self.field_count += 1;
        self
    }

    fn ready(self) -> Result<Call, StoreError> {
        let script = self.script;
        let (keys, args) = self.keys_and_args()?;
        Ok(Call::new(script, keys, args))
    }

    /// The keys and arguments, for callers that send them themselves.
    pub(crate) fn keys_and_args(mut self) -> Result<(Vec<String>, Vec<Value>), StoreError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.field_count > 0 {
            self.fields[1..3].copy_from_slice(&self.field_count.to_be_bytes());
            let packed = std::mem::take(&mut self.fields);
            self.args.insert(0, Value::Bytes(packed.into()));
        }
        Ok((self.keys, self.args))
    }

    /// Runs a script that writes: see [`Store::write_at`]. When this returns, it is sent or in line.
    pub(crate) fn write<R: DeserializeOwned>(
        self,
    ) -> impl Future<Output = Result<R, StoreError>> + Send + use<'a, R> {
        let (script, reply) = (self.script, self.write_for_reply());
        async move { decoded(script, reply.await?) }
    }

    /// Like `write`, but returns the raw reply.
    pub(crate) fn write_for_reply(self) -> BoxFuture<'a, Result<Value, StoreError>> {
        self.sent(Store::write_at)
    }

    fn sent(
        self,
        send: fn(&'a Store, String, Call) -> BoxFuture<'a, Result<Value, StoreError>>,
    ) -> BoxFuture<'a, Result<Value, StoreError>> {
        let (store, tag) = (self.store, self.tag.clone());
        match self.ready() {
            Ok(call) => send(store, tag, call),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// Runs a script that writes derivable data: see [`Store::derive_at`]. When this returns, it is sent or in line.
    pub(crate) fn derive<R: DeserializeOwned>(
        self,
    ) -> impl Future<Output = Result<R, StoreError>> + Send + use<'a, R> {
        let (script, reply) = (self.script, self.sent(Store::derive_at));
        async move { decoded(script, reply.await?) }
    }

    /// Runs a script that writes, or its read-only twin.
    pub(crate) async fn run<R: DeserializeOwned>(self, writes: bool) -> Result<R, StoreError> {
        if writes {
            self.write().await
        } else {
            self.read().await
        }
    }

    /// Runs a script that reads, and returns the raw reply.
    pub(crate) async fn read_for_reply(self) -> Result<Value, StoreError> {
        let store = self.store;
        store.read(self.ready()?).await
    }

    /// Runs a script that reads.
    pub(crate) async fn read<R: DeserializeOwned>(self) -> Result<R, StoreError> {
        let (store, script) = (self.store, self.script);
        decoded(script, store.read(self.ready()?).await?)
    }
}

/// Decodes a reply. An error names the script.
fn decoded<R: DeserializeOwned>(script: &Script, reply: Value) -> Result<R, StoreError> {
    decode(reply).map_err(|error| match error {
        StoreError::Unexpected(detail) => {
            StoreError::Unexpected(format!("{}: {detail}", script.name))
        }
        other => other,
    })
}
