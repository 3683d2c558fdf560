//! As little of an HTTP client as will do: what it costs is taken from the CPU that is measured.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// What a connection reads at once at first.
const BUFFER_BYTES: usize = 16_384;
/// The most headers of an answer.
const HEADERS_MAX: usize = 32;

/// A connection that is kept open.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    unchunked: Vec<u8>,
}

/// An answer in a connection's buffer.
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// The status line and the headers.
    pub head: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

struct Head {
    status: u16,
    bytes: usize,
    /// `None` where the body comes in chunks.
    body_bytes: Option<usize>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            unchunked: Vec::new(),
        })
    }

    /// Sends the bytes of a request, and reads the answer to its end.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let mut known = None;
        let head = loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err("the connection was closed".into());
            }
            filled += read;
            if known.is_none() {
                known = parse(&self.buffer[..filled])?;
            }
            let Some(head) = &known else { continue };
            let is_complete = match head.body_bytes {
                Some(bytes) => filled >= head.bytes + bytes,
                None => unchunk(&self.buffer[head.bytes..filled], &mut self.unchunked)?,
            };
            if is_complete {
                break head;
            }
        };
        let (head_bytes, rest) = self.buffer.split_at(head.bytes);
        Ok(Answer {
            status: head.status,
            head: head_bytes,
            body: match head.body_bytes {
                Some(bytes) => &rest[..bytes],
                None => &self.unchunked,
            },
        })
    }
}

impl Answer<'_> {
    /// A header that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(self.head).ok()?;
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = headers.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

/// The head of an answer, if it is there.
fn parse(received: &[u8]) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(bytes) = response.parse(received)? else {
        return Ok(None);
    };
    let status = response.code.unwrap_or_default();
    let header = |name: &str| {
        let mut headers = response.headers.iter();
        headers.find(|header| header.name.eq_ignore_ascii_case(name))
    };
    let body_bytes = match (status, header("content-length")) {
        (204 | 304, _) => Some(0),
        (_, Some(length)) => Some(std::str::from_utf8(length.value)?.parse()?),
        (_, None) if header("transfer-encoding").is_some() => None,
        (_, None) => return Err("an answer of unknown length".into()),
    };
    Ok(Some(Head {
        status,
        bytes,
        body_bytes,
    }))
}

/// Puts the chunks of a body together; false if the last one is not there yet.
fn unchunk(mut chunks: &[u8], body: &mut Vec<u8>) -> Result<bool> {
    body.clear();
    loop {
        let size = httparse::parse_chunk_size(chunks).map_err(|_| "a chunk without a size")?;
        let httparse::Status::Complete((start, size)) = size else {
            return Ok(false);
        };
        let end = start + usize::try_from(size)?;
        let Some((chunk, rest)) = chunks.split_at_checked(end + "\r\n".len()) else {
            return Ok(false);
        };
        if size == 0 {
            return Ok(true);
        }
        body.extend(&chunk[start..end]);
        chunks = rest;
    }
}

/// The bytes of a request without a body; each of `headers` ends with a line break.
pub fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

/// The bytes of a request with a JSON body.
pub fn with_json(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}
