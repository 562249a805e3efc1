//! Measures Orrery, side by side with the real thing where it is there, and writes down what came out.
//!
//! A benchmark is a section: a function that fills a table. New ones go into [`SECTIONS`].

mod controller;
mod deploy;
mod discovery;
mod echo;
mod machine;
mod packs;
mod plane;
mod pods;
mod process;
mod report;
mod schedules;
mod server;
mod stage;
mod subject;
mod tasks;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::report::{Number, Section};

type Measure = fn(&Arguments) -> Result<Section>;

/// What can be measured: a name for `--only`, and how.
const SECTIONS: &[(&str, Measure)] = &[
    ("plane", plane::run),
    ("pods", pods::run),
    ("server", server::run),
    ("tasks", tasks::run),
    ("schedules", schedules::run),
    ("controller", controller::run),
    ("deploy", deploy::run),
    ("packs", packs::run),
    ("discovery", discovery::run),
];

#[derive(Debug, Parser)]
#[command(about = "Measure Orrery and write docs/benchmarks.md")]
struct Arguments {
    /// Only this section
    #[arg(long)]
    only: Option<String>,
    /// Where the results go; each section replaces its own part
    #[arg(long, default_value = "docs/benchmarks.md")]
    output: PathBuf,
    /// How often each side is measured in turn; the medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The orrery binary; the one beside this program by default
    #[arg(long)]
    orrery: Option<PathBuf>,
    /// A directory with etcd and kube-apiserver to compare with
    #[arg(long, env = "KUBEBUILDER_ASSETS")]
    kubernetes: Option<OsString>,
    /// Where the servers keep their data while they are measured: it must be a real disk
    #[arg(long, default_value = "target/bench")]
    data: PathBuf,
    #[command(subcommand)]
    role: Option<echo::Role>,
}

impl Arguments {
    fn orrery(&self) -> Result<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("orrery");
        Ok(self.orrery.clone().unwrap_or(beside))
    }

    /// Measures as often as asked.
    fn rounds<F: Future<Output = Result<Vec<Number>>>>(&self, measure: impl Fn() -> F) -> Result<Vec<Vec<Number>>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut rounds = Vec::new();
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            rounds.push(runtime.block_on(measure())?);
        }
        Ok(rounds)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(role) = arguments.role {
        return echo::play(role);
    }
    std::fs::create_dir_all(&arguments.data)?;
    for (name, measure) in SECTIONS {
        if arguments.only.as_deref().is_some_and(|only| only != *name) {
            continue;
        }
        let section = measure(&arguments).with_context(|| format!("failed to measure {name}"))?;
        eprintln!("{}", section.table());
        report::write(&arguments.output, name, &section)?;
    }
    Ok(())
}
