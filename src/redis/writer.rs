//! A connection for writes. Redis carries out its calls in the order in which they are made.
//!
//! A caller appends its call to a list. Every caller that changes the list then sends the next calls, as long as there are
//! turns, while it holds the lock of the list and without waiting. So the client's queue has the order of the list,
//! whatever happens to the tasks that wait for replies.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use fred::types::Value;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::StoreError;
use super::connection::{Access, Call, Connection};
use super::failure::Failure;
use super::node::in_time;

/// The turns of a writer, which limit its calls in flight: enough to keep Redis busy, few enough that a read never waits
/// longer than some milliseconds of them. Further calls wait here, in order.
const WRITES_IN_FLIGHT_MAX: u32 = 4;
/// The turns for a write that waits for replicas: it holds up later ones on its connection.
const CONFIRM_TURNS: u32 = 2;

/// A connection for writes, and the turns of its callers.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    list: Mutex<List>,
}

#[derive(Debug)]
struct List {
    free_turns: u32,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    call: Arc<Call>,
    min_replicas: u8,
    sender: oneshot::Sender<Sent>,
}

struct Sent {
    reply: BoxFuture<'static, Result<Value, Failure>>,
    _turns: Turns,
}

/// The turns of a call, returned when this value is dropped.
struct Turns {
    writer: Arc<Writer>,
    count: u32,
}

impl Writer {
    /// Starts connecting, and keeps trying while the writer lives.
    pub(crate) fn connect(access: &Access) -> Result<Arc<Self>, StoreError> {
        Ok(Arc::new(Self {
            connection: Connection::open(access)?,
            list: Mutex::new(List {
                free_turns: WRITES_IN_FLIGHT_MAX,
                waiting: VecDeque::new(),
            }),
        }))
    }

    /// Runs a script that writes, after all earlier calls of this; the future waits for the reply, and until `min_replicas`
    /// replicas have it and everything written before. If the future is dropped before its turn, the call is not sent.
    pub(crate) fn write(
        self: &Arc<Self>,
        call: Arc<Call>,
        min_replicas: u8,
    ) -> impl Future<Output = Result<Value, Failure>> + Send + use<> {
        let (sender, turn) = oneshot::channel();
        self.list.lock().waiting.push_back(Waiting {
            call,
            min_replicas,
            sender,
        });
        self.send_waiting();
        let timeouts = self.connection.timeouts;
        async move {
            let sent = in_time(timeouts, turn).await?;
            sent.reply.await
        }
    }

    /// Sends the calls whose turn it is.
    fn send_waiting(self: &Arc<Self>) {
        loop {
            let mut list = self.list.lock();
            let Some(next) = list.next() else {
                return;
            };
            let sent = Sent {
                reply: Box::pin(self.connection.send(&next.call, next.min_replicas)),
                _turns: Turns {
                    writer: Arc::clone(self),
                    count: next.turns(),
                },
            };
            let unwanted = next.sender.send(sent);
            drop(list);
            // If no caller waits for it any more, its turns end here, which takes the lock.
            drop(unwanted);
        }
    }
}

impl List {
    /// Removes the next call, if there are turns for it.
    fn next(&mut self) -> Option<Waiting> {
        let is_gone = |waiting: &mut Waiting| waiting.sender.is_closed();
        while self.waiting.pop_front_if(is_gone).is_some() {}
        let turns = self.free_turns;
        let next = self.waiting.pop_front_if(|next| next.turns() <= turns)?;
        self.free_turns -= next.turns();
        Some(next)
    }
}

impl Waiting {
    fn turns(&self) -> u32 {
        if self.min_replicas > 0 {
            CONFIRM_TURNS
        } else {
            1
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.writer.list.lock().free_turns += self.count;
        // When the program ends, nothing is sent any more.
        if Handle::try_current().is_ok() {
            self.writer.send_waiting();
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
