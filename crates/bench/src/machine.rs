//! Where the numbers come from.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::report::{milliseconds, quantile};

/// Facts about this machine, as Markdown.
pub fn facts(data: &Path) -> Result<String> {
    let value = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("unknown");
        line.rsplit(':').next().unwrap_or_default().trim().to_owned()
    };
    let cores = std::thread::available_parallelism()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let mut syncs = sync_times(data)?;
    Ok(format!(
        "Machine: {cores} cores ({}), {} memory, Linux {}. A synced append of 4 kB to this disk: p50 {}, p99 {}. \
         Load average before the run: {}.",
        value("/proc/cpuinfo", "model name"),
        value("/proc/meminfo", "MemTotal"),
        kernel.trim(),
        milliseconds(quantile(&mut syncs, 0.5)),
        milliseconds(quantile(&mut syncs, 0.99)),
        load.split(' ').next().unwrap_or_default(),
    ))
}

/// How long the disk takes to promise something: the floor for every durable write.
fn sync_times(directory: &Path) -> Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(&vec![1; 4 << 20])?;
    file.sync_all()?;
    let mut times = Vec::new();
    for number in 0..300 {
        file.seek(SeekFrom::Start(number * 4096))?;
        file.write_all(&[2; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(times)
}
