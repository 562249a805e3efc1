//! `orrery crds`

use std::io::Write as _;

use anyhow::Context as _;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
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

/// Says which text a definition was made from: applying one costs more than everything else at a start.
const DIGEST: &str = "orrery.dev/definition-digest";

/// Brings the definitions of this release to the plane, those that are not there already.
pub async fn install(client: kube::Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let present = definitions.list_metadata(&ListParams::default()).await.context("cannot list definitions")?;
    let digest_of = |name: &str| {
        let found = present.iter().find(|definition| definition.name_any() == name)?;
        found.annotations().get(DIGEST).cloned()
    };
    let ours = PatchParams::apply("orrery").force();
    let mut applied = Vec::new();
    for mut definition in api::crds() {
        let name = definition.name_any();
        let digest = BASE64_STANDARD.encode(Sha256::digest(serde_json::to_vec(&definition)?));
        if digest_of(&name).as_ref() == Some(&digest) {
            continue;
        }
        definition.annotations_mut().insert(DIGEST.to_owned(), digest);
        let (definitions, ours) = (&definitions, &ours);
        applied.push(async move {
            definitions
                .patch(&name, ours, &Patch::Apply(&definition))
                .await
                .with_context(|| format!("cannot install the definition {name}"))
        });
    }
    // Together: they share one write to the disk.
    futures::future::try_join_all(applied).await?;
    Ok(())
}
