//! A control group with a limit of memory, of either version of control groups. Needs root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The group. Removed when dropped; what runs in it must have ended before.
pub struct Limit {
    group: PathBuf,
    peak: &'static str,
}

impl Limit {
    /// Nothing in it gets more than so many bytes; whoever needs more is killed by the kernel.
    pub fn of(bytes: u64) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("orrery-bench-{}", std::process::id());
        let unified = root.join("cgroup.controllers").exists();
        let (group, limit, peak) = if unified {
            // A group hands on only what its parent lets it.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
            (root.join(name), "memory.max", "memory.peak")
        } else {
            (root.join("memory").join(name), "memory.limit_in_bytes", "memory.max_usage_in_bytes")
        };
        fs::create_dir(&group).with_context(|| format!("cannot make the control group {}", group.display()))?;
        let made = Self { group, peak };
        fs::write(made.group.join(limit), bytes.to_string()).context("cannot set the limit of the control group")?;
        if unified {
            // Where there is swap, it must not help.
            let _ = fs::write(made.group.join("memory.swap.max"), "0");
        }
        Ok(made)
    }

    /// Whoever writes its process id there is in it.
    pub fn members(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// The most that was ever used in it.
    pub fn peak(&self) -> Result<u64> {
        Ok(fs::read_to_string(self.group.join(self.peak))?.trim().parse()?)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.group);
    }
}
