//! Several futures at a time, each behind a pointer.
//!
//! With the functions of `futures` every caller has machinery of its own for its type of future, which was a sixth of what the compiler
//! made of this program. Here all callers with one type of result share it.
//!
//! The pointers have a second reason, as `boxed()` has elsewhere: that a future can be sent to another thread is proved by a walk through
//! everything that it holds, for each route again. The walk ends at a `BoxFuture`. Half of a build's time went into it.

use futures::FutureExt;
use futures::future::{BoxFuture, JoinAll, TryJoinAll};

/// The results of all futures, in the order of the futures. They are made when this is called, in their order, and polled when the
/// future that it returns is.
pub(crate) fn join_all<'a, T>(
    futures: impl IntoIterator<Item: Future<Output = T> + Send + 'a>,
) -> JoinAll<BoxFuture<'a, T>> {
    futures::future::join_all(futures.into_iter().map(FutureExt::boxed))
}

/// Like [`join_all`], but ends with the first error, and drops the other futures then.
pub(crate) fn try_join_all<'a, T, E>(
    futures: impl IntoIterator<Item: Future<Output = Result<T, E>> + Send + 'a>,
) -> TryJoinAll<BoxFuture<'a, Result<T, E>>> {
    futures::future::try_join_all(futures.into_iter().map(FutureExt::boxed))
}
