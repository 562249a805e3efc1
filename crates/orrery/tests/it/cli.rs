//! The command line itself.

use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;

fn orrery(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orrery")).args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = orrery(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let current = stdout(&["reference"]);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, current, "run: cargo run --package orrery -- reference > docs/reference/cli.md");
}

#[test]
fn the_version_is_printed_as_data() {
    assert_eq!(stdout(&["version"]), format!("orrery {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn definitions_are_yaml_that_names_every_kind() {
    let printed = stdout(&["crds"]);
    let names: Vec<String> = printed
        .split("---\n")
        .filter(|document| !document.is_empty())
        .map(|document| {
            let value: serde_json::Value = serde_saphyr::from_str(document).unwrap();
            assert_eq!(value["kind"], "CustomResourceDefinition");
            value["metadata"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    for name in ["agents", "agenttemplates", "crontasks", "kubeopencodeconfigs", "tasks"] {
        assert!(names.contains(&format!("{name}.kubeopencode.io")), "{name} is missing in {names:?}");
    }
    for name in ["agentpolicies", "agentruntimes", "promptpacks", "providers", "toolregistries"] {
        assert!(names.contains(&format!("{name}.omnia.altairalabs.ai")), "{name} is missing in {names:?}");
    }
}

#[rstest]
#[case("bash")]
#[case("zsh")]
#[case("fish")]
fn shells_get_completion(#[case] shell: &str) {
    assert!(stdout(&["completion", shell]).contains("completion"));
}

#[rstest]
#[case(&["nonsense"], 2)]
#[case(&["completion", "tea"], 2)]
#[case(&[], 2)]
#[case(&["--log", "=,=", "version"], 1)]
fn wrong_usage_has_its_own_exit_code(#[case] arguments: &[&str], #[case] code: i32) {
    let output = orrery(arguments);
    assert_eq!(output.status.code(), Some(code));
    assert!(output.stdout.is_empty(), "words belong on stderr");
    assert!(!output.stderr.is_empty());
}
