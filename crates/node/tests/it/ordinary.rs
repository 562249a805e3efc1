//! The same as somebody who is not root: every test of this program once more, as a user who owns nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A user that no machine knows.
const USER: u32 = 54_321;

/// Where such a user finds the programs and can write.
struct Place {
    directory: tempfile::TempDir,
    tests: PathBuf,
    shim: PathBuf,
    home: PathBuf,
}

impl Place {
    fn make() -> Self {
        // Where the programs are may be closed to others.
        let directory = tempfile::tempdir().unwrap();
        let open =
            |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        open(directory.path(), 0o755);
        let copy = |from: &Path, name: &str| {
            let to = directory.path().join(name);
            std::fs::copy(from, &to).unwrap();
            open(&to, 0o755);
            to
        };
        let tests = copy(&std::env::current_exe().unwrap(), "tests");
        let shim = copy(Path::new(env!("CARGO_BIN_EXE_orrery-shim")), "shim");
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
        Self { directory, tests, shim, home }
    }

    /// Runs tests as that user: `command` makes the surroundings for the words after it, `then` is run by the user.
    fn run(&self, mut command: Command, then: &[&str], chosen: &[&str]) -> Output {
        command
            .args(["setpriv", &format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--"])
            .args(then)
            .arg(&self.tests)
            .args(chosen)
            .args(["--skip", "ordinary", "--test-threads", "4"])
            .current_dir(&self.home)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.home)
            .env("TMPDIR", &self.home)
            .env("ORRERY_TEST_SHIM", &self.shim);
        command.output().unwrap()
    }
}

fn assert_passed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0 ignored") && !said.contains("running 0 tests"), "{said}");
    said
}

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if !nix::unistd::geteuid().is_root() {
        // Then all of them just have.
        return;
    }
    assert_passed(&Place::make().run(Command::new("env"), &[], &[]));
}

/// Whoever has subordinate ids has Pods with many users. The files that give them are shown to the test alone.
#[test]
fn an_ordinary_user_with_subordinate_ids_has_many_users_in_a_pod() {
    if !nix::unistd::geteuid().is_root() {
        // Only an administrator gives them.
        return;
    }
    let place = Place::make();
    let script = "for name in passwd subuid subgid; do mount --bind $0/$name /etc/$name || exit 1; done; exec \"$@\"";
    let write = |name: &str, line: String| {
        let old = std::fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
        std::fs::write(place.directory.path().join(name), format!("{old}\n{line}\n")).unwrap();
    };
    write("passwd", format!("somebody:x:{USER}:{USER}::{}:/bin/sh", place.home.display()));
    write("subuid", "somebody:1879048192:65536".to_owned());
    write("subgid", "somebody:1879048192:65536".to_owned());
    for name in ["/etc/subuid", "/etc/subgid"] {
        assert!(Path::new(name).exists(), "{name} is there where newuidmap is installed");
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", script]).arg(place.directory.path());
    command.args(["env", "ORRERY_TEST_SUBORDINATE=1"]);
    let chosen =
        ["a_pod_has_as_many_users", "a_security_context", "leave_nothing_behind", "imported_image", "of_one_port"];
    let said = assert_passed(&place.run(command, &[], &chosen));
    assert!(said.contains("5 passed"), "{said}");
}

/// In a container without privilege, root is nobody in particular.
#[test]
fn root_without_users_of_its_own_counts_as_ordinary() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let chosen = ["runs_to_completion", "of_one_port", "imported_image", "follow_changes"];
    let said = assert_passed(&Place::make().run(Command::new("env"), &["unshare", "-Ur", "--"], &chosen));
    assert!(said.contains("4 passed"), "{said}");
}
