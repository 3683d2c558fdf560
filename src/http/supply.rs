//! Supplies: memory, connections and streams, which are limited and shared by all callers.
//!
//! One rule for all of them: what a taker gets must leave as much free as the taker already has, but at most an eighth of
//! the supply. So a single taker may use all of a supply except that eighth. Beyond that, takers with little are served,
//! and the one with the most waits or is refused.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use crate::domain::access::Taker;

/// The share of a supply that is kept for takers with little: an eighth.
const KEPT: usize = 8;

/// All takers that a request counts for: it gets what each of them may have. Empty for what the service does for itself.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Takers([Option<Taker>; 2]);

/// A limited amount of something, shared by all.
#[derive(Clone, Debug)]
pub struct Supply(Arc<Mutex<State>>);

/// What was taken from a supply; dropping this value gives it back.
#[derive(Debug)]
pub struct Taken {
    supply: Supply,
    by: Takers,
    amount: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The total amount.
    max: usize,
    /// How much is taken.
    taken: usize,
    /// How much each taker has, if any.
    had: HashMap<Taker, usize>,
    /// The waiting requests. Those with equal takers are served in order.
    waiting: HashMap<Takers, VecDeque<Waiting>>,
    /// The number of the next waiting request.
    turn: u64,
}

/// Why nothing could be taken.
#[derive(Debug, Eq, PartialEq)]
pub enum Shortage<'a> {
    /// Nothing is left for these takers.
    All,
    /// One of them has reached its bound.
    Of(&'a Taker),
}

#[derive(Debug)]
struct Waiting {
    turn: u64,
    amount: usize,
    sender: oneshot::Sender<Taken>,
}

/// The place of a waiting request; dropping this value gives it up.
struct Place<'a> {
    supply: &'a Supply,
    by: &'a Takers,
    turn: u64,
}

impl Takers {
    pub fn one(taker: impl Into<Option<Taker>>) -> Self {
        Self([taker.into(), None])
    }

    /// These two, if they are known.
    pub fn both(one: Option<Taker>, other: Option<Taker>) -> Self {
        Self([one, other])
    }

    /// Iterates over them.
    pub fn iter(&self) -> impl Iterator<Item = &Taker> {
        self.0.iter().flatten()
    }
}

impl Supply {
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            max,
            ..State::default()
        })))
    }

    /// Takes an amount, if these takers may have it. An amount beyond the total is capped.
    pub fn try_take(&self, by: &Takers, amount: usize) -> Option<Taken> {
        let mut state = self.0.lock();
        let amount = amount.min(state.max);
        state.has_room(by, amount).then(|| {
            state.take(by, amount);
            self.taken(by, amount)
        })
    }

    /// Like [`Self::try_take`], with a bound for each taker.
    ///
    /// # Errors
    ///
    /// What there is too little of.
    pub fn try_take_within<'a>(
        &self,
        by: &'a Takers,
        amount: usize,
        bound: impl Fn(&Taker) -> usize,
    ) -> Result<Taken, Shortage<'a>> {
        let mut state = self.0.lock();
        let would_have = |taker: &Taker| state.had.get(taker).unwrap_or(&0) + amount;
        if let Some(full) = by.iter().find(|taker| would_have(taker) > bound(taker)) {
            return Err(Shortage::Of(full));
        }
        if !state.has_room(by, amount) {
            return Err(Shortage::All);
        }
        state.take(by, amount);
        Ok(self.taken(by, amount))
    }

    /// Takes an amount, once these takers may have it and no taker with less waits. An amount beyond the total is capped.
    ///
    /// # Panics
    ///
    /// Only by a bug in this module.
    pub async fn take(&self, by: &Takers, amount: usize) -> Taken {
        let taken = self.update(|state| {
            let amount = amount.min(state.max);
            if state.waiting.is_empty() && state.has_room(by, amount) {
                state.take(by, amount);
                Ok(amount)
            } else {
                Err(state.wait(by, amount))
            }
        });
        let (turn, receiver) = match taken {
            Ok(amount) => return self.taken(by, amount),
            Err(waiting) => waiting,
        };
        let supply = self;
        let _place = Place { supply, by, turn };
        let taken = receiver.await;
        taken.expect("invariant: a request that waits is served, or gives up its place")
    }

    /// Changes the state, and then serves waiting requests.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, served) = {
            let mut state = self.0.lock();
            (change(&mut state), self.serve(&mut state))
        };
        // What is for a request that has just left is given back, which locks the supply again.
        for (sender, taken) in served {
            let _ = sender.send(taken);
        }
        changed
    }

    fn taken(&self, by: &Takers, amount: usize) -> Taken {
        Taken {
            supply: self.clone(),
            by: by.clone(),
            amount,
        }
    }

    /// Serves waiting requests while there is enough, those with the least first.
    fn serve(&self, state: &mut State) -> Vec<(oneshot::Sender<Taken>, Taken)> {
        let mut served = Vec::new();
        while let Some((by, turn, amount)) = state.next() {
            if !state.has_room(&by, amount) {
                break;
            }
            if let Some(waiting) = state.leave(&by, turn) {
                state.take(&by, amount);
                served.push((waiting.sender, self.taken(&by, amount)));
            }
        }
        served
    }

    fn give_back(&self, by: &Takers, amount: usize) {
        if amount > 0 {
            self.update(|state| state.give_back(by, amount));
        }
    }
}

impl State {
    /// The largest amount that any of these takers has.
    fn most_of(&self, by: &Takers) -> usize {
        by.iter()
            .filter_map(|taker| self.had.get(taker))
            .copied()
            .max()
            .unwrap_or(0)
    }

    /// The rule: the amount leaves as much free as these takers already have, or an eighth.
    fn has_room(&self, by: &Takers, amount: usize) -> bool {
        let left = (self.max - self.taken).checked_sub(amount);
        left.is_some_and(|left| left >= self.most_of(by).min(self.max / KEPT))
    }

    fn take(&mut self, by: &Takers, amount: usize) {
        self.taken += amount;
        for taker in by.iter().filter(|_| amount > 0) {
            match self.had.get_mut(taker) {
                Some(had) => *had += amount,
                None => drop(self.had.insert(taker.clone(), amount)),
            }
        }
    }

    fn give_back(&mut self, by: &Takers, amount: usize) {
        self.taken -= amount;
        for taker in by.iter() {
            if let Some(had) = self.had.get_mut(taker) {
                *had -= amount;
                if *had == 0 {
                    self.had.remove(taker);
                }
            }
        }
    }

    fn wait(&mut self, by: &Takers, amount: usize) -> (u64, oneshot::Receiver<Taken>) {
        let (sender, receiver) = oneshot::channel();
        let turn = self.turn;
        self.turn += 1;
        let queue = self.waiting.entry(by.clone()).or_default();
        queue.push_back(Waiting {
            turn,
            amount,
            sender,
        });
        (turn, receiver)
    }

    /// The request that is served next: its takers, its turn, and how much it takes.
    fn next(&self) -> Option<(Takers, u64, usize)> {
        let next = self
            .waiting
            .iter()
            .filter_map(|(by, queue)| Some((by, queue.front()?)))
            .min_by_key(|(by, first)| (self.most_of(by), first.turn));
        next.map(|(by, first)| (by.clone(), first.turn, first.amount))
    }

    /// Removes a waiting request; `None` if it no longer waits.
    fn leave(&mut self, by: &Takers, turn: u64) -> Option<Waiting> {
        let queue = self.waiting.get_mut(by)?;
        let place = queue.binary_search_by_key(&turn, |waiting| waiting.turn);
        let left = place.ok().and_then(|place| queue.remove(place));
        if queue.is_empty() {
            self.waiting.remove(by);
        }
        left
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Others may have waited for this one alone.
        self.supply.update(|state| state.leave(self.by, self.turn));
    }
}

impl Taken {
    /// How much it is.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more of the same supply, if the same takers may have it.
    pub fn grow(&mut self, amount: usize) -> bool {
        if amount == 0 {
            return true;
        }
        let more = self.supply.try_take(&self.by, amount);
        let grows = more.is_some();
        self.amount += more.map_or(0, |mut more| std::mem::take(&mut more.amount));
        grows
    }

    /// Makes it count for other takers, if they may have it.
    pub fn pass_to(&mut self, by: &Takers) -> bool {
        if self.by == *by {
            return true;
        }
        self.supply.update(|state| {
            state.give_back(&self.by, self.amount);
            let has_room = state.has_room(by, self.amount);
            if has_room {
                self.by = by.clone();
            }
            state.take(&self.by, self.amount);
            has_room
        })
    }

    /// Gives back all but this amount.
    pub fn shrink_to(&mut self, amount: usize) {
        let spare = self.amount.saturating_sub(amount);
        self.amount -= spare;
        self.supply.give_back(&self.by, spare);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.supply.give_back(&self.by, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt;

    use super::*;
    use crate::domain::ids::MemberId;
    use crate::domain::quota::Network;

    fn address(number: u8) -> Takers {
        let network = Network::parse(&format!("10.0.0.{number}")).unwrap();
        Takers::one(Taker::Address(network))
    }

    /// Takes one at a time, up to what these takers may have.
    fn take_all(supply: &Supply, by: &Takers) -> Vec<Taken> {
        std::iter::from_fn(|| supply.try_take(by, 1)).collect()
    }

    type Wait<'a> = Pin<Box<dyn Future<Output = Taken> + 'a>>;

    /// Asks for an amount that is not available yet.
    fn wait<'a>(supply: &'a Supply, by: &'a Takers, amount: usize) -> Wait<'a> {
        let mut waiting: Wait<'a> = Box::pin(supply.take(by, amount));
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    #[test]
    fn one_taker_gets_all_but_an_eighth_which_is_left_for_newcomers() {
        let supply = Supply::new(800);
        let first = take_all(&supply, &address(1));
        assert_eq!(first.len(), 700);
        let second = take_all(&supply, &address(2));
        assert_eq!(second.len(), 50, "as much as it leaves");
        let third = take_all(&supply, &address(3));
        assert_eq!(third.len(), 25);
        assert!(supply.try_take(&address(4), 25).is_some());
        drop(first);
        assert_eq!(take_all(&supply, &address(2)).len(), 800 - 100 - 50 - 25);
        drop((second, third));
        assert!(supply.try_take(&address(1), 800).is_some(), "all of it");
        assert!(supply.try_take(&address(1), 8_000).is_some(), "no more");
        assert!(supply.0.lock().had.is_empty());
    }

    #[test]
    fn many_takers_get_equal_shares_and_leave_one_more() {
        let supply = Supply::new(10_200);
        let mut held = Vec::new();
        loop {
            let before = held.len();
            held.extend((1..=50).filter_map(|one| supply.try_take(&address(one), 1)));
            if held.len() == before {
                break;
            }
        }
        assert_eq!(held.len(), 50 * 200);
        assert!(supply.try_take(&address(51), 200).is_some());
    }

    #[test]
    fn a_shared_amount_counts_for_both_takers() {
        let supply = Supply::new(80);
        let player = |id: &str| Some(Taker::Player(MemberId::parse(id).unwrap()));
        let at = |number: u8| address(number).0[0].clone();
        let mut held = Vec::new();
        for place in 0..70 {
            let by = Takers::both(player(&format!("player-{place}")), at(1));
            held.push(supply.try_take(&by, 1).unwrap());
        }
        let another = Takers::both(player("another"), at(1));
        assert!(supply.try_take(&another, 1).is_none(), "it is one address");
        let elsewhere = Takers::both(player("another"), at(2));
        assert!(supply.try_take(&elsewhere, 1).is_some());
        let nobody = Takers::default();
        assert!(supply.try_take(&nobody, 10).is_some());
    }

    #[test]
    fn a_taken_amount_grows_and_shrinks() {
        let supply = Supply::new(80);
        let mut taken = supply.try_take(&address(1), 20).unwrap();
        assert!(taken.grow(50));
        assert!(!taken.grow(1) && taken.grow(0));
        assert_eq!(taken.amount(), 70);
        taken.shrink_to(10);
        taken.shrink_to(30);
        assert_eq!((taken.amount(), supply.0.lock().taken), (10, 10));
        drop(taken);
        assert_eq!(supply.0.lock().taken, 0);
    }

    #[test]
    fn a_taken_amount_passes_to_another_taker_with_room() {
        let supply = Supply::new(80);
        let of_one = take_all(&supply, &address(1));
        let mut passed = supply.try_take(&Takers::default(), 1).unwrap();
        assert!(!passed.pass_to(&address(1)), "it has all that it may have");
        assert!(passed.pass_to(&address(2)));
        drop(of_one);
        assert!(passed.pass_to(&address(1)));
        drop(passed);
        let state = supply.0.lock();
        assert!(state.taken == 0 && state.had.is_empty());
    }

    #[tokio::test]
    async fn the_taker_with_the_least_is_served_first() {
        let (one, two, three) = (address(1), address(2), address(3));
        let supply = Supply::new(80);
        let mut held = take_all(&supply, &one);
        let mut of_two = vec![supply.try_take(&two, 5).unwrap()];
        let mut first = wait(&supply, &one, 8);
        let mut second = wait(&supply, &two, 8);
        let mut third = wait(&supply, &three, 8);
        held.truncate(65);
        let taken = (&mut third).now_or_never();
        assert_eq!(taken.expect("it has nothing").amount(), 8);
        held.truncate(60);
        assert!((&mut first).now_or_never().is_none());
        of_two.push((&mut second).now_or_never().expect("it has 5"));
        held.truncate(40);
        assert!((&mut first).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_makes_room_and_a_late_grant_is_returned() {
        let (one, two, three) = (address(1), address(2), address(3));
        let supply = Supply::new(80);
        let held = take_all(&supply, &one);
        let large = wait(&supply, &two, 60);
        let mut small = wait(&supply, &three, 5);
        drop(large);
        let small = (&mut small).now_or_never().expect("nobody is before it");
        let late = wait(&supply, &two, 70);
        drop(held);
        // It was served, but has not been polled since.
        drop(late);
        drop(small);
        let state = supply.0.lock();
        assert_eq!(state.taken, 0);
        assert!(state.had.is_empty() && state.waiting.is_empty());
    }
}
