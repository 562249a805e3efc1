//! What processes cost, from /proc.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Resident memory of processes together, in bytes.
pub fn resident(processes: &[u32]) -> Result<u64> {
    let mut total = 0;
    for process in processes {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().split(' ').next()).context("no VmRSS")?;
        total += kilobytes.parse::<u64>()? * 1024;
    }
    Ok(total)
}

/// A process's share of memory in bytes: what it has with others counts for each in part.
pub fn proportional(process: u32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()).context("no Pss")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}

/// Processor time that processes have used together.
pub fn processor_time(processes: &[u32]) -> Result<Duration> {
    /// Fixed on Linux for user space.
    const TICKS_PER_SECOND: u64 = 100;
    let mut ticks = 0;
    for process in processes {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name in parentheses may hold anything; user and system time are the 12th and 13th after it.
        let (_, rest) = stat.rsplit_once(") ").context("no name in stat")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        ticks += fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    }
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Whether a process still holds anything. One that has ended and waits for its parent to take note does not.
pub fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
