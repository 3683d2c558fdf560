//! A request in flight, until the last byte of its answer is written.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::{Response, Version};
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};

use super::activity::Activity;
use super::endless::Endless;

/// A request in flight, from its head to the last byte of its answer.
#[derive(Debug)]
pub(super) struct Flight {
    activity: Arc<Activity>,
    /// Whether its answer has no end; set once there is an answer.
    is_stream: OnceLock<bool>,
}

impl Flight {
    pub(super) fn begin(activity: &Arc<Activity>, version: Version) -> Arc<Self> {
        activity.begun.fetch_add(1, Ordering::AcqRel);
        activity.requests.fetch_add(1, Ordering::AcqRel);
        activity.has_head.store(false, Ordering::Release);
        activity
            .is_http2
            .store(version == Version::HTTP_2, Ordering::Release);
        Arc::new(Self {
            activity: Arc::clone(activity),
            is_stream: OnceLock::new(),
        })
    }

    pub(super) fn answer(self: Arc<Self>, answer: Response<Body>) -> Response<Answer> {
        let is_stream = answer.extensions().get::<Endless>().is_some();
        if self.is_stream.set(is_stream).is_ok() {
            self.activity
                .counter(is_stream)
                .fetch_add(1, Ordering::AcqRel);
        }
        answer.map(|body| Answer { body, flight: self })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(is_stream) = self.is_stream.get() {
            self.activity
                .counter(*is_stream)
                .fetch_sub(1, Ordering::AcqRel);
        }
        self.activity.requests.fetch_sub(1, Ordering::AcqRel);
        if self.activity.is_stopping.load(Ordering::Acquire) {
            self.activity.end.wake();
        }
    }
}

pub(super) struct Answer {
    body: Body,
    flight: Arc<Flight>,
}

/// A part of it, until it is written.
pub(super) struct Part {
    bytes: Bytes,
    _flight: Arc<Flight>,
}

impl HttpBody for Answer {
    type Data = Part;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let part = |bytes| Part {
            bytes,
            _flight: Arc::clone(&self.flight),
        };
        frame.map_ok(|frame| frame.map_data(part))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}
