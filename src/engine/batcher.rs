//! Group commit: what comes in while a call is under way goes together in the next one.
//!
//! An idle line sends a job at once, alone; the more there is to do, the more jobs share a call. A second call is
//! begun beside the first when there is enough to fill it, so that Redis has work while the answers of the first
//! are taken apart. Calls run in tasks of their own: a client that goes away does not take its neighbours'
//! answers along.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::begin::begin_under;
use crate::supervise::restarted;

/// Calls that a line has under way at one time, at the most.
const CALLS_MAX: usize = 2;

/// What a line does.
pub trait Work: Send + Sync + 'static {
    /// What is to be done.
    type Job: Send;
    /// What came of it.
    type Answer: Send;
    /// What has been put into a call so far.
    type Load: Default + Send;

    /// Whether a job goes into a call with this load, which then contains it. An empty call takes any job.
    fn admit(&self, load: &mut Self::Load, job: &Self::Job) -> bool;

    /// Does some jobs in one call; the answers are in their order.
    fn call(&self, jobs: Vec<Self::Job>) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// A line of jobs.
pub struct Line<W: Work> {
    work: W,
    state: Mutex<State<W>>,
    /// Held by a run from taking jobs to beginning their call.
    beginning: tokio::sync::Mutex<()>,
}

struct State<W: Work> {
    waiting: VecDeque<Waiting<W>>,
    /// What waits, as far as it goes into one call, and whether that call is full.
    load: W::Load,
    is_full: bool,
    /// Calls under way.
    calls: usize,
}

/// The jobs of a call, and those who wait for their answers.
struct Call<W: Work> {
    jobs: Vec<W::Job>,
    senders: Vec<oneshot::Sender<W::Answer>>,
}

type Waiting<W> = (<W as Work>::Job, oneshot::Sender<<W as Work>::Answer>);

impl<W: Work> Line<W> {
    /// An idle line.
    pub fn new(work: W) -> Arc<Self> {
        Arc::new(Self {
            work,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                load: W::Load::default(),
                is_full: false,
                calls: 0,
            }),
            beginning: tokio::sync::Mutex::default(),
        })
    }

    /// Has a job done, in the order of the line; `None` if the call broke off by a fault of this program.
    /// A job whose caller goes away before its call begins is not done.
    pub async fn submit(self: &Arc<Self>, job: W::Job) -> Option<W::Answer> {
        let (sender, receiver) = oneshot::channel();
        let begins = {
            let mut state = self.state.lock();
            self.weigh(&mut state, &job);
            state.waiting.push_back((job, sender));
            let begins = state.calls == 0 || (state.is_full && state.calls < CALLS_MAX);
            state.calls += usize::from(begins);
            begins
        };
        if begins {
            let line = Arc::clone(self);
            tokio::spawn(restarted("line", move || Arc::clone(&line).run()));
        }
        receiver.await.ok()
    }

    /// Does what waits until nothing does.
    async fn run(self: Arc<Self>) {
        loop {
            let beginning = self.beginning.lock().await;
            let Some(Call { jobs, senders }) = self.next_call() else {
                return;
            };
            // After a panic there are no answers: the senders are dropped, and their callers told so.
            let call = AssertUnwindSafe(self.work.call(jobs)).catch_unwind();
            // Its first poll queues it at the server: so that none overtakes the one before it.
            let answers = begin_under(beginning, call).await;
            for (sender, answer) in senders.into_iter().zip(answers.unwrap_or_default()) {
                // If nobody waits for it any more, nobody is told.
                drop(sender.send(answer));
            }
        }
    }

    /// Takes note of a job that waits.
    fn weigh(&self, state: &mut State<W>, job: &W::Job) {
        state.is_full = state.is_full || !self.work.admit(&mut state.load, job);
    }

    /// The jobs of the next call; `None` if there are too few, and the run that asks has ended with that.
    fn next_call(&self) -> Option<Call<W>> {
        let mut state = self.state.lock();
        let (mut jobs, mut senders) = (Vec::new(), Vec::new());
        if state.calls == 1 || state.is_full {
            let mut load = W::Load::default();
            while let Some((job, sender)) = state.waiting.pop_front() {
                if sender.is_closed() {
                    continue;
                }
                if !self.work.admit(&mut load, &job) && !jobs.is_empty() {
                    state.waiting.push_front((job, sender));
                    break;
                }
                jobs.push(job);
                senders.push(sender);
            }
            self.weigh_again(&mut state);
        }
        if jobs.is_empty() {
            state.calls -= 1;
            return None;
        }
        Some(Call { jobs, senders })
    }

    /// Weighs what waits, as far as it takes to fill a call.
    fn weigh_again(&self, state: &mut State<W>) {
        state.load = W::Load::default();
        let load = &mut state.load;
        state.is_full = !state
            .waiting
            .iter()
            .all(|(job, _)| self.work.admit(load, job));
    }
}

impl<W: Work> fmt::Debug for Line<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;

    /// Doubles numbers. A call takes three, ends when it is let, and breaks off at 13.
    #[derive(Clone)]
    struct Doubling {
        begun: Arc<Mutex<Vec<Vec<u32>>>>,
        ends: Arc<Semaphore>,
    }

    impl Work for Doubling {
        type Job = u32;
        type Answer = u32;
        type Load = usize;

        fn admit(&self, load: &mut usize, _: &u32) -> bool {
            *load += 1;
            *load <= 3
        }

        async fn call(&self, jobs: Vec<u32>) -> Vec<u32> {
            self.begun.lock().push(jobs.clone());
            self.ends.acquire().await.unwrap().forget();
            assert!(!jobs.contains(&13), "a fault");
            jobs.into_iter().map(|number| 2 * number).collect()
        }
    }

    struct Bench {
        work: Doubling,
        line: Arc<Line<Doubling>>,
    }

    impl Bench {
        fn new() -> Self {
            let work = Doubling {
                begun: Arc::default(),
                ends: Arc::new(Semaphore::new(0)),
            };
            let line = Line::new(work.clone());
            Self { work, line }
        }

        /// Submits a number, and lets the others run.
        async fn submit(&self, number: u32) -> JoinHandle<Option<u32>> {
            let line = Arc::clone(&self.line);
            let answer = tokio::spawn(async move { line.submit(number).await });
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
    }

    /// Lets every task that can run do so.
    async fn pause() {
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_comes_in_during_a_call_goes_together_in_the_next() {
        let bench = Bench::new();
        let first = bench.submit(1).await;
        assert_eq!(bench.begun(), [[1]], "an idle line waits for nothing");
        let others = [bench.submit(2).await, bench.submit(3).await];
        assert_eq!(bench.begun().len(), 1);
        bench.end_calls(2).await;
        assert_eq!(bench.begun(), [vec![1], vec![2, 3]]);
        assert_eq!(first.await.unwrap(), Some(2));
        for (answer, expected) in others.into_iter().zip([4, 6]) {
            assert_eq!(answer.await.unwrap(), Some(expected));
        }
    }

    #[tokio::test]
    async fn a_second_call_begins_when_there_is_enough_to_fill_it_and_no_third() {
        let bench = Bench::new();
        for number in 1..=9 {
            bench.submit(number).await;
        }
        assert_eq!(bench.begun(), [vec![1], vec![2, 3, 4]]);
        bench.end_calls(9).await;
        assert_eq!(bench.begun()[2..], [vec![5, 6, 7], vec![8, 9]]);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_done() {
        let bench = Bench::new();
        bench.submit(1).await;
        bench.submit(2).await.abort();
        bench.submit(3).await;
        bench.end_calls(2).await;
        assert_eq!(bench.begun(), [[1], [3]]);
    }

    #[tokio::test]
    async fn a_call_that_breaks_off_does_not_hold_up_the_line() {
        let bench = Bench::new();
        let broken = bench.submit(13).await;
        let next = bench.submit(1).await;
        bench.end_calls(2).await;
        assert_eq!(broken.await.unwrap(), None);
        assert_eq!(next.await.unwrap(), Some(2));
    }
}
