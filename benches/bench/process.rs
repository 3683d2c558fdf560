//! What the system says about programs that the benchmark starts.

pub use crate::kit::process::Process;

/// What Linux counts CPU time in, on every architecture: `USER_HZ` of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What it has now.
    pub now: u64,
    /// The most that it had.
    pub peak: u64,
}

impl Process {
    /// Its memory; `None` where there is no `/proc`.
    pub fn memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(kib * 1024)
        };
        Some(Memory {
            now: bytes("VmRSS:")?,
            peak: bytes("VmHWM:")?,
        })
    }
}

/// The CPU time that a process has used, in seconds; `None` where there is no `/proc`.
pub fn cpu_seconds(process: u32) -> Option<f64> {
    ticks(&process.to_string(), 2)
}

/// The CPU time of the benchmark itself and of the programs that it started and that have ended.
pub fn own_cpu_seconds() -> Option<f64> {
    ticks("self", 4)
}

/// The sum of the first of these fields: user, system, and both of children that have ended.
fn ticks(process: &str, fields: usize) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields = rest.split(' ').skip(11).take(fields);
    let ticks: Option<Vec<f64>> = fields.map(|field| field.parse().ok()).collect();
    Some(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
}
