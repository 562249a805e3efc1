//! The verbs of init containers are wired: what they do is tested in the crate `init`.

use std::process::{Command, Output};

use tempfile::TempDir;

fn verb(name: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.arg(name).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "/nonexistent");
    command.envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn a_verb_without_its_variables_names_the_one_it_misses() {
    for (name, variable) in [("git-init", "GIT_REPO"), ("git-sync", "GIT_REPO"), ("url-fetch", "URL_SOURCE")] {
        let output = verb(name, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(variable), "{name}: {said}");
    }
    assert!(verb("context-init", &[]).status.success(), "nothing asked for is nothing to do");
}

#[test]
fn an_optional_context_that_cannot_be_had_is_said_and_the_pod_goes_on() {
    let root = TempDir::new().unwrap();
    let path = root.path().to_str().unwrap();
    let environment =
        [("GIT_REPO", "file:///nowhere"), ("GIT_ROOT", path), ("GIT_CLONE_RETRIES", "1"), ("CONTEXT_OPTIONAL", "true")];
    let output = verb("git-init", &environment);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("optional"), "{said}");
    assert!(root.path().join("repo").is_dir());
}

#[test]
fn tools_init_links_what_the_machine_has_and_says_how_to_get_what_it_has_not() {
    let folder = TempDir::new().unwrap();
    let tools = folder.path().to_str().unwrap();
    let there = [("TOOLS_DIR", tools), ("ORRERY_OPENCODE", "/bin/sh")];
    assert!(verb("tools-init", &there).status.success());
    assert_eq!(std::fs::read_link(folder.path().join("opencode")).unwrap().to_str(), Some("/bin/sh"));

    // In an image of its own a link would lead nowhere.
    let foreign = [("TOOLS_DIR", tools), ("ORRERY_OPENCODE", "/bin/sh"), ("TOOLS_COPY", "true")];
    assert!(verb("tools-init", &foreign).status.success());
    for name in ["opencode", "kubeopencode"] {
        assert!(folder.path().join(name).symlink_metadata().unwrap().is_file(), "{name}");
    }

    let missing = [("TOOLS_DIR", tools), ("ORRERY_OPENCODE", "/nowhere")];
    let output = verb("tools-init", &missing);
    assert!(String::from_utf8_lossy(&output.stderr).contains("npm install -g opencode-ai"));
    assert!(!output.status.success());
}

#[test]
fn self_init_brings_a_program_that_works_and_may_run_again() {
    let folder = TempDir::new().unwrap();
    let tools = [("TOOLS_DIR", folder.path().to_str().unwrap())];
    for _ in 0..2 {
        let output = verb("self-init", &tools);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let brought = Command::new(folder.path().join("kubeopencode")).arg("version").output().unwrap();
    assert!(brought.status.success() && !brought.stdout.is_empty());
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kubeopencode"], "nothing half done is left beside it");
}
