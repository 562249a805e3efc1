//! Servers from npm and `PyPI` (`scripts/tool-servers`), each a process of its own; a test that cannot have them fails.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
    python_with(script, &[])
}

/// The same with variables.
pub fn python_with(script: &str, variables: &[(&str, &Path)]) -> Server {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(script);
    let mut command = Command::new(root().join("bin/python"));
    let mut child = command
        .arg(script)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap_or_else(|_| panic!("{line:?} is no port"));
    Server { child, port }
}

/// The program of the MCP server that has everything.
pub fn everything() -> String {
    let path = root().join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    path.to_str().unwrap().to_owned()
}

/// The same, listening.
pub fn everything_over(mode: &str) -> Server {
    // It cannot say which port it got, so it is given one that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("node");
    command.arg(everything()).arg(mode).env("PORT", port.to_string());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut server = Server { child, port };
    let end = Instant::now() + Duration::from_mins(1);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(server.child.try_wait().unwrap().is_none() && Instant::now() < end, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}
