//! What the program holds packed: the `OpenAPI` document, and the files of the page that shows it.

use std::io::{self, Read};

use flate2::read::GzDecoder;

/// The document as it lies in the repository, packed (`build.rs`): a test compares it with the table of routes. A service that made it
/// from the table would hold it in memory, some 20 MB with what it is made of.
const PACKED_DOCUMENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// The document.
pub(crate) fn document() -> Vec<u8> {
    unpacked(PACKED_DOCUMENT).expect("invariant: the build has packed it")
}

/// What a file is that the program holds packed. Who accepts gzip gets it packed anew, as any other answer.
pub(crate) fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes)?;
    Ok(bytes)
}
