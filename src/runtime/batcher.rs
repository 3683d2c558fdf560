//! Group commit: items that come in while a call is in flight share the next call.
//!
//! An idle batcher makes a call at once, for one item. The more there is to do, the more items share a call. After a call,
//! the tasks that it answered and those whose requests have arrived run first; then the next call is made. A second call
//! begins next to the first when at least as many items wait as the first one has, or more than fit into a call, so that
//! Redis has work while the answers of the first are taken apart. Fewer are not enough: equal items cost a call only once,
//! and each call costs Redis something by itself. Work that makes way for other work has one call in flight at a time.
//!
//! Order: items are taken from the queue, and their call is made, under one lock without an `.await` in between. So calls
//! are made in the order of their items, whichever tasks make them.
//!
//! Tasks: a task that submits a small item to an idle batcher carries out the call itself. All other calls are carried out
//! by a task of the batcher, which ends when nothing is left to do. Either way a client that disconnects does not lose its
//! neighbours' answers: a call whose submitter is dropped continues in a task of its own. An item involves the task of the
//! client's connection (C), that of the batcher (B) and that of the Redis client (R). They are woken this often:
//!
//! | | wakes | new tasks |
//! | --- | --- | --- |
//! | a read or an event alone | C → R, Redis → R, R → C: 3 | 0 |
//! | one alone, if the batcher ran it in its own task (an earlier design) | C → B, B → R, Redis → R, R → B, B → C: 5 | 1 |
//! | n items that share a call, while others are in flight | B → R, Redis → R, R → B, n × B → C: 3 + n | 0 |
//!
//! A write that waits for its turn on its connection (`redis/writer.rs`) causes one more wake, once it is sent.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::supervise::restarted;

/// The greatest cost, in microseconds of Redis, of a call that the submitter's task carries out itself. Reading the answers
/// of a larger call would hold up the other work of that task.
const SMALL_COST_US_MAX: usize = 100;
/// The maximum number of calls of a batcher in flight at once.
const CALLS_MAX: usize = 2;

/// What a batcher does with its items.
pub trait Work: Send + Sync + 'static {
    /// One thing to do, or to ask.
    type Item: Send;
    /// The result of an item.
    type Answer: Send;
    /// The sum of the items of a call.
    type Load: Default + Send;

    /// Whether a call with this load takes an item. If so, the item is added to the load; otherwise the load is unchanged. An
    /// empty call takes any item.
    fn admit(&self, load: &mut Self::Load, item: &Self::Item) -> bool;

    /// About how long a call with this load keeps Redis busy, in microseconds.
    fn cost_us(load: &Self::Load) -> usize;

    /// Whether no second call must begin next to the first now, since other work goes first, or since waiting saves work.
    fn makes_way(&self) -> bool {
        false
    }

    /// Called under the queue's lock whenever this changes: whether more waits than fits into the next call.
    fn note_behind(&self, _is_behind: bool) {}

    /// Makes a call for items, whose sum is `load`; the answers are in their order. What must be done in the order of the
    /// calls is done before this returns its future.
    fn call(
        &self,
        items: Vec<Self::Item>,
        load: Self::Load,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// Adds an item to a load that is a number, unless the sum exceeds `max`. An empty call takes any item.
pub fn admit(load: &mut usize, item: usize, max: usize) -> bool {
    let is_admitted = *load == 0 || *load + item <= max;
    if is_admitted {
        *load += item;
    }
    is_admitted
}

/// Puts items together into calls.
pub struct Batcher<W: Work> {
    work: W,
    /// `None` while it is idle, as most are.
    queue: Mutex<Option<Box<Queue<W>>>>,
    /// Held while items are taken and their call is made.
    calling: Mutex<()>,
}

struct Queue<W: Work> {
    next: Next<W>,
    /// The items that don't fit into the next call.
    behind: VecDeque<Waiting<W>>,
    /// Calls in flight.
    calls: usize,
    /// How many items the last call had.
    last_items: usize,
}

/// The items of the next call, the senders of their answers, and the load. An item is added to the load when it comes in here.
struct Next<W: Work> {
    items: Vec<W::Item>,
    senders: Vec<Sender<W>>,
    load: W::Load,
}

type Waiting<W> = (<W as Work>::Item, Sender<W>);

type Sender<W> = oneshot::Sender<<W as Work>::Answer>;

/// What carries out a new call.
enum Carrier {
    Submitter,
    Task,
}

impl<W: Work> Batcher<W> {
    pub fn new(work: W) -> Arc<Self> {
        Arc::new(Self {
            work,
            queue: Mutex::default(),
            calling: Mutex::default(),
        })
    }

    /// Has an item done, after those that were submitted before; `None` if the call failed by a fault of this program. An item
    /// whose submitter is dropped before its call is made is not done. The future must be polled until it is ready, or
    /// dropped: it may carry out a call.
    pub async fn submit(self: &Arc<Self>, item: W::Item) -> Option<W::Answer> {
        let (sender, answer) = oneshot::channel();
        match self.put(item, sender) {
            Some(Carrier::Submitter) => {
                let batcher = Arc::clone(self);
                let carried_out =
                    restarted("batcher", move || Arc::clone(&batcher).carry_out_one());
                Kept(Some(Box::pin(carried_out))).await;
            }
            Some(Carrier::Task) => self.spawn(),
            None => {}
        }
        answer.await.ok()
    }

    /// Puts an item into the queue; returns what carries out a new call, if there is one to make.
    fn put(&self, item: W::Item, sender: Sender<W>) -> Option<Carrier> {
        let mut queue = self.queue.lock();
        let queue = queue.get_or_insert_default();
        queue.put(&self.work, (item, sender));
        self.work.note_behind(queue.is_full());
        let is_idle = queue.calls == 0;
        if !is_idle && (!queue.fills_second() || queue.calls >= self.calls_max()) {
            return None;
        }
        queue.calls += 1;
        if is_idle && W::cost_us(&queue.next.load) <= SMALL_COST_US_MAX {
            Some(Carrier::Submitter)
        } else {
            Some(Carrier::Task)
        }
    }

    /// How many calls may be in flight now.
    fn calls_max(&self) -> usize {
        if self.work.makes_way() { 1 } else { CALLS_MAX }
    }

    /// Whether more waits than fits into the next call.
    fn is_behind(&self) -> bool {
        let queue = self.queue.lock();
        queue.as_ref().is_some_and(|queue| queue.is_full())
    }

    fn spawn(self: &Arc<Self>) {
        let batcher = Arc::clone(self);
        tokio::spawn(restarted("batcher", move || {
            Arc::clone(&batcher).carry_out_all()
        }));
    }

    /// Carries out calls until there is nothing to do.
    async fn carry_out_all(self: Arc<Self>) {
        while let Some(call) = self.next_call() {
            call.await;
            // Let the tasks run that were just answered, or whose requests have arrived: they may have items for the next
            // call, unless it is full already. Under load a call then has half as many items again, and each costs less.
            if !self.is_behind() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Carries out one call, and leaves what waits then to a task.
    async fn carry_out_one(self: Arc<Self>) {
        if let Some(call) = self.next_call() {
            call.await;
            if !self.ends() {
                self.spawn();
            }
        }
    }

    /// Takes items, and makes their call. `None` if there are too few: then the caller no longer counts as one that carries
    /// out calls, and must stop.
    fn next_call(&self) -> Option<impl Future<Output = ()> + Send> {
        let _order = self.calling.lock();
        let Next {
            items,
            senders,
            load,
        } = self.take_next()?;
        // Boxed, since it passes through several futures, each of which would hold it twice.
        let call = catch_unwind(AssertUnwindSafe(|| Box::pin(self.work.call(items, load))));
        Some(async move {
            // After a panic there are no answers: the senders are dropped, which their submitters notice.
            let Ok(call) = call else {
                return;
            };
            let answers = AssertUnwindSafe(call).catch_unwind().await;
            for (sender, answer) in senders.into_iter().zip(answers.unwrap_or_default()) {
                // An error means that nobody waits for the answer any more.
                drop(sender.send(answer));
            }
        })
    }

    /// The items of the next call, if there is one to make.
    fn take_next(&self) -> Option<Next<W>> {
        let mut held = self.queue.lock();
        let queue = held.as_mut()?;
        let next = self.has_call(queue).then(|| queue.take(&self.work));
        self.work.note_behind(queue.is_full());
        let next = next.filter(|next| !next.items.is_empty());
        if next.is_none() {
            Self::end(&mut held);
        }
        next
    }

    /// Whether the caller ends, since there is no call to make.
    fn ends(&self) -> bool {
        let mut held = self.queue.lock();
        let waits = |queue: &Queue<W>| !queue.next.items.is_empty() && self.has_call(queue);
        let ends = !held.as_deref().is_some_and(waits);
        if ends {
            Self::end(&mut held);
        }
        ends
    }

    /// Notes that one that carries out calls ends. Nothing waits after the last one.
    fn end(held: &mut Option<Box<Queue<W>>>) {
        drop(held.take_if(|queue| {
            queue.calls -= 1;
            queue.calls == 0
        }));
    }

    /// Whether the waiting items, if any, get a call from those that carry out calls.
    fn has_call(&self, queue: &Queue<W>) -> bool {
        queue.calls == 1 || queue.fills_second() && queue.calls <= self.calls_max()
    }
}

impl<W: Work> Queue<W> {
    /// Whether more waits than fits into the next call.
    fn is_full(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Whether enough waits for a second call next to the first.
    fn fills_second(&self) -> bool {
        self.is_full() || self.next.items.len() >= self.last_items
    }

    /// Puts an item after all others.
    fn put(&mut self, work: &W, waiting: Waiting<W>) {
        if self.is_full() {
            self.behind.push_back(waiting);
        } else if let Err(waiting) = self.next.put(work, waiting) {
            self.behind.push_back(waiting);
        }
    }

    /// Takes the items of the next call, without those whose submitters are gone. The items after them move up.
    fn take(&mut self, work: &W) -> Next<W> {
        let mut next = mem::take(&mut self.next);
        if next.senders.iter().any(oneshot::Sender::is_closed) {
            next.items
                .into_iter()
                .zip(next.senders)
                .rev()
                .for_each(|one| self.behind.push_front(one));
            self.move_up(work);
            next = mem::take(&mut self.next);
        }
        self.move_up(work);
        self.last_items = next.items.len();
        next
    }

    /// Moves waiting items into the next call while they fit.
    fn move_up(&mut self, work: &W) {
        while let Some(waiting) = self.behind.pop_front() {
            if waiting.1.is_closed() {
                continue;
            }
            if let Err(waiting) = self.next.put(work, waiting) {
                return self.behind.push_front(waiting);
            }
        }
    }
}

impl<W: Work> Next<W> {
    /// Adds an item to the call; the error is an item that does not fit.
    fn put(&mut self, work: &W, (item, sender): Waiting<W>) -> Result<(), Waiting<W>> {
        if !work.admit(&mut self.load, &item) {
            return Err((item, sender));
        }
        self.items.push(item);
        self.senders.push(sender);
        Ok(())
    }
}

impl<W: Work> Default for Queue<W> {
    fn default() -> Self {
        Self {
            next: Next::default(),
            behind: VecDeque::new(),
            calls: 0,
            last_items: 0,
        }
    }
}

impl<W: Work> Default for Next<W> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            senders: Vec::new(),
            load: W::Load::default(),
        }
    }
}

/// A future that continues in its own task if it is dropped before its end.
struct Kept(Option<BoxFuture<'static, ()>>);

impl Future for Kept {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(future) = &mut self.0 {
            ready!(future.as_mut().poll(context));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let (Some(future), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(future);
        }
    }
}

impl<W: Work> fmt::Debug for Batcher<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;

    /// Doubles numbers. A call takes three, ends when the test lets it, and panics at 13.
    #[derive(Clone)]
    struct Doubling {
        begun: Arc<Mutex<Vec<Vec<u32>>>>,
        ends: Arc<Semaphore>,
        makes_way: Arc<AtomicBool>,
        is_behind: Arc<AtomicBool>,
    }

    impl Work for Doubling {
        type Item = u32;
        type Answer = u32;
        type Load = usize;

        fn admit(&self, load: &mut usize, _: &u32) -> bool {
            admit(load, 1, 3)
        }

        fn cost_us(load: &usize) -> usize {
            load * SMALL_COST_US_MAX
        }

        fn makes_way(&self) -> bool {
            self.makes_way.load(Ordering::Relaxed)
        }

        fn note_behind(&self, is_behind: bool) {
            self.is_behind.store(is_behind, Ordering::Relaxed);
        }

        fn call(&self, items: Vec<u32>, load: usize) -> impl Future<Output = Vec<u32>> + Send {
            assert_eq!(load, items.len());
            assert!(!items.contains(&31), "a fault before the call is made");
            self.begun.lock().push(items.clone());
            async move {
                self.ends.acquire().await.unwrap().forget();
                assert!(!items.contains(&13), "a fault");
                items.into_iter().map(|number| 2 * number).collect()
            }
        }
    }

    struct Bench {
        work: Doubling,
        batcher: Arc<Batcher<Doubling>>,
    }

    impl Bench {
        fn new() -> Self {
            let work = Doubling {
                begun: Arc::default(),
                ends: Arc::new(Semaphore::new(0)),
                makes_way: Arc::default(),
                is_behind: Arc::default(),
            };
            let batcher = Batcher::new(work.clone());
            Self { work, batcher }
        }

        /// A bench whose work makes way.
        fn with_one_call_at_a_time() -> Self {
            let bench = Self::new();
            bench.work.makes_way.store(true, Ordering::Relaxed);
            bench
        }

        /// Submits a number, and lets the others run.
        async fn submit(&self, number: u32) -> JoinHandle<Option<u32>> {
            let batcher = Arc::clone(&self.batcher);
            let answer = tokio::spawn(async move { batcher.submit(number).await });
            pause().await;
            answer
        }

        async fn end_calls(&self, count: usize) {
            self.work.ends.add_permits(count);
            pause().await;
        }

        fn begun(&self) -> Vec<Vec<u32>> {
            self.work.begun.lock().clone()
        }

        /// Whether the work knows that more waits than fits into the next call.
        fn is_behind(&self) -> bool {
            let is_behind = self.work.is_behind.load(Ordering::Relaxed);
            assert_eq!(is_behind, self.batcher.is_behind());
            is_behind
        }
    }

    /// Lets every task that can run do so.
    async fn pause() {
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn items_that_arrive_during_calls_share_the_next_one() {
        let bench = Bench::new();
        let first = bench.submit(1).await;
        assert_eq!(bench.begun(), [[1]], "an idle batcher waits for nothing");
        let second = bench.submit(2).await;
        assert_eq!(bench.begun(), [[1], [2]], "as much waits as is under way");
        let others = [bench.submit(3).await, bench.submit(4).await];
        assert_eq!(bench.begun().len(), 2);
        bench.end_calls(3).await;
        assert_eq!(bench.begun(), [vec![1], vec![2], vec![3, 4]]);
        let answers = [first, second].into_iter().chain(others);
        for (answer, expected) in answers.zip([2, 4, 6, 8]) {
            assert_eq!(answer.await.unwrap(), Some(expected));
        }
    }

    #[tokio::test]
    async fn a_second_call_begins_when_as_many_wait_as_the_first_has_but_no_third() {
        let bench = Bench::new();
        for number in 1..=5 {
            bench.submit(number).await;
        }
        bench.end_calls(2).await;
        assert_eq!(bench.begun(), [vec![1], vec![2], vec![3, 4, 5]]);
        for number in 6..=7 {
            bench.submit(number).await;
        }
        assert_eq!(bench.begun().len(), 3);
        for number in 8..=12 {
            bench.submit(number).await;
        }
        assert_eq!(bench.begun()[3..], [[6, 7, 8]]);
        bench.end_calls(9).await;
        assert_eq!(bench.begun()[4..], [vec![9, 10, 11], vec![12]]);
    }

    #[tokio::test]
    async fn a_yielding_batcher_has_one_call_in_flight() {
        let bench = Bench::new();
        let makes_way = |is_so| bench.work.makes_way.store(is_so, Ordering::Relaxed);
        makes_way(true);
        for number in 1..=5 {
            bench.submit(number).await;
        }
        assert_eq!(bench.begun(), [[1]]);
        assert!(bench.is_behind());
        makes_way(false);
        bench.submit(6).await;
        assert_eq!(bench.begun()[1..], [[2, 3, 4]]);
        for number in 7..=12 {
            bench.submit(number).await;
        }
        makes_way(true);
        bench.end_calls(2).await;
        assert_eq!(bench.begun()[2..], [[5, 6, 7]], "the other carrier ends");
        bench.end_calls(2).await;
        assert_eq!(bench.begun()[3..], [vec![8, 9, 10], vec![11, 12]]);
        assert!(!bench.is_behind());
    }

    #[tokio::test]
    async fn abandoned_items_are_not_done() {
        let bench = Bench::with_one_call_at_a_time();
        bench.submit(1).await;
        bench.submit(2).await.abort();
        bench.submit(3).await;
        bench.end_calls(2).await;
        assert_eq!(bench.begun(), [[1], [3]]);
    }

    #[tokio::test]
    async fn later_items_take_the_places_of_abandoned_ones() {
        let bench = Bench::with_one_call_at_a_time();
        bench.submit(1).await;
        bench.submit(2).await;
        bench.submit(3).await.abort();
        for number in 4..=6 {
            bench.submit(number).await;
        }
        bench.submit(7).await.abort();
        bench.submit(8).await;
        bench.end_calls(3).await;
        assert_eq!(bench.begun(), [vec![1], vec![2, 4, 5], vec![6, 8]]);
        assert!(!bench.is_behind());
    }

    #[tokio::test]
    async fn a_call_goes_on_when_its_submitter_goes_away() {
        let bench = Bench::with_one_call_at_a_time();
        bench.submit(1).await.abort();
        let next = bench.submit(2).await;
        assert_eq!(bench.begun(), [[1]]);
        bench.end_calls(1).await;
        assert_eq!(bench.begun(), [[1], [2]]);
        bench.end_calls(1).await;
        assert_eq!(next.await.unwrap(), Some(4));
    }

    #[tokio::test]
    async fn a_single_small_item_spawns_no_task() {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let bench = Bench::with_one_call_at_a_time();
        let first = bench.submit(1).await;
        assert_eq!(
            (bench.begun().len(), tasks()),
            (1, 1),
            "the submitter alone"
        );
        bench.submit(2).await;
        bench.end_calls(1).await;
        assert_eq!(first.await.unwrap(), Some(2));
        assert_eq!(
            (bench.begun().len(), tasks()),
            (2, 2),
            "the batcher goes on"
        );
        bench.end_calls(1).await;
        assert_eq!(tasks(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn calls_keep_the_order_of_items() {
        let bench = Bench::new();
        bench.work.ends.add_permits(1_000);
        for first in (100..1_000).step_by(100) {
            let numbers = first..first + 100;
            let answers = numbers.clone().map(|number| bench.batcher.submit(number));
            let answers = futures::future::join_all(answers).await;
            let expected = numbers.map(|number| Some(2 * number));
            assert_eq!(answers, expected.collect::<Vec<_>>());
        }
        let begun = bench.begun().concat();
        assert_eq!(begun, (100..1_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn an_aborted_call_does_not_hold_up_others() {
        for fault in [13, 31] {
            let bench = Bench::new();
            let broken = bench.submit(fault).await;
            let next = bench.submit(1).await;
            bench.end_calls(2).await;
            assert_eq!(broken.await.unwrap(), None);
            assert_eq!(next.await.unwrap(), Some(2));
        }
    }
}
