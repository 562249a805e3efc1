//! `orrery crds`

use std::io::Write as _;

/// Prints every definition as one YAML document each.
pub fn run() -> anyhow::Result<()> {
    let mut documents = String::new();
    for definition in api::crds() {
        documents.push_str("---\n");
        documents.push_str(&serde_saphyr::to_string(&definition)?);
    }
    std::io::stdout().lock().write_all(documents.as_bytes())?;
    Ok(())
}
