//! `context-init`: files and directories from mounted ConfigMaps into the workspace.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{files, path, variable};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    key: String,
    target_path: PathBuf,
    file_mode: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Directory {
    source_path: PathBuf,
    target_path: PathBuf,
    file_mode: Option<u32>,
}

pub fn run() -> anyhow::Result<()> {
    let source = path("CONFIGMAP_PATH", "/configmap-files");
    for file in mappings::<File>("FILE_MAPPINGS")? {
        let from = source.join(&file.key);
        let content = std::fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        files::write(&file.target_path, &content, file.file_mode.unwrap_or(files::FILE))?;
        say(&file.target_path);
    }
    for directory in mappings::<Directory>("DIR_MAPPINGS")? {
        let mode = directory.file_mode.unwrap_or(files::FILE);
        files::copy_directory(&directory.source_path, &directory.target_path, mode)?;
        say(&directory.target_path);
    }
    Ok(())
}

fn mappings<T: DeserializeOwned>(name: &str) -> anyhow::Result<Vec<T>> {
    let Some(text) = variable(name) else { return Ok(Vec::new()) };
    serde_json::from_str(&text).with_context(|| format!("{name} is not the list of mappings it should be"))
}

fn say(target: &Path) {
    crate::style::say(format_args!("wrote {}", target.display()));
}
