//! Periods that end: closings, results, rewards.

mod closings;
mod results;
mod rewards;
