//! The same as somebody who is not root: every test of this program once more, as a user who owns nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A user that no machine knows.
const USER: u32 = 54_321;

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if !nix::unistd::geteuid().is_root() {
        // Then all of them just have.
        return;
    }
    // Where the programs are may be closed to others.
    let place = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open(place.path(), 0o755);
    let copy = |from: &Path, name: &str| {
        let to = place.path().join(name);
        std::fs::copy(from, &to).unwrap();
        open(&to, 0o755);
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let shim = copy(Path::new(env!("CARGO_BIN_EXE_orrery-shim")), "shim");
    let home = place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
    let output = Command::new("setpriv")
        .args([format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".into(), "--".into()])
        .arg(&tests)
        .args(["--skip", "ordinary", "--test-threads", "4"])
        .current_dir(&home)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env("ORRERY_TEST_SHIM", &shim)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0 ignored"), "{said}");
}
