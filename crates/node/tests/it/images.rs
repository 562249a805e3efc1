//! Images: imported from a layout or an archive, run without anything of this machine.

use std::path::{Path, PathBuf};

use node::images::store::Store;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::plane::{World, phase};

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn blob(layout: &Path, bytes: &[u8]) -> Value {
    let name = digest(bytes);
    std::fs::write(layout.join("blobs/sha256").join(&name), bytes).unwrap();
    json!({ "digest": format!("sha256:{name}"), "size": bytes.len() })
}

fn layer(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    fill(&mut archive);
    archive.into_inner().unwrap()
}

fn add(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    header.set_uid(7);
    header.set_gid(7);
    archive.append_data(&mut header, path, bytes).unwrap();
}

/// An image of two layers around the static busybox of this machine.
fn write_layout(directory: &Path) -> PathBuf {
    let layout = directory.join("layout");
    std::fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    let busybox = std::fs::read("/usr/bin/busybox").expect("busybox-static is installed");
    let below = layer(|archive| {
        add(archive, "bin/busybox", 0o755, &busybox);
        add(archive, "etc/kept", 0o644, b"kept\n");
        add(archive, "etc/gone", 0o644, b"gone\n");
        add(archive, "old/inside", 0o644, b"old\n");
    });
    let above = layer(|archive| {
        add(archive, "etc/.wh.gone", 0o644, b"");
        add(archive, "old/.wh..wh..opq", 0o644, b"");
        add(archive, "old/new", 0o644, b"new\n");
    });
    let config = json!({ "config": {
        "Entrypoint": ["/bin/busybox", "sh", "-c"],
        "Cmd": ["echo $FROM_IMAGE; cd /; busybox cat etc/kept; busybox ls etc/gone old; busybox stat -c %u etc/kept; [ -e /usr/bin/git ] && echo host; exit 0"],
        "Env": ["PATH=/bin", "FROM_IMAGE=yes"],
    } });
    let layers = [blob(&layout, &below), blob(&layout, &above)];
    let config = blob(&layout, &serde_json::to_vec(&config).unwrap());
    let manifest = blob(&layout, &serde_json::to_vec(&json!({ "config": config, "layers": layers })).unwrap());
    let mut described = manifest;
    described["annotations"] = json!({ "org.opencontainers.image.ref.name": "example.com/tool:1" });
    let index = json!({ "schemaVersion": 2, "manifests": [described] });
    std::fs::write(layout.join("index.json"), serde_json::to_vec(&index).unwrap()).unwrap();
    layout
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_image_runs_alone() {
    let world = World::new().await;
    let directory = tempfile::tempdir().unwrap();
    let layout = write_layout(directory.path());
    let archive = directory.path().join("image.tar");
    let mut builder = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    builder.append_dir_all(".", &layout).unwrap();
    builder.finish().unwrap();
    let store = Store::new(world.data.path());
    let identity = world.driver.identity(&[]).unwrap();
    store.import(&layout, None, &identity).unwrap();
    store.import(&archive, None, &identity).unwrap();
    assert_eq!(store.list().len(), 1, "the same image is there once");

    let container = json!([{ "name": "main", "image": "example.com/tool:1" }]);
    world.create("tool", json!({ "restartPolicy": "Never", "containers": container })).await;
    let pod = world.over("tool").await;
    let log = world.logs("tool", "main").await;
    assert_eq!(phase(&pod), "Succeeded", "{log}");
    assert!(log.starts_with("yes\nkept\n") && log.contains("new\n"), "{log}");
    assert!(!log.contains("inside") && !log.contains("host"), "{log}");
    world.delete("tool").await;
    // The Pod's files go a moment after the Pod.
    crate::support::until(|| store.remove("example.com/tool:1").is_ok()).await;
    assert!(store.list().is_empty());
}

#[test]
fn an_image_that_was_tampered_with_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let layout = write_layout(directory.path());
    let identity = node::driver::Identity::Single { uid: 0, gid: 0 };
    let largest = std::fs::read_dir(layout.join("blobs/sha256"))
        .unwrap()
        .flatten()
        .max_by_key(|entry| entry.metadata().unwrap().len());
    std::fs::write(largest.unwrap().path(), "something else").unwrap();
    let error = Store::new(directory.path()).import(&layout, None, &identity).unwrap_err().to_string();
    assert!(error.contains("digest"), "{error}");
    assert!(Store::new(directory.path()).import(directory.path(), None, &identity).is_err());
}
