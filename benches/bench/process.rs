//! Programs that the benchmark starts, and what the system says about them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// The longest wait for a program to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The pause between two looks whether it is.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// What Linux counts CPU time in, on every architecture: `USER_HZ` of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running program; it ends with this value.
pub struct Process(Child);

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What it has now.
    pub now: u64,
    /// The most that it had.
    pub peak: u64,
}

impl Process {
    /// Starts a program that says nothing.
    pub fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program} can't be started: {error}"))?;
        Ok(Self(child))
    }

    /// Waits until the program is ready.
    pub async fn wait_until(&mut self, is_ready: impl AsyncFn() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_ready().await {
            if let Some(status) = self.0.try_wait()? {
                return Err(format!("a program ended before it was ready: {status}").into());
            }
            if begun.elapsed() > READY_WITHIN {
                return Err("a program was not ready in time".into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

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

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
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
