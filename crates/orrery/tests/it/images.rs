//! Images as a user has them: imported, listed, run, removed; and those that are mapped to this machine's own files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::kubectl::find_kubectl;
use crate::plane::Plane;

/// Writes an OCI archive of busybox alone, as `skopeo` or `podman save --format oci-archive` would.
const WRITE_ARCHIVE: &str = r#"set -e
mkdir -p root/bin layout/blobs/sha256
cp "$(command -v busybox)" root/bin/busybox
ln -s busybox root/bin/sh
echo from the image > root/note
tar -C root -cf layer .
blob() { digest=$(sha256sum "$1" | cut -d' ' -f1); size=$(stat -c %s "$1"); mv "$1" "layout/blobs/sha256/$digest"; }
blob layer
echo '{"config":{"Cmd":["sh","-c","busybox cat /note; busybox sleep 1000"],"Env":["PATH=/bin"]}}' > config
layers="[{\"digest\":\"sha256:$digest\",\"size\":$size}]"
blob config
echo "{\"config\":{\"digest\":\"sha256:$digest\",\"size\":$size},\"layers\":$layers}" > manifest
blob manifest
name='{"org.opencontainers.image.ref.name":"example.com/tool:1"}'
echo "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:$digest\",\"size\":$size,\"annotations\":$name}]}" > layout/index.json
tar -C layout -cf image.tar ."#;

/// Writes the archive of `example.com/tool:1`, and says where.
pub fn write_archive(directory: &Path) -> PathBuf {
    let written = Command::new("bash").args(["-c", WRITE_ARCHIVE]).current_dir(directory).output().unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    directory.join("image.tar")
}

fn image(plane: &Plane, words: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args(["image", "--data-dir"]).arg(plane.folder()).args(words).current_dir(directory).output().unwrap()
}

fn kubectl(plane: &Plane, words: &[&str]) -> String {
    let output = Command::new(find_kubectl()).args(words).env("KUBECONFIG", plane.kubeconfig()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn an_image_is_imported_listed_run_and_removed_and_others_are_mapped() {
    let temporary = tempfile::tempdir().unwrap();
    let here = temporary.path();
    write_archive(here);
    let folder = here.join("data");
    let plane = Plane::start_in(&folder, &["--image-map", "registry.example.com/*=host"]);

    // Without it the Pod waits and names the command; with it, it goes on by itself.
    kubectl(&plane, &["run", "tool", "--image=example.com/tool:1"]);
    let refused = "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImagePull";
    kubectl(&plane, &["wait", refused, "pod/tool", "--timeout=60s"]);
    let words =
        kubectl(&plane, &["get", "pod", "tool", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}"]);
    assert!(words.contains("orrery image import"), "{words}");
    let imported = image(&plane, &["import", "image.tar"], here);
    assert!(String::from_utf8_lossy(&imported.stderr).contains("imported example.com/tool:1"), "{imported:?}");
    assert!(stdout(&image(&plane, &["list"], here)).lines().nth(1).unwrap().starts_with("example.com/tool:1 "));
    kubectl(&plane, &["wait", "--for=condition=Ready", "pod/tool", "--timeout=60s"]);
    assert_eq!(
        kubectl(&plane, &["exec", "tool", "--", "sh", "-c", "busybox cat /note; [ -e /usr/bin/git ] || echo alone"]),
        "from the image\nalone\n"
    );

    // A Pod that runs it keeps it.
    let held = image(&plane, &["remove", "example.com/tool:1"], here);
    assert!(!held.status.success(), "{held:?}");
    kubectl(&plane, &["delete", "pod", "tool", "--grace-period=1"]);
    let start = Instant::now();
    while !image(&plane, &["remove", "example.com/tool:1"], here).status.success() {
        assert!(start.elapsed() < Duration::from_mins(1), "it stays");
    }
    assert_eq!(stdout(&image(&plane, &["list"], here)).lines().count(), 1, "only the heading is left");

    let script = [
        "run",
        "mapped",
        "--image=registry.example.com/tools:7",
        "--restart=Never",
        "--command",
        "--",
        "git",
        "--version",
    ];
    kubectl(&plane, &script);
    kubectl(&plane, &["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/mapped", "--timeout=60s"]);
    assert!(kubectl(&plane, &["logs", "mapped"]).starts_with("git version"));
    drop(plane);
    let down = Command::new(env!("CARGO_BIN_EXE_orrery")).args(["down", "--data-dir"]).arg(&folder).output().unwrap();
    assert!(down.status.success());
}
