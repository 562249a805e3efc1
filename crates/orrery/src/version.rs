//! `orrery version`

use std::io::Write as _;

/// Prints the version.
pub fn run() -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "orrery {}", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
