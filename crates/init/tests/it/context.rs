use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use orrery_init::{Env, context};
use serde_json::json;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_arrive_with_exactly_the_mode_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let (source, workspace) = (directory.path().join("files"), directory.path().join("workspace"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("task"), "do it").unwrap();
    fs::write(source.join("key"), "secret").unwrap();
    let env: Env = [
        ("CONFIGMAP_PATH", source.display().to_string()),
        (
            "FILE_MAPPINGS",
            json!([
                {"key": "task", "targetPath": workspace.join("deep/task.md")},
                {"key": "key", "targetPath": workspace.join("key"), "fileMode": 0o400},
            ])
            .to_string(),
        ),
    ]
    .into_iter()
    .collect();

    context::run(&env).unwrap();
    // A container that starts again must be able to do the same once more.
    context::run(&env).unwrap();

    assert_eq!(fs::read_to_string(workspace.join("deep/task.md")).unwrap(), "do it");
    assert_eq!(mode(&workspace.join("deep/task.md")), 0o644);
    assert_eq!(mode(&workspace.join("key")), 0o400);
}

#[test]
fn a_mounted_directory_is_copied_without_its_bookkeeping() {
    let directory = tempfile::tempdir().unwrap();
    let (source, target) = (directory.path().join("mounted"), directory.path().join("target"));
    fs::create_dir_all(source.join("..2026")).unwrap();
    fs::write(source.join("..2026/guide.md"), "read me").unwrap();
    symlink("..2026", source.join("..data")).unwrap();
    symlink("..data/guide.md", source.join("guide.md")).unwrap();
    let env: Env =
        [("DIR_MAPPINGS", json!([{"sourcePath": source, "targetPath": target}]).to_string())].into_iter().collect();

    context::run(&env).unwrap();

    let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["guide.md"]);
    assert!(!target.join("guide.md").is_symlink());
    assert_eq!(fs::read_to_string(target.join("guide.md")).unwrap(), "read me");
}

#[test]
fn a_missing_source_is_an_error_unless_it_is_optional() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let env = |optional: bool| -> Env {
        let mappings = json!([{"key": "gone", "targetPath": target, "optional": optional}]).to_string();
        [("CONFIGMAP_PATH", directory.path().display().to_string()), ("FILE_MAPPINGS", mappings)].into_iter().collect()
    };
    let error = context::run(&env(false)).unwrap_err().to_string();
    assert!(error.contains("gone") && error.contains("target"), "{error}");
    context::run(&env(true)).unwrap();
    assert!(!target.exists());
}

#[test]
fn unreadable_mappings_name_the_variable() {
    let env: Env = [("FILE_MAPPINGS", "{")].into_iter().collect();
    assert!(context::run(&env).unwrap_err().to_string().contains("FILE_MAPPINGS"));
}
