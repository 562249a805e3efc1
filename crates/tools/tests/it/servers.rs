//! Servers from npm and `PyPI` (`scripts/tool-servers`), each a process of its own; a test that cannot have them fails.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Where they are installed.
pub fn root() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tool-servers");
        let output = Command::new(script).output().expect("scripts/tool-servers runs");
        assert!(output.status.success(), "servers cannot be had: {}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
    })
}

/// A process that ends with the test.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts one of our scripts, which prints its port when it listens.
pub fn python(script: &str) -> Server {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(script);
    let mut command = Command::new(root().join("bin/python"));
    let mut child = command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap_or_else(|_| panic!("{line:?} is no port"));
    Server { child, port }
}
