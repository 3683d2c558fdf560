//! Compresses answers for clients that accept it.
//!
//! The HTTP library would wrap every answer. Most backends accept no encoding: their answers are passed on unchanged, with
//! a note for caches that the answer depends on the accepted encodings.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::TryFutureExt;
use futures::future::{Either, MapOk};
use tower::Service;
use tower_http::compression::predicate::{And, DefaultPredicate, Predicate, SizeAbove};
use tower_http::compression::{Compression, CompressionBody, ResponseFuture};

/// Smaller answers take one packet either way, and compressing one takes longer than making it.
const COMPRESSED_BYTES_MIN: u64 = 1_024;

/// Which answers are compressed.
type Compressible = And<DefaultPredicate, SizeAbove>;

/// Compresses the answers of a service.
#[derive(Clone)]
pub(crate) struct Compressed<S>(Compression<S, Compressible>);

impl<S> Compressed<S> {
    /// Wraps this service.
    pub(crate) fn new(inner: S) -> Self {
        let compressible = DefaultPredicate::new().and(SizeAbove::new(COMPRESSED_BYTES_MIN));
        Self(Compression::new(inner).compress_when(compressible))
    }
}

impl<S> Service<Request> for Compressed<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<
        MapOk<S::Future, fn(Response) -> Response>,
        MapOk<
            ResponseFuture<S::Future, Compressible>,
            fn(Response<CompressionBody<Body>>) -> Response,
        >,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if request.headers().contains_key(header::ACCEPT_ENCODING) {
            let compressed: fn(Response<CompressionBody<Body>>) -> Response =
                |answer| varying(answer.map(Body::new));
            Either::Right(self.0.call(request).map_ok(compressed))
        } else {
            let plain: fn(Response) -> Response = varying;
            Either::Left(self.0.get_mut().call(request).map_ok(plain))
        }
    }
}

/// Marks an answer that can depend on the accepted encodings, even if it is too small to be compressed now.
fn varying(mut answer: Response) -> Response {
    let headers = answer.headers();
    let is_encoded = headers.contains_key(header::CONTENT_ENCODING);
    let is_part = headers.contains_key(header::CONTENT_RANGE);
    let is_said = headers
        .get_all(header::VARY)
        .iter()
        .any(|name| name == header::ACCEPT_ENCODING.as_str());
    if !is_encoded && !is_part && !is_said && DefaultPredicate::new().should_compress(&answer) {
        let name = HeaderValue::from(header::ACCEPT_ENCODING);
        answer.headers_mut().append(header::VARY, name);
    }
    answer
}
