//! Periods that end: closings, results, rewards.

mod closings;
mod exports;
mod results;
mod rewards;
