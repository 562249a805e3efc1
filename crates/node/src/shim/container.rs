//! Starts commands: a container's own, with a keeper above it, and those of `exec`.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::wire::{Confinement, ContainerSpec, Identity, SandboxSpec};
use super::{During as _, Error, confine, host, root, sys};

/// Both ends' descriptors of a command that is being started.
pub struct Pipes {
    /// Standard streams of the command.
    pub streams: [OwnedFd; 3],
    /// An error text, or nothing when the command runs.
    pub started: OwnedFd,
    /// The wait status, once it has ended.
    pub ended: OwnedFd,
}

/// Starts a container. The keeper is the first process of the container's pid namespace: it reaps, passes signals on and
/// takes everything with it when the command ends. A byte on `recorded` lets the command run; everything before that may
/// happen while the start is being written down.
pub fn start(
    sandbox: &SandboxSpec,
    spec: &ContainerSpec,
    home: &str,
    cgroups: &[OwnedFd],
    recorded: &OwnedFd,
    pipes: Pipes,
) -> nix::Result<Pid> {
    let isolated = sandbox.identity != Identity::Own;
    let mut flags = if isolated { CloneFlags::CLONE_NEWNS } else { CloneFlags::empty() };
    if isolated && !spec.share_processes {
        flags |= CloneFlags::CLONE_NEWPID;
    }
    if let Some(keeper) = sys::fork_into(flags)? {
        return Ok(keeper);
    }
    let leaves_orphans = !flags.contains(CloneFlags::CLONE_NEWPID);
    if leaves_orphans {
        let _ = nix::sys::prctl::set_child_subreaper(true);
    }
    // The shim must be able to enter this process's namespaces for an exec, which the kernel ties to tracing it. Nobody
    // else can: it has every capability in the Pod's user namespace, and a container has fewer.
    let _ = nix::sys::prctl::set_dumpable(true);
    let enter = || if isolated { root::enter(sandbox, spec, home) } else { host::show(spec) };
    // As late as can be: what the kernel does for it began when the Pod was opened, and takes its time.
    let ready = enter().and_then(|()| join(cgroups)).and_then(|()| wait_for_record(recorded));
    let outcome = ready.and_then(|()| {
        let (terminal, directory) = (spec.terminal, &spec.working_directory);
        fork_command(&pipes, terminal, isolated.then_some(&spec.confinement), keeps_groups(sandbox), directory, || {
            execute(&spec.command, &spec.environment)
        })
    });
    keep(outcome, pipes, leaves_orphans)
}

/// Runs a command in a running container.
pub fn execute_in(
    sandbox: &SandboxSpec,
    spec: &ContainerSpec,
    keeper: Pid,
    cgroups: &[OwnedFd],
    command: &[String],
    terminal: bool,
    pipes: Pipes,
) -> nix::Result<Pid> {
    if let Some(child) = sys::fork_into(CloneFlags::empty())? {
        return Ok(child);
    }
    let isolated = sandbox.identity != Identity::Own;
    let enter = || if isolated { enter_namespaces(spec, keeper) } else { Ok(()) };
    let outcome = join(cgroups).and_then(|()| enter()).and_then(|()| {
        let confinement = isolated.then_some(&spec.confinement);
        fork_command(&pipes, terminal, confinement, keeps_groups(sandbox), &spec.working_directory, || {
            execute(command, &spec.environment)
        })
    });
    // What it leaves behind in the container is the container's.
    keep(outcome, pipes, false)
}

fn keeps_groups(sandbox: &SandboxSpec) -> bool {
    matches!(sandbox.identity, Identity::Single { .. })
}

fn wait_for_record(recorded: &OwnedFd) -> Result<(), Error> {
    match nix::unistd::read(recorded, &mut [0]) {
        Ok(1..) => Ok(()),
        Ok(0) => Err(std::io::Error::other("it could not be written down")).during("record the start"),
        Err(error) => Err(error).during("record the start"),
    }
}

fn join(cgroups: &[OwnedFd]) -> Result<(), Error> {
    for procs in cgroups {
        nix::unistd::write(procs, b"0").during("join the container's control group")?;
    }
    Ok(())
}

fn enter_namespaces(spec: &ContainerSpec, keeper: Pid) -> Result<(), Error> {
    let process = sys::process_descriptor(keeper).during("find the container")?;
    let mut flags = CloneFlags::CLONE_NEWNS;
    if !spec.share_processes {
        flags |= CloneFlags::CLONE_NEWPID;
    }
    setns(&process, flags).during("enter the container")
}

/// Forks the command itself. Only its failures come back in the child, through the pipe.
fn fork_command(
    pipes: &Pipes,
    terminal: bool,
    confinement: Option<&Confinement>,
    keep_groups: bool,
    directory: &str,
    execute: impl FnOnce() -> Error,
) -> Result<Pid, Error> {
    if let Some(command) = sys::fork_into(CloneFlags::empty()).during("fork the command")? {
        return Ok(command);
    }
    let error = match prepare(pipes, terminal, confinement, keep_groups, directory) {
        Ok(()) => execute(),
        Err(error) => error,
    };
    let _ = nix::unistd::write(&pipes.started, error.to_string().as_bytes());
    sys::exit_now(127);
}

fn prepare(
    pipes: &Pipes,
    terminal: bool,
    confinement: Option<&Confinement>,
    keep_groups: bool,
    directory: &str,
) -> Result<(), Error> {
    nix::unistd::setsid().during("start a session")?;
    for (number, stream) in (0..).zip(&pipes.streams) {
        sys::become_stream(stream.as_fd(), number).during("connect the standard streams")?;
    }
    if terminal {
        sys::take_terminal().during("take the terminal")?;
    }
    sys::close_from(3, true).during("close inherited files on exec")?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    SigSet::empty().thread_set_mask().during("unblock signals")?;
    if let Some(confinement) = confinement {
        if confinement.filter {
            confine::refuse_clone3()?;
        }
        confine::confine(confinement, keep_groups)?;
    }
    std::env::set_current_dir(directory).during("enter the working directory")
}

fn execute(command: &[String], environment: &[(String, String)]) -> Error {
    let attempt = || -> std::io::Result<std::convert::Infallible> {
        let program = command.first().ok_or_else(|| std::io::Error::other("no command"))?;
        let arguments = command.iter().map(|word| CString::new(word.as_str())).collect::<Result<Vec<_>, _>>()?;
        let variables = environment
            .iter()
            .map(|(name, value)| CString::new(format!("{name}={value}")))
            .collect::<Result<Vec<_>, _>>()?;
        let path = environment.iter().rev().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value.as_str());
        let mut refusal = Errno::ENOENT;
        for candidate in candidates(program, path) {
            match nix::unistd::execve(&CString::new(candidate)?, &arguments, &variables) {
                Ok(never) => match never {},
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(error) => refusal = error,
            }
        }
        let words = if refusal == Errno::ENOENT { "no such program".to_owned() } else { refusal.desc().to_owned() };
        Err(std::io::Error::other(format!("\"{program}\": {words}")))
    };
    match attempt() {
        Ok(never) => match never {},
        Err(source) => Error { step: "exec", source },
    }
}

fn candidates(program: &str, path: &str) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    path.split(':').filter(|part| !part.is_empty()).map(|part| format!("{part}/{program}")).collect()
}

/// The keeper's life: everything is set up (or failed); wait for the command, reap what it leaves, pass signals on. What is
/// left when the command ends goes with us when we are the first process of a namespace; otherwise we must see to it.
fn keep(outcome: Result<Pid, Error>, pipes: Pipes, ends_orphans: bool) -> ! {
    let Pipes { streams, started, ended } = pipes;
    let command = match outcome {
        Ok(command) => command,
        Err(error) => {
            let _ = File::from(started).write_all(error.to_string().as_bytes());
            sys::exit_now(127);
        }
    };
    // Only the command holds the streams now: their end says that it runs, or that nobody writes any more. And nothing
    // of the shim stays open here, where the container could see it.
    drop((streams, started));
    let ended = sys::keep_only(ended);
    let all = SigSet::all();
    let _ = all.thread_set_mask();
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == command => finish(&ended, code, 0, ends_orphans),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                    finish(&ended, 128 + signal as i32, signal as i32, ends_orphans);
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        match all.wait() {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            Ok(signal) => {
                let _ = kill(command, signal);
            }
        }
    }
}

fn finish(ended: &OwnedFd, code: i32, signal: i32, ends_orphans: bool) -> ! {
    if ends_orphans {
        host::end_children();
    }
    let mut message = [0; 8];
    message[..4].copy_from_slice(&code.to_ne_bytes());
    message[4..].copy_from_slice(&signal.to_ne_bytes());
    let _ = nix::unistd::write(ended, &message);
    sys::exit_now(0)
}
