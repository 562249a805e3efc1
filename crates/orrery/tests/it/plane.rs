//! A whole plane for one test: the real binary, its own data folder, a port of its own.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running `orrery up`. Killed when dropped.
pub struct Plane {
    process: Child,
    folder: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Plane {
    /// Starts a plane in a folder of its own.
    pub fn start() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("data");
        let mut plane = Self::start_in(&folder, &[]);
        plane.temporary = Some(temporary);
        plane
    }

    /// Starts a plane in this folder and waits until it says that it is up.
    pub fn start_in(folder: &Path, arguments: &[&str]) -> Self {
        fs::create_dir_all(folder).unwrap();
        let log = folder.join("stderr");
        let mut process = command(folder, arguments).stderr(File::create(&log).unwrap()).spawn().unwrap();
        // Tail the file: the process keeps writing to it after we stop reading.
        let mut reader = BufReader::new(File::open(&log).unwrap());
        let mut line = String::new();
        while !line.contains("Orrery is up") {
            if line.ends_with('\n') {
                line.clear();
            }
            if reader.read_line(&mut line).unwrap() == 0 {
                assert!(process.try_wait().unwrap().is_none(), "no start:\n{}", fs::read_to_string(&log).unwrap());
                std::thread::yield_now();
            }
        }
        Self { process, folder: folder.to_owned(), temporary: None }
    }

    /// Where the plane keeps its things.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Everything the plane has logged and said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal and waits for the end.
    pub fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
        let status = self.process.wait().unwrap();
        (status, self.log())
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Pods outlive their plane; a test's must not outlive the test.
        if self.temporary.is_some() {
            let _ = Command::new(env!("CARGO_BIN_EXE_orrery")).arg("down").arg("--data-dir").arg(&self.folder).output();
        }
        drop(self.temporary.take());
    }
}

/// `orrery up` in this folder, on any free port, not started yet.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args(["up", "--data-dir"]).arg(folder).args(arguments).stdin(Stdio::null());
    // Nobody's key may reach a test.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().ends_with("_API_KEY")) {
        command.env_remove(name);
    }
    for port in ["--api-port", "--server-port"] {
        if !arguments.contains(&port) {
            command.args([port, "0"]);
        }
    }
    command
}
