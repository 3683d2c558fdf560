//! Compressed content of the program: the OpenAPI document, and the files of the page that shows it.

use std::io::{self, Read};

use flate2::read::GzDecoder;

/// The document as stored in the repository, compressed (`build.rs`): a test makes it from the table of
/// routes (`tests/it/openapi/document.rs`).
const PACKED_DOCUMENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

pub(crate) fn document() -> Vec<u8> {
    unpacked(PACKED_DOCUMENT).expect("invariant: the build has packed it")
}

/// Decompresses a file. Clients that accept gzip get it compressed again, like any other answer.
pub(crate) fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes)?;
    Ok(bytes)
}
