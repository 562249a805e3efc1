//! How git gets in: user and password, an SSH key, extra certificates. All of it in variables for git alone and in a
//! private directory that goes away with [`Access`].

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tempfile::TempDir;

use crate::env::Env;

use super::settings::Settings;
use super::{Error, tree};

const SYSTEM_CERTIFICATES: &[&str] =
    &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Reads the variables at the moment git asks, so that the secret is in no file and on no command line.
const CREDENTIAL_HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$ORRERY_GIT_USERNAME" "$ORRERY_GIT_PASSWORD"; }; f"#;

/// Variables that let git in, and the files behind them.
pub(super) struct Access {
    pub variables: Vec<(String, String)>,
    _private: TempDir,
}

impl Access {
    pub fn new(settings: &Settings, env: &Env) -> Result<Self, Error> {
        let private = tempfile::Builder::new()
            .prefix("git-access-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(tree::failed("create a private directory in", &std::env::temp_dir()))?;
        let mut variables = vec![
            // Never wait for somebody to type.
            ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
            ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
        ];
        variables.extend(password(settings, env));
        variables.extend(ssh(env, private.path())?);
        variables.extend(certificates(env, private.path())?);
        Ok(Self { variables, _private: private })
    }
}

/// The helper is bound to the repository's own host: a submodule elsewhere does not learn the password.
fn password(settings: &Settings, env: &Env) -> Vec<(String, String)> {
    let Some(password) = env.get("GIT_PASSWORD") else { return Vec::new() };
    let shown = settings.shown();
    let Some((scheme, rest)) = shown.split_once("://") else { return Vec::new() };
    let host = rest.split('/').next().unwrap_or(rest);
    let user = env.get_or("GIT_USERNAME", "git");
    [
        ("GIT_CONFIG_COUNT", "1".to_owned()),
        ("GIT_CONFIG_KEY_0", format!("credential.{scheme}://{host}.helper")),
        ("GIT_CONFIG_VALUE_0", CREDENTIAL_HELPER.to_owned()),
        ("ORRERY_GIT_USERNAME", user.to_owned()),
        ("ORRERY_GIT_PASSWORD", password.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec()
}

fn ssh(env: &Env, private: &Path) -> Result<Option<(String, String)>, Error> {
    let Some(key) = env.get("GIT_SSH_KEY") else { return Ok(None) };
    let key_file = private.join("key");
    // ssh refuses a key without its final newline, which Secrets made by hand often lack.
    write_private(&key_file, &format!("{}\n", key.trim_end()))?;
    let hosts_file = private.join("known_hosts");
    let checking = if let Some(hosts) = env.get("GIT_SSH_KNOWN_HOSTS") {
        write_private(&hosts_file, hosts)?;
        "yes"
    } else {
        tracing::warn!("the Secret has no ssh-known-hosts: the host's key is taken as it is offered");
        "accept-new"
    };
    let command = format!(
        "ssh -F none -i '{}' -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile='{}' -o StrictHostKeyChecking={checking}",
        key_file.display(),
        hosts_file.display(),
    );
    Ok(Some(("GIT_SSH_COMMAND".to_owned(), command)))
}

/// git takes one bundle, so ours is the system's and the custom certificates together.
fn certificates(env: &Env, private: &Path) -> Result<Option<(String, String)>, Error> {
    let Some(custom) = env.get("CUSTOM_CA_CERT_PATH").map(Path::new) else { return Ok(None) };
    let mut bundle = SYSTEM_CERTIFICATES.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    bundle.push('\n');
    bundle.push_str(&fs::read_to_string(custom).map_err(tree::failed("read", custom))?);
    let path = private.join("ca-bundle.crt");
    write_private(&path, &bundle)?;
    Ok(Some(("GIT_SSL_CAINFO".to_owned(), path.display().to_string())))
}

fn write_private(path: &Path, content: &str) -> Result<(), Error> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(tree::failed("create", path))?;
    file.write_all(content.as_bytes()).map_err(tree::failed("write", path))
}
