//! A Pod that fills the disk of the plane: the plane stays up, says what is wrong, and goes on when there is room again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rstest::rstest;

use crate::kubectl::find_kubectl;

/// A plane on a small disk of its own, in a mount namespace of its own. Killed when dropped.
struct Small {
    process: Child,
    home: tempfile::TempDir,
    data: PathBuf,
}

/// Mounts the disk and shows the program in a place that everybody can reach, then becomes the user.
const START: &str = r#"
mount -t tmpfs -o size=64m,mode=700,uid=$2,gid=$2 small "$1" && touch "$1.program" && mount --bind "$0" "$1.program" || exit 1
as=; [ "$2" = 0 ] || as="setpriv --reuid=$2 --regid=$2 --clear-groups --"
exec $as "$1.program" up --data-dir "$1" --api-port 0 --server-port 0"#;

impl Small {
    /// As root or as somebody who owns nothing; for those who are not root, as themselves.
    fn start(user: u32) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let said = home.path().join("said");
        let is_root = nix::unistd::geteuid().is_root();
        let mut command = Command::new("unshare");
        command.args(if is_root { ["-m", "--"] } else { ["-Urm", "--"] });
        let mut process = command
            .args(["sh", "-c", START])
            .args([Path::new(env!("CARGO_BIN_EXE_orrery")), &data])
            .arg(if is_root { user.to_string() } else { "0".to_owned() })
            .stdin(Stdio::null())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        while !std::fs::read_to_string(&said).unwrap().contains("Orrery is up") {
            assert!(process.try_wait().unwrap().is_none(), "{}", std::fs::read_to_string(&said).unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { process, home, data }
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        // What is on the disk is seen through the process that has it mounted.
        let inside = format!("/proc/{}/root{}/kubeconfig", self.process.id(), self.data.display());
        Command::new(find_kubectl())
            .args(arguments)
            .env("KUBECONFIG", inside)
            .env("HOME", self.home.path())
            .output()
            .unwrap()
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn until(&self, arguments: &[&str], fits: impl Fn(&Output) -> bool) -> Output {
        let start = Instant::now();
        loop {
            let output = self.kubectl(arguments);
            if fits(&output) {
                return output;
            }
            assert!(start.elapsed() < Duration::from_mins(2), "{arguments:?}: {output:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Also after a failure in the middle: a plane without room cannot write down that a Pod is to go.
        let _ = self.kubectl(&["exec", "filler", "--", "rm", "-f", "/data/filling"]);
        for name in ["filler", "worker"] {
            let _ = self.kubectl(&["delete", "pod", name, "--grace-period=1", "--wait=true", "--timeout=20s"]);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pod(name: &str, script: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "main", "image": "host", "command": ["sh", "-c", script],
                             "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
        },
    })
    .to_string()
}

#[rstest]
#[case::as_root(0)]
#[case::as_an_ordinary_user(54_321)]
fn a_full_disk_stops_writes_and_nothing_else(#[case] user: u32) {
    let plane = Small::start(user);
    let apply = |name: &str, script: &str| {
        let file = plane.home.path().join(name);
        std::fs::write(&file, pod(name, script)).unwrap();
        plane.says(&["create", "-f", file.to_str().unwrap()]);
    };
    apply("worker", "until [ -e /data/go ]; do sleep 0.1; done; exit 5");
    apply("filler", "dd if=/dev/zero of=/data/filling bs=64k 2>/dev/null; echo full; sleep 100000");
    let running = |output: &Output| output.stdout == b"Running Running";
    plane.until(&["get", "pods", "-o", "jsonpath={.items[*].status.phase}"], running);
    let heavy = "--from-literal=filling=".to_owned() + &"#".repeat(100_000);
    // Whatever room there was left is gone at some point: then a write is refused, in words, and at once.
    let start = Instant::now();
    let writes: [&[&str]; 2] =
        [&["create", "configmap", "refused", &heavy], &["delete", "configmap", "refused", "--wait=false"]];
    let refused = loop {
        if let Some(refused) = writes.iter().map(|write| plane.kubectl(write)).find(|output| !output.status.success()) {
            break refused;
        }
        assert!(start.elapsed() < Duration::from_mins(2), "the disk is never full");
    };
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(words.contains("disk") && words.contains("full"), "{words}");
    // Reads go on, and so do Pods. An exec needs no room.
    assert!(plane.says(&["get", "pods", "-o", "name"]).contains("pod/filler"));
    plane.says(&["exec", "worker", "--", "true"]);
    // The worker ends while there is no room to say so. Its code is not lost.
    let _ = plane.kubectl(&["exec", "worker", "--", "mkdir", "/data/go"]);
    plane.says(&["exec", "filler", "--", "rm", "/data/filling"]);
    let _ = plane.kubectl(&["exec", "worker", "--", "mkdir", "-p", "/data/go"]);
    let ended = ["get", "pod", "worker", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"];
    plane.until(&ended, |output| output.stdout == b"5");
    plane.says(&["create", "configmap", "accepted"]);
    // And Pods start again.
    apply("late", "exit 6");
    let ended = ["get", "pod", "late", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"];
    plane.until(&ended, |output| output.stdout == b"6");
}
