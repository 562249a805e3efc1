//! `orrery image`: images that Pods of this machine can run.

use std::io::Write as _;
use std::path::PathBuf;

use node::driver::Driver as _;
use node::images::store::Store;
use node::process::{Process, Shims};

use crate::{data_dir, style};

/// What to do with images.
#[derive(clap::Args)]
#[group(id = "image")]
pub struct Options {
    /// Where the plane keeps everything; by default `orrery` under the XDG data home.
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Import an image from an OCI layout, or from an archive of one (also of `docker save` or `podman save`).
    Import {
        /// The directory or the archive.
        source: PathBuf,
        /// What to call it, when it has no name of its own or another is wanted.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// List imported images.
    List,
    /// Remove an image that no Pod runs.
    Remove {
        /// Its name or id.
        name: String,
    },
}

/// Does it.
pub fn run(options: Options) -> anyhow::Result<()> {
    let folder = data_dir::resolve(options.data_dir)?;
    data_dir::prepare(&folder)?;
    let data = folder.join("node");
    let store = Store::new(&data);
    match options.verb {
        Verb::Import { source, name } => {
            let driver = Process::new(data.join("pods"), Shims::own());
            let record = store.import(&source, name.as_deref(), &driver.identity(&[])?)?;
            style::say(format_args!("imported {} ({})", record.names.join(", "), record.id));
        }
        Verb::List => {
            let mut out = std::io::stdout().lock();
            let records = store.list();
            let width = records.iter().map(|record| record.names.join(",").len()).max().unwrap_or(0).max(4);
            writeln!(out, "{:width$}  {:24}  {:>9}", "NAME", "ID", "SIZE")?;
            for record in records {
                let size = format!("{} MB", record.size.div_ceil(1_000_000));
                writeln!(out, "{:width$}  {:24}  {size:>9}", record.names.join(","), record.id)?;
            }
        }
        Verb::Remove { name } => {
            store.remove(&name)?;
            style::say(format_args!("removed {name}"));
        }
    }
    Ok(())
}
