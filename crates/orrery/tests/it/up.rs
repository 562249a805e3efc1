//! `orrery up` as a person meets it.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use rstest::rstest;

use crate::kubectl::find_kubectl;
use crate::plane::{Plane, command};

fn kubectl(plane: &Plane, arguments: &[&str]) -> String {
    let output = Command::new(find_kubectl())
        .args(arguments)
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", plane.folder())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn address(plane: &Plane) -> SocketAddr {
    let text = fs::read_to_string(plane.kubeconfig()).unwrap();
    let (_, rest) = text.split_once("https://").unwrap();
    rest.split(['"', '\n']).next().unwrap().trim().parse().unwrap()
}

#[test]
fn only_the_owner_reads_its_files() {
    let plane = Plane::start();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(plane.folder()), 0o700);
    assert_eq!(mode(&plane.kubeconfig()), 0o600);
    assert_eq!(mode(&plane.folder().join("pki")), 0o700);
}

#[test]
fn only_this_machine_gets_in() {
    let plane = Plane::start();
    let address = address(&plane);
    assert!(address.ip().is_loopback());
    TcpStream::connect(address).unwrap();
    // Another address of the loopback network: reached by whoever listens on all of them.
    TcpStream::connect(("127.0.0.2", address.port())).unwrap_err();
}

#[test]
fn it_says_what_to_type_without_colour_into_a_file() {
    let plane = Plane::start();
    let said = plane.log();
    assert!(said.contains("export KUBECONFIG="), "{said}");
    assert!(said.contains("kubectl get namespaces"), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
}

#[rstest]
#[case(Signal::SIGINT)]
#[case(Signal::SIGTERM)]
fn a_signal_drains_and_ends_well(#[case] signal: Signal) {
    let plane = Plane::start();
    // A watch would hold a server up that waits for every request.
    let mut watch = Command::new(find_kubectl())
        .args(["get", "namespaces", "--watch", "-o", "name"])
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", plane.folder())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut shown = std::io::BufReader::new(watch.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut shown, &mut first).unwrap();
    assert!(first.starts_with("namespace/"), "{first}");
    let (status, said) = plane.stop(signal);
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(!said.contains("cut off"), "{said}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn everything_is_there_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let first = Plane::start_in(&folder, &[]);
    kubectl(&first, &["create", "configmap", "kept", "--from-literal=a=b"]);
    let authority = fs::read(folder.join("pki/ca.crt")).unwrap();
    first.stop(Signal::SIGKILL);
    let second = Plane::start_in(&folder, &[]);
    assert_eq!(kubectl(&second, &["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]), "b");
    assert_eq!(fs::read(folder.join("pki/ca.crt")).unwrap(), authority);
}

#[test]
fn the_second_start_says_who_holds_the_data() {
    let plane = Plane::start();
    let second = command(plane.folder(), &[]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&plane.pid().to_string()), "{said}");
    assert!(said.contains("in use"), "{said}");
    kubectl(&plane, &["get", "namespaces"]);
}

#[rstest]
#[case("--api-port")]
#[case("--server-port")]
fn a_port_that_is_taken_is_named(#[case] option: &str) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let output = command(folder.path(), &[option, &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("port {port} on 127.0.0.1 is taken")), "{said}");
    assert!(said.contains(option), "{said}");
}

#[test]
fn secrets_are_not_logged() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let plane = Plane::start_in(&folder, &["--log", "trace"]);
    let secret = "correct-horse-battery-staple";
    let encoded = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, secret);
    kubectl(&plane, &["create", "secret", "generic", "key", &format!("--from-literal=password={secret}")]);
    kubectl(&plane, &["annotate", "secret", "key", "touched=yes"]);
    kubectl(
        &plane,
        &["patch", "secret", "key", "--type=merge", "-p", &format!(r#"{{"stringData":{{"p":"{secret}"}}}}"#)],
    );
    kubectl(&plane, &["get", "secret", "key", "-o", "yaml"]);
    kubectl(&plane, &["create", "serviceaccount", "robot"]);
    let token = kubectl(&plane, &["create", "token", "robot"]);
    let token = token.trim();
    // Used well, used for what it may not, and bent.
    for token in [token, &format!("{token}x")] {
        let output = Command::new(find_kubectl())
            .args(["--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "get", "secrets"])
            .args([format!("--server=https://{}", address(&plane)), format!("--token={token}")])
            .env("HOME", plane.folder())
            .output()
            .unwrap();
        assert!(!output.status.success());
    }
    let key = fs::read_to_string(folder.join("pki/admin.key")).unwrap();
    let key_body = key.lines().nth(1).unwrap();
    let (_, log) = plane.stop(Signal::SIGTERM);
    assert!(log.contains("denied"), "refusals are logged:\n{log}");
    for hidden in [secret, &encoded, token, key_body] {
        assert!(!log.contains(hidden), "{hidden:?} is in the log");
    }
}
