//! What the tests and the benchmark share: programs that end with the value that stands for them, and servers of Redis.
//!
//! Here nothing returns an error: a program that does not start ends the test, or the benchmark.

pub mod process;
pub mod redis;
pub mod servers;
