//! The body of a request for many items.

use std::io;

use bytes::Bytes;

use crate::http::extract::BODY_BYTES_MAX;

/// The longest item, in bytes.
const ITEM_BYTES_MAX: usize = 1 << 16;
/// A body of this size, in bytes, takes no further item: one more might exceed the limit.
const FULL_BYTES: usize = BODY_BYTES_MAX - ITEM_BYTES_MAX - END.len() - 1;
const END: &[u8] = b"]}";

/// A body that is being written: an object with one list.
pub(super) struct Body {
    /// What comes before the first item.
    start: &'static str,
    bytes: Vec<u8>,
    items: usize,
    /// Where the last item begins, with its comma.
    last: usize,
}

impl Body {
    pub(super) fn new(start: &'static str) -> Self {
        Self {
            start,
            bytes: start.as_bytes().to_vec(),
            items: 0,
            last: start.len(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES
    }

    /// Adds what `write` writes; `what` names it in the error. If that fails or is too long, nothing is added.
    pub(super) fn add(
        &mut self,
        what: &str,
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> Result<(), String> {
        self.last = self.bytes.len();
        self.items += 1;
        if self.items > 1 {
            self.bytes.push(b',');
        }
        let start = self.bytes.len();
        let written = write(&mut self.bytes).map_err(|error| error.to_string());
        let length = self.bytes.len() - start;
        let written = written.and_then(|()| {
            let text =
                || format!("the {what} has {length} bytes; at most {ITEM_BYTES_MAX} are allowed");
            (length <= ITEM_BYTES_MAX).then_some(()).ok_or_else(text)
        });
        if written.is_err() {
            self.remove_last();
        }
        written
    }

    /// Removes the item that was added last.
    pub(super) fn remove_last(&mut self) {
        self.bytes.truncate(self.last);
        self.items -= 1;
    }

    /// Ends the body and begins the next one; `None` without items.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        if self.items == 0 {
            return None;
        }
        let next = Vec::with_capacity(self.bytes.len());
        let mut bytes = std::mem::replace(&mut self.bytes, next);
        bytes.extend_from_slice(END);
        self.bytes.extend_from_slice(self.start.as_bytes());
        self.items = 0;
        Some(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_body_has_what_was_added_and_not_removed() {
        let mut body = Body::new("{\"events\":[");
        assert_eq!(body.take(), None);
        let mut add = |length| body.add("event", |bytes| bytes.write_all(&vec![b'1'; length]));
        add(1).unwrap();
        let long = add(ITEM_BYTES_MAX + 1).unwrap_err();
        assert_eq!(long, "the event has 65537 bytes; at most 65536 are allowed");
        add(2).unwrap();
        add(3).unwrap();
        body.remove_last();
        assert_eq!(body.take().unwrap(), "{\"events\":[1,11]}");
        assert_eq!(body.take(), None);
        let fail = |_: &mut Vec<u8>| Err(io::ErrorKind::Other.into());
        body.add("event", fail).unwrap_err();
        assert_eq!(body.take(), None);
        while !body.is_full() {
            body.add("event", |bytes| {
                bytes.write_all(&vec![b'1'; ITEM_BYTES_MAX])
            })
            .unwrap();
        }
        assert!(body.take().unwrap().len() <= BODY_BYTES_MAX);
    }
}
