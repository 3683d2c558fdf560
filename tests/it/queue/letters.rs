//! Dead letters as they lie in Redis.

/// What a letter has.
pub struct Letter<'a> {
    pub reason: &'a [u8],
    pub detail: &'a [u8],
    /// The entry of the queue that it was.
    pub entry: &'a [u8],
    /// The name of the field with the id of its event, and that id.
    pub id: [&'a [u8]; 2],
    /// Its event, encoded.
    pub event: &'a [u8],
}

impl<'a> Letter<'a> {
    /// That of an event that broke its call off.
    pub fn failed(id: &'a str, event: &'a [u8]) -> Self {
        Self {
            reason: b"failed",
            detail: b"why",
            entry: b"1-0",
            id: [b"id", id.as_bytes()],
            event,
        }
    }

    /// That of what could not be read.
    pub fn unreadable(id: &'a str, event: &'a [u8]) -> Self {
        Self {
            reason: b"unreadable",
            detail: b"event: x",
            ..Self::failed(id, event)
        }
    }

    /// The fields of its entry.
    pub fn fields(&self) -> [&'a [u8]; 10] {
        let Self {
            reason,
            detail,
            entry,
            id: [name, id],
            event,
        } = self;
        [
            b"reason", reason, b"detail", detail, b"entry", entry, name, id, b"event", event,
        ]
    }
}
