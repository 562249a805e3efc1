//! `orrery crds`

use std::io::Write as _;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};

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

/// Brings the definitions of this release to the plane.
pub async fn install(client: kube::Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let ours = PatchParams::apply("orrery").force();
    let applied = api::crds().into_iter().map(|definition| {
        let (definitions, ours) = (&definitions, &ours);
        async move {
            let name = definition.metadata.name.clone().unwrap_or_default();
            definitions
                .patch(&name, ours, &Patch::Apply(&definition))
                .await
                .with_context(|| format!("cannot install the definition {name}"))
        }
    });
    // Together: they share one write to the disk.
    futures::future::try_join_all(applied).await?;
    Ok(())
}
