//! `orrery down`: ends what a plane that no longer runs has left running on this machine.

use std::path::PathBuf;

use anyhow::Context as _;
use node::process::{Process, Shims};

use crate::{data_dir, style};

/// Which plane.
#[derive(clap::Args)]
#[group(id = "down")]
pub struct Options {
    /// Where the plane keeps everything; by default `orrery` under the XDG data home.
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Ends every Pod's processes and the Pod network. Objects stay: the next `orrery up` starts their Pods again, as far
/// as they may be started again.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let folder = data_dir::resolve(options.data_dir)?;
    // Holding the store says that no plane runs, and keeps one from starting meanwhile.
    let store = store::Store::open(folder.join("store.db"), store::Options::default())
        .context("the plane is running; stop it first (Ctrl-C or SIGTERM)")?;
    let data = folder.join("node");
    let driver = Process::new(data.join("pods"), Shims::own());
    let ended = node::end_all(&data, &driver).await;
    store.close().await;
    style::say(format_args!("ended {ended} {}", if ended == 1 { "Pod" } else { "Pods" }));
    Ok(())
}
