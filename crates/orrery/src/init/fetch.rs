//! `url-fetch`: one file over HTTP or HTTPS.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{files, is_set, required, variable};

/// More is not a context.
const LARGEST: u64 = 256 << 20;

pub fn run() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(fetch())
}

async fn fetch() -> anyhow::Result<()> {
    let source = required("URL_SOURCE")?;
    let target = PathBuf::from(required("URL_TARGET")?);
    let mode = match variable("URL_FILE_MODE") {
        None => files::FILE,
        Some(text) => {
            u32::from_str_radix(&text, 8).with_context(|| format!("URL_FILE_MODE is {text:?}, which is not octal"))?
        }
    };
    let mut request = client()?.get(&source);
    if let Some(headers) = variable("URL_HEADERS") {
        let headers: BTreeMap<String, String> = serde_json::from_str(&headers).context("URL_HEADERS is not JSON")?;
        for (name, value) in headers {
            request = request.header(name, value);
        }
    }
    if let Some(token) = variable("URL_AUTH_TOKEN") {
        request = request.bearer_auth(token);
    } else if let Some(user) = variable("URL_AUTH_USERNAME") {
        request = request.basic_auth(user, variable("URL_AUTH_PASSWORD"));
    }
    let response = request.send().await.with_context(|| format!("cannot fetch {source}"))?;
    let status = response.status();
    if response.content_length().is_some_and(|length| length > LARGEST) {
        bail!("{source} is larger than {LARGEST} bytes");
    }
    let body = response.bytes().await.with_context(|| format!("cannot fetch {source}"))?;
    if !status.is_success() {
        let said: String = String::from_utf8_lossy(&body).chars().take(500).collect();
        bail!("{source} answered {status}: {said}");
    }
    files::write(&target, &body, mode)?;
    crate::style::say(format_args!("wrote {} ({} bytes)", target.display(), body.len()));
    Ok(())
}

fn client() -> anyhow::Result<reqwest::Client> {
    let seconds = variable("URL_TIMEOUT").and_then(|text| text.parse().ok()).unwrap_or(30);
    let mut builder = reqwest::Client::builder().timeout(Duration::from_secs(seconds));
    if is_set("URL_INSECURE") {
        builder = builder.danger_accept_invalid_certs(true);
    }
    if let Some(bundle) = variable("CUSTOM_CA_CERT_PATH") {
        let text = std::fs::read(&bundle).with_context(|| format!("cannot read {bundle}"))?;
        for certificate in reqwest::Certificate::from_pem_bundle(&text)? {
            builder = builder.add_root_certificate(certificate);
        }
    }
    Ok(builder.build()?)
}
