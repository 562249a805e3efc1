//! A process of our own that can be killed, starved of disk or lied to by its kernel: this test binary, started again.

use std::path::Path;
use std::process::Command;

/// Starts one of the tests below as a process, in front of it `wrapper` (a command that runs its arguments).
pub fn command(wrapper: &[&str], role: &str, directory: &Path) -> Command {
    let executable = std::env::current_exe().unwrap();
    let mut command = match wrapper.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(executable);
            command
        }
        None => Command::new(executable),
    };
    command
        .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
        .env("ORRERY_TEST_DIRECTORY", directory);
    command
}

/// The directory that the parent gave.
pub fn directory() -> std::path::PathBuf {
    std::env::var_os("ORRERY_TEST_DIRECTORY").expect("this runs only as the child of another test").into()
}
