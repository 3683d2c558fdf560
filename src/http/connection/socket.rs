//! The socket of a connection, with its bytes counted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::activity::Activity;
use crate::http::observe::refusal;

/// What HTTP/2 connections begin with (RFC 9113, section 3.4).
pub(super) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads the first bytes of a connection until it is clear whether they are the preface of HTTP/2. A library can do this,
/// too, but then it reads the first head in two parts, into a buffer twice as large.
pub(super) async fn opening(stream: &mut TcpStream) -> io::Result<Bytes> {
    let mut bytes = BytesMut::with_capacity(HTTP2_PREFACE.len());
    while bytes.len() < HTTP2_PREFACE.len() && HTTP2_PREFACE.starts_with(&bytes) {
        let room = HTTP2_PREFACE.len() - bytes.len();
        if stream.read_buf(&mut (&mut bytes).limit(room)).await? == 0 {
            break;
        }
    }
    Ok(bytes.freeze())
}

/// A socket whose bytes are counted. An answer of the HTTP library itself, a status alone, becomes a problem here.
pub(super) struct Socket {
    stream: TcpStream,
    /// What was read before the library took over, and the library has not read yet.
    opening: Bytes,
    activity: Arc<Activity>,
    /// The part of a problem that is not written yet.
    refusal: Bytes,
}

/// The status of an answer that the HTTP library makes by itself: to a head that it can't read, and without a body.
fn status_of_refusal(answer: &[u8]) -> Option<StatusCode> {
    const NO_BODY: &[u8] = b"content-length: 0\r\n";
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let status = StatusCode::from_bytes(status).ok()?;
    let is_refusal = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    );
    let mut lines = answer.windows(NO_BODY.len());
    (is_refusal && lines.any(|line| line == NO_BODY)).then_some(status)
}

impl Socket {
    /// A socket for this stream, of which `opening` has already been read.
    pub(super) fn new(stream: TcpStream, opening: Bytes, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            opening,
            activity,
            refusal: Bytes::new(),
        }
    }

    /// Replaces an answer that the HTTP library makes by itself; returns whether it was one.
    fn refuses(&mut self, answer: &[u8]) -> bool {
        if self.activity.requests.load(Ordering::Acquire) > 0 {
            return false;
        }
        let Some(status) = status_of_refusal(answer) else {
            return false;
        };
        self.refusal = refusal(status).into();
        true
    }

    /// Writes the rest of a problem.
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.refusal);
            self.count(&written);
            let count = ready!(written)?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.refusal.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    fn count(&self, written: &Poll<io::Result<usize>>) {
        self.activity
            .is_blocked
            .store(written.is_pending(), Ordering::Release);
        if let Poll::Ready(Ok(count)) = written {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            self.activity.written.fetch_add(count, Ordering::AcqRel);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = bytes.filled().len();
        let count = self.opening.len().min(bytes.remaining());
        bytes.put_slice(&self.opening.split_to(count));
        let read = Pin::new(&mut self.stream).poll_read(context, bytes);
        if bytes.filled().len() > before && self.activity.requests.load(Ordering::Acquire) == 0 {
            self.activity.has_head.store(true, Ordering::Release);
        }
        if count > 0 {
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.refuses(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.first().is_some_and(|head| self.refuses(head)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
