//! `orrery crds`

use std::io::Write as _;

use anyhow::Context as _;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

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

/// The same definitions as JSON, one a line: made beforehand, because making them takes longer than the rest of a start.
const DEFINITIONS: &str = include_str!("definitions.jsonl");

/// Says which text a definition was made from: applying one costs more than everything else at a start.
const DIGEST: &str = "orrery.dev/definition-digest";

/// Brings the definitions of this release to the plane, those that are not there already.
pub async fn install(client: kube::Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let present = definitions.list_metadata(&ListParams::default()).await.context("cannot list definitions")?;
    let ours = PatchParams::apply("orrery").force();
    let mut applied = Vec::new();
    for text in DEFINITIONS.lines() {
        let digest = BASE64_STANDARD.encode(Sha256::digest(text));
        if present.iter().any(|definition| definition.annotations().get(DIGEST) == Some(&digest)) {
            continue;
        }
        let mut definition: Value = serde_json::from_str(text)?;
        definition["metadata"]["annotations"][DIGEST] = digest.into();
        let (definitions, ours) = (&definitions, &ours);
        applied.push(async move {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let done = definitions.patch_metadata(name, ours, &Patch::Apply(&definition)).await;
            done.with_context(|| format!("cannot install the definition {name}"))
        });
    }
    // Together: they share one write to the disk.
    futures::future::try_join_all(applied).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ORRERY_UPDATE=1` writes them anew.
    #[test]
    fn the_definitions_inside_are_those_of_the_types() {
        let mut lines = String::new();
        for definition in api::crds() {
            lines.push_str(&serde_json::to_value(definition).expect("JSON").to_string());
            lines.push('\n');
        }
        if std::env::var_os("ORRERY_UPDATE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/definitions.jsonl");
            std::fs::write(path, &lines).expect("the file can be written");
        }
        assert!(
            DEFINITIONS == lines,
            "crates/orrery/src/definitions.jsonl is stale: run this test with ORRERY_UPDATE=1, twice"
        );
    }
}
