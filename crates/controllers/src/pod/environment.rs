//! Environment variables, in an order that never changes by itself.

use api::kubeopencode::{Credential, Proxy};
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, SecretEnvSource, SecretKeySelector};

use super::settings::Settings;

/// Where the authorities' certificates are mounted, and the file in it.
pub(super) const CA_DIRECTORY: &str = "/etc/ssl/certs/custom-ca";
pub(super) const CA_FILE: &str = "/etc/ssl/certs/custom-ca/tls.crt";
/// The public authorities and ours in one file, for programs that take only one.
pub(super) const CA_MERGED: &str = "/tools/ca-bundle.crt";
/// The agent's configuration.
pub(super) const CONFIG_FILE: &str = "/etc/kubeopencode/opencode.json";

pub(crate) fn variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

pub(crate) fn from_secret(name: &str, secret: &str, key: &str, optional: bool) -> EnvVar {
    let selector = SecretKeySelector { name: secret.into(), key: key.into(), optional: optional.then_some(true) };
    let source = EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.into(), value: None, value_from: Some(source) }
}

/// What every container has first.
pub(super) fn basics(workspace: &str) -> Vec<EnvVar> {
    vec![variable("HOME", "/tmp"), variable("SHELL", "/bin/bash"), variable("WORKSPACE_DIR", workspace)]
}

/// What the agent's own container has: `own` comes after the basics, the rest after it.
pub(super) fn of_main(settings: &Settings, own: &[EnvVar], instructions: bool, git: bool) -> Vec<EnvVar> {
    let path = "/tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut env = vec![variable("HOME", "/tmp"), variable("SHELL", "/bin/bash"), variable("PATH", path)];
    env.extend_from_slice(own);
    env.push(variable("WORKSPACE_DIR", &settings.workspace));
    if settings.config.is_some() {
        env.push(variable("OPENCODE_CONFIG", CONFIG_FILE));
    }
    if !settings.config_has_permission {
        // A question that nobody answers would hang for ever.
        env.push(variable("OPENCODE_PERMISSION", r#"{"*":"allow"}"#));
    }
    if instructions {
        env.push(variable("OPENCODE_CONFIG_CONTENT", r#"{"instructions":[".kubeopencode/context.md"]}"#));
    }
    env.extend(of_credentials(&settings.credentials));
    if git {
        env.push(variable("GIT_CONFIG_GLOBAL", "/git/.gitconfig"));
    }
    if settings.ca_bundle.is_some() {
        env.push(variable("CUSTOM_CA_CERT_PATH", CA_FILE));
        // Each program looks for authorities under its own name: the agent, OpenSSL, git, curl, Python.
        env.push(variable("NODE_EXTRA_CA_CERTS", CA_FILE));
        for name in ["SSL_CERT_FILE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"] {
            env.push(variable(name, CA_MERGED));
        }
    }
    env
}

/// Proxy and additions, which come last in every container.
pub(super) fn tail(settings: &Settings, cluster_domain: &str) -> Vec<EnvVar> {
    let mut env = settings.proxy.as_ref().map(|proxy| of_proxy(proxy, cluster_domain)).unwrap_or_default();
    env.extend(settings.pod.extra_env.clone().unwrap_or_default());
    env
}

fn of_credentials(credentials: &[Credential]) -> impl Iterator<Item = EnvVar> + '_ {
    credentials.iter().filter_map(|credential| {
        let (name, key) = (credential.env.as_ref()?, credential.secret_ref.key.as_ref()?);
        Some(from_secret(name, &credential.secret_ref.name, key, false))
    })
}

/// Whole Secrets whose keys become variables.
pub(super) fn whole_secrets(credentials: &[Credential]) -> Vec<EnvFromSource> {
    let whole = credentials.iter().filter(|c| c.secret_ref.key.is_none() && c.mount_path.is_none());
    whole
        .map(|credential| EnvFromSource {
            secret_ref: Some(SecretEnvSource { name: credential.secret_ref.name.clone(), optional: None }),
            ..EnvFromSource::default()
        })
        .collect()
}

fn of_proxy(proxy: &Proxy, cluster_domain: &str) -> Vec<EnvVar> {
    let mut env = Vec::new();
    let mut both = |upper: &str, value: &str| {
        env.push(variable(upper, value));
        env.push(variable(&upper.to_ascii_lowercase(), value));
    };
    let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    if let Some(url) = set(&proxy.http_proxy) {
        both("HTTP_PROXY", &url);
    }
    if let Some(url) = set(&proxy.https_proxy) {
        both("HTTPS_PROXY", &url);
    }
    both("NO_PROXY", &no_proxy(proxy.no_proxy.as_deref().unwrap_or_default(), cluster_domain));
    env
}

/// The user's list with the cluster's own names, each once.
fn no_proxy(list: &str, cluster_domain: &str) -> String {
    let mut hosts: Vec<String> =
        list.split(',').map(str::trim).filter(|host| !host.is_empty()).map(Into::into).collect();
    for own in [".svc".to_owned(), format!(".{cluster_domain}")] {
        if !hosts.contains(&own) {
            hosts.push(own);
        }
    }
    hosts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clusters_names_bypass_the_proxy_once() {
        assert_eq!(no_proxy("", "cluster.local"), ".svc,.cluster.local");
        assert_eq!(no_proxy("a.svc.example, .svc", "cluster.local"), "a.svc.example,.svc,.cluster.local");
    }

    #[test]
    fn both_spellings_are_set() {
        let proxy = Proxy { http_proxy: Some("http://p".into()), ..Proxy::default() };
        let names: Vec<String> = of_proxy(&proxy, "cluster.local").into_iter().map(|v| v.name).collect();
        assert_eq!(names, ["HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]);
    }
}
