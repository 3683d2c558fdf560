//! Several futures at once, each behind a pointer.
//!
//! The functions of `futures` are compiled once for each type of future, which was a sixth of this program's code. Here all
//! callers with one type of result share the code.
//!
//! The pointers have a second reason, as `boxed()` has elsewhere: to prove that a future is `Send`, the compiler walks
//! through everything that it holds, for each route again. The walk ends at a `BoxFuture`. It took half of a build's time.

use futures::FutureExt;
use futures::future::{BoxFuture, JoinAll, TryJoinAll};

/// The results of all futures, in order. They are made, in order, when this is called, and polled with the returned future.
pub(crate) fn join_all<'a, T>(
    futures: impl IntoIterator<Item: Future<Output = T> + Send + 'a>,
) -> JoinAll<BoxFuture<'a, T>> {
    futures::future::join_all(futures.into_iter().map(FutureExt::boxed))
}

/// Like [`join_all`], but ends with the first error, and then drops the other futures.
pub(crate) fn try_join_all<'a, T, E>(
    futures: impl IntoIterator<Item: Future<Output = Result<T, E>> + Send + 'a>,
) -> TryJoinAll<BoxFuture<'a, Result<T, E>>> {
    futures::future::try_join_all(futures.into_iter().map(FutureExt::boxed))
}
