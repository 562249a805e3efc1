//! Puts the definitions of the chart into the binary: as JSON, one a line, they are read in a moment at every start.
//! That they are those of the types is shown by a test of `orrery-api`.

use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new("../../charts/orrery/crds");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    let mut lines = String::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let definition: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(&file)?)?;
        lines.push_str(&serde_json::to_string(&definition)?);
        lines.push('\n');
    }
    let out = std::env::var("OUT_DIR")?;
    Ok(std::fs::write(Path::new(&out).join("definitions.jsonl"), lines)?)
}
