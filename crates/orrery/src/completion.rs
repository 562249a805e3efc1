//! `orrery completion`

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::Shell;

/// Which shell.
#[derive(clap::Args)]
pub struct Options {
    /// The shell to complete for.
    shell: Shell,
}

/// Prints the script.
pub fn run(options: &Options) -> anyhow::Result<()> {
    // Collected first: the generator panics on a closed pipe, we would rather report it.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut crate::Arguments::command(), "orrery", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}
