//! The administrator's kubeconfig.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use apiserver::pki::{self, Pki};
use serde_json::json;

/// Writes the file, mode 0600, in one step.
pub fn write(path: &Path, address: SocketAddr, pki: &Pki) -> anyhow::Result<()> {
    let text = serde_saphyr::to_string(&content(address, pki))?;
    pki::write_private(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn content(address: SocketAddr, pki: &Pki) -> serde_json::Value {
    let encode = |pem: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "orrery",
            "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": encode(&pki.authority),
            },
        }],
        "users": [{
            "name": "admin",
            "user": {
                "client-certificate-data": encode(&pki.admin.certificate),
                "client-key-data": encode(&pki.admin.key),
            },
        }],
        "contexts": [{
            "name": "orrery",
            "context": { "cluster": "orrery", "user": "admin", "namespace": "default" },
        }],
        "current-context": "orrery",
    })
}
