//! Answers without an end, such as streams of events.
//!
//! The HTTP library keeps 16 KB of buffers for as long as it has a connection, and thousands of clients may watch. So over
//! HTTP/1 the library only writes the head of such an answer. Then the connection, whose last request this was, leaves the
//! library, and its task continues with the body.

use std::io;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Response, Version, header};
use bytes::{Buf, Bytes};
use futures::stream::pending;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use std::convert::Infallible;
use std::sync::Arc;

use super::flight::Flight;
use super::socket::Socket;

/// Marks an answer without an end: as long as nothing waits to be read, it may go on indefinitely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endless;

/// Where the body of an answer without an end waits until its head is written.
#[derive(Debug, Default)]
pub(super) struct Handover(Mutex<Option<Rest>>);

impl Handover {
    /// Keeps the body of an answer without an end; the library gets an empty one that never ends in its place.
    pub(super) fn keep(
        &self,
        method: &Method,
        version: Version,
        answer: Response<Body>,
        flight: &Arc<Flight>,
    ) -> Response<Body> {
        let is_endless = answer.extensions().get::<Endless>().is_some();
        if !is_endless || version == Version::HTTP_2 || method == Method::HEAD {
            return answer;
        }
        let (mut head, body) = answer.into_parts();
        *self.0.lock() = Some(Rest {
            body,
            is_chunked: version == Version::HTTP_11,
            flight: Arc::clone(flight),
        });
        let close = HeaderValue::from_static("close");
        head.headers.insert(header::CONNECTION, close);
        let nothing = Body::from_stream(pending::<Result<Bytes, Infallible>>());
        Response::from_parts(head, nothing)
    }

    /// Whether a body waits.
    pub(super) fn is_full(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Takes the waiting body.
    pub(super) fn take(&self) -> Option<Rest> {
        self.0.lock().take()
    }
}

/// The body of an answer whose head is written.
#[derive(Debug)]
pub(super) struct Rest {
    body: Body,
    /// Whether the head says that the body comes in chunks (RFC 9112, section 7.1); otherwise it ends with the connection.
    is_chunked: bool,
    /// The request, which is in flight until everything is written.
    flight: Arc<Flight>,
}

impl Rest {
    /// Writes it until it ends, the client disconnects, or one of them fails.
    pub(super) async fn write(mut self, mut socket: Socket) {
        // A client that has disconnected needs nothing more, and the connection ends in any case.
        let _ = self.write_to(&mut socket).await;
        drop(self.flight);
    }

    async fn write_to(&mut self, socket: &mut Socket) -> io::Result<()> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                end = until_closed(socket) => return end,
            };
            let Some(frame) = frame else {
                break;
            };
            let Ok(part) = frame.map_err(io::Error::other)?.into_data() else {
                continue;
            };
            if !self.is_chunked {
                socket.write_all(&part).await?;
            } else if !part.is_empty() {
                let size = Bytes::from(format!("{:x}\r\n", part.len()));
                let mut chunk = size.chain(part).chain(&b"\r\n"[..]);
                socket.write_all_buf(&mut chunk).await?;
            }
        }
        if self.is_chunked {
            socket.write_all(b"0\r\n\r\n").await?;
        }
        socket.shutdown().await
    }
}

/// Waits until the client closes the connection. Anything it sends is ignored: no further request is possible.
async fn until_closed(socket: &mut Socket) -> io::Result<()> {
    let mut scrap = [0; 64];
    while socket.read(&mut scrap).await? > 0 {}
    Ok(())
}
