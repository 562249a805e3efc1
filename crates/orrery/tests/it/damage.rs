//! Data that `orrery up` must not touch: it says why, exits with an error and leaves everything as it is.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::up::Up;

const ORRERY: &str = env!("CARGO_BIN_EXE_orrery");

/// What a start that must fail says.
fn refused(data: &Path) -> String {
    let output = Command::new(ORRERY)
        .args(["up", "--api-port", "0", "--server-port", "0", "--data-dir"])
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_foreign_file_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("store.db");
    fs::write(&file, "my diary".repeat(100)).unwrap();
    let said = refused(data.path());
    assert!(said.contains("is not an Orrery store"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "my diary".repeat(100));
}

#[tokio::test]
async fn a_damaged_file_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let server = Up::start(Path::new(ORRERY), data.path()).await.unwrap();
    assert!(server.stop().unwrap().success());
    let file = data.path().join("store.db");
    let mut bytes = fs::read(&file).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..].fill(0xa5);
    fs::write(&file, &bytes).unwrap();
    let said = refused(data.path());
    assert!(said.contains("is damaged"), "{said}");
    assert!(fs::read(&file).unwrap() == bytes, "the file was changed");
}

#[tokio::test]
async fn a_second_start_is_told_who_has_the_data() {
    let data = tempfile::tempdir().unwrap();
    let server = Up::start(Path::new(ORRERY), data.path()).await.unwrap();
    let said = refused(data.path());
    assert!(said.contains(&format!("in use by process {} since ", server.process())), "{said}");
    assert!(server.target.is_ready().await, "the first one goes on");
}
