//! The command line that the protocol of deploy adapters was made for: `PROMPTARENA` names it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::shop::pack;
use tokio::process::Command;

/// A folder in which `promptarena-deploy-omnia` is this program.
pub fn adapter(folder: &Path) -> PathBuf {
    let adapters = folder.join(".promptarena/adapters");
    fs::create_dir_all(&adapters).unwrap();
    let path = adapters.join("promptarena-deploy-omnia");
    symlink(env!("CARGO_BIN_EXE_orrery"), &path).unwrap();
    path
}

/// The manifest that both command lines read. JSON is YAML.
pub fn arena(folder: &Path, config: &Value) {
    let manifest = json!({ "kind": "Arena", "spec": { "deploy": { "provider": "omnia", "config": config } } });
    fs::write(folder.join("arena.yaml"), manifest.to_string()).unwrap();
}

async fn deploy(folder: &Path, kubeconfig: Option<&Path>, verb: &[&str]) -> String {
    let program =
        std::env::var_os("PROMPTARENA").expect("PROMPTARENA names the binary that scripts/promptarena builds");
    let mut command = Command::new(program);
    command.arg("deploy").args(verb).args(["--pack", "pack.json"]).current_dir(folder).kill_on_drop(true);
    command.envs(kubeconfig.map(|file| ("KUBECONFIG", file)));
    command.env("ORRERY_DEPLOY_LOG", folder.join("adapter.log"));
    let output = command.env("PROMPTKIT_SCHEMA_SOURCE", "local").env("HOME", folder).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    let log = || fs::read_to_string(folder.join("adapter.log")).unwrap_or_default();
    assert!(output.status.success(), "{verb:?}: {out}{error}\n{}", log());
    out
}

/// A pack is deployed, changed, planned, looked at and taken away, by the configuration in this folder. `owned` counts
/// what carries a deployment's labels.
pub async fn whole_life(folder: &Path, kubeconfig: Option<&Path>, owned: impl AsyncFn() -> usize) {
    adapter(folder);
    // Its own schema of an arena is fetched from a web site, unless it lies here.
    fs::create_dir_all(folder.join("schemas/v1alpha1")).unwrap();
    fs::write(folder.join("schemas/v1alpha1/arena.json"), "{}").unwrap();
    let promptarena = async |verb: &[&str]| deploy(folder, kubeconfig, verb).await;
    let write = |pack: &Value| fs::write(folder.join("pack.json"), pack.to_string()).unwrap();

    write(&pack("1.0.0", &["agent-a", "agent-b"], true, &["x"]));
    let out = promptarena(&[]).await;
    let planned = "Plan: 6 to create, 0 to update, 0 to delete";
    assert!(out.contains(planned) && out.contains("+ agent_runtime.agent-b"), "{out}");
    assert_eq!(owned().await, 6);
    let out = promptarena(&["plan"]).await;
    assert!(out.contains("0 to create, 0 to update, 0 to delete"), "{out}");
    write(&pack("1.1.0", &["agent-a"], true, &["x"]));
    let out = promptarena(&["plan"]).await;
    assert!(out.contains("~ agent_runtime.agent-a") && out.contains("- agent_runtime.agent-b"), "{out}");
    promptarena(&["apply"]).await;
    assert_eq!(owned().await, 5);
    let out = promptarena(&["status"]).await;
    assert!(out.contains("agent_runtime"), "{out}");
    promptarena(&["refresh"]).await;
    promptarena(&["destroy"]).await;
    assert_eq!(owned().await, 0);
    assert!(!folder.join(".promptarena/deploy.state").exists());
}
