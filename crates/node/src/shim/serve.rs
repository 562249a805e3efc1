//! The shim's loop: one thread, one `poll`, everything that happens in the Pod.

mod started;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, poll};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{SockFlag, accept4};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::attach::Streams;
use super::container::{Pipes, execute_in, start};
use super::log::Log;
use super::sandbox::{Shim, report_ready, stage};
use super::sys::{self, pipe};
use super::wire::{ContainerSpec, Event, ExecSpec, Identity, Reply, Request, State, from_memory_file, receive, send};
use started::{Container, Execution, read_text, sync, write_state};

/// How often, in milliseconds, an idle shim looks whether the Pod's directory is still there at all.
const LOOK_AGAIN: u16 = 5000;

struct Pod {
    shim: Shim,
    containers: BTreeMap<String, Container>,
    executions: Vec<Execution>,
    callers: Vec<OwnedFd>,
    watchers: Vec<OwnedFd>,
    removers: Vec<Pid>,
    closing: Option<OwnedFd>,
    buffer: Vec<u8>,
}

/// Serves until the Pod is closed.
pub fn run(shim: Shim) {
    // Blocked before the first fork, so that no end of a child is missed; SIGPIPE must not end us.
    let signals = SigSet::all();
    let _ = signals.thread_set_mask();
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGCHLD);
    let Ok(children) = SignalFd::with_flags(&awaited, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else { return };
    if report_ready(Vec::new()).is_err() {
        return;
    }
    let mut pod = Pod {
        shim,
        containers: BTreeMap::new(),
        executions: Vec::new(),
        callers: Vec::new(),
        watchers: Vec::new(),
        removers: Vec::new(),
        closing: None,
        buffer: vec![0; 32 * 1024],
    };
    while !pod.is_over() {
        let ready = pod.wait(&children);
        if ready.is_empty() && is_forsaken() {
            // Nobody can reach us any more. What is in the Pod ends with its first process.
            return;
        }
        pod.serve(&ready, &children);
    }
}

/// Whether the Pod's directory was removed: it has no name left, and nobody will ever ask for this Pod again.
fn is_forsaken() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(format!("{}/pod", stage())).is_ok_and(|directory| directory.nlink() == 0)
}

impl Pod {
    /// Waits until a descriptor has something; returns those that have.
    fn wait(&self, children: &SignalFd) -> Vec<RawFd> {
        let mut watched: Vec<BorrowedFd<'_>> = vec![self.shim.listener.as_fd(), children.as_fd()];
        watched.extend(self.callers.iter().chain(&self.watchers).map(|caller| caller.as_fd()));
        for container in self.containers.values() {
            watched.extend(container.outputs.iter().flatten().map(|output| output.as_fd()));
            watched.extend(container.starting.iter().map(|pipe| pipe.as_fd()));
            watched.extend(container.attachments.list.iter().map(|attachment| attachment.caller.as_fd()));
        }
        for execution in &self.executions {
            watched.extend(execution.starting.iter().map(|pipe| pipe.as_fd()));
            watched.extend(execution.caller.iter().map(|caller| caller.as_fd()));
        }
        let mut polled: Vec<PollFd<'_>> = watched.iter().map(|one| PollFd::new(*one, PollFlags::POLLIN)).collect();
        if poll(&mut polled, LOOK_AGAIN).is_err() {
            return Vec::new();
        }
        let has_something = |one: &&PollFd<'_>| one.revents().is_some_and(|events| !events.is_empty());
        polled.iter().filter(has_something).map(|one| one.as_fd().as_raw_fd()).collect()
    }

    fn serve(&mut self, ready: &[RawFd], children: &SignalFd) {
        let is_ready = |descriptor: &OwnedFd| ready.contains(&descriptor.as_raw_fd());
        // Output first: what a container wrote before it ended belongs before its end.
        self.read_outputs(ready);
        self.read_starts(ready);
        if ready.contains(&children.as_raw_fd()) {
            while matches!(children.read_signal(), Ok(Some(_))) {}
            self.reap();
        }
        for container in self.containers.values_mut() {
            container.attachments.hear(is_ready);
        }
        // A watcher says nothing: when it becomes readable it has gone.
        self.watchers.retain(|watcher| !is_ready(watcher));
        let (asking, silent) = std::mem::take(&mut self.callers).into_iter().partition(|caller| is_ready(caller));
        self.callers = silent;
        let asking: Vec<OwnedFd> = asking;
        for caller in asking {
            self.answer(caller);
        }
        if is_ready(&self.shim.listener) {
            let flags = SockFlag::SOCK_CLOEXEC;
            while let Ok(caller) = accept4(self.shim.listener.as_raw_fd(), flags) {
                self.callers.push(sys::own(caller));
            }
        }
    }

    fn is_over(&mut self) -> bool {
        let quiet = self.containers.values().all(|container| !container.alive) && self.removers.is_empty();
        if !quiet {
            return false;
        }
        let Some(caller) = self.closing.take() else { return false };
        let _ = send(&caller, &Reply::Done, &[]);
        true
    }

    fn read_outputs(&mut self, ready: &[RawFd]) {
        for container in self.containers.values_mut() {
            container.read_outputs(&mut self.buffer, |pipe| ready.contains(&pipe.as_raw_fd()), 1);
        }
    }

    fn read_starts(&mut self, ready: &[RawFd]) {
        let mut changed = Vec::new();
        for container in self.containers.values_mut() {
            let Some(pipe) = container.starting.take_if(|pipe| ready.contains(&pipe.as_raw_fd())) else { continue };
            container.read_start(&pipe);
            changed.extend(container.event());
        }
        for execution in &mut self.executions {
            if let Some(pipe) = execution.starting.take_if(|pipe| ready.contains(&pipe.as_raw_fd())) {
                execution.complaint = read_text(&pipe);
            }
            // The caller says nothing more: when it becomes readable it has hung up, and so do we.
            if execution.caller.take_if(|caller| ready.contains(&caller.as_raw_fd())).is_some() {
                let _ = kill(execution.child, Signal::SIGHUP);
            }
        }
        for event in changed {
            self.tell(&event);
        }
    }

    fn reap(&mut self) {
        loop {
            let pid = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(status) => status.pid(),
            };
            let Some(pid) = pid else { continue };
            self.removers.retain(|remover| *remover != pid);
            if let Some(index) = self.executions.iter().position(|execution| execution.child == pid) {
                self.executions.swap_remove(index).finish();
            }
            let found = self.containers.values_mut().find(|container| container.alive && container.keeper == pid);
            if let Some(container) = found {
                container.finish(&mut self.buffer);
                let event = container.event();
                let home = container.home.clone();
                if self.shim.spec.identity == Identity::Own {
                    super::host::hide(&container.spec);
                }
                if let Some(event) = event {
                    self.tell(&event);
                }
                self.remove(vec![format!("{home}/layers")]);
            }
        }
    }

    fn tell(&mut self, event: &Event) {
        self.watchers.retain(|watcher| send(watcher, &Reply::Container(event.clone()), &[]).is_ok());
    }

    fn answer(&mut self, caller: OwnedFd) {
        let (request, descriptors) = match receive::<Request>(&caller) {
            Ok(Some(received)) => received,
            Ok(None) => return,
            Err(error) => return refuse(&caller, &error),
        };
        match request {
            Request::Start => self.start(caller, descriptors),
            Request::Exec => self.execute(caller, descriptors),
            Request::Attach { container, input } => self.attach(caller, &container, input, descriptors),
            Request::Signal { container, signal } => {
                let _ = match self.signal(&container, signal) {
                    Ok(()) => send(&caller, &Reply::Done, &[]),
                    Err(error) => send(&caller, &Reply::Failed { message: error.to_string() }, &[]),
                };
            }
            Request::Socket { stream } => {
                let _ = match super::holder::inet_socket(stream) {
                    Ok(made) => send(&caller, &Reply::Done, &[made.as_raw_fd()]),
                    Err(error) => send(&caller, &Reply::Failed { message: error.to_string() }, &[]),
                };
            }
            Request::Watch => {
                let events: Vec<Event> = self.containers.values().filter_map(Container::event).collect();
                let told = events.into_iter().all(|event| send(&caller, &Reply::Container(event), &[]).is_ok());
                if told && send(&caller, &Reply::Synced, &[]).is_ok() {
                    self.watchers.push(caller);
                }
            }
            Request::Close { volumes } => self.close(caller, &volumes),
            Request::Plug | Request::WayOut | Request::CloseInput => {
                refuse(&caller, &std::io::Error::other("a Pod does not do that"));
            }
        }
    }

    fn signal(&self, name: &str, signal: i32) -> std::io::Result<()> {
        let container = self.containers.get(name).filter(|container| container.alive);
        let Some(container) = container else { return Ok(()) };
        if self.shim.spec.identity == Identity::Own && signal == libc::SIGKILL {
            super::host::end_tree(container.keeper);
            return Ok(());
        }
        Ok(kill(container.keeper, Signal::try_from(signal)?)?)
    }

    fn start(&mut self, caller: OwnedFd, descriptors: Vec<OwnedFd>) {
        let mut descriptors = descriptors.into_iter();
        let spec = descriptors
            .next()
            .ok_or_else(|| std::io::Error::other("no specification came along"))
            .and_then(from_memory_file::<ContainerSpec>);
        let spec = match spec {
            Ok(spec) => spec,
            Err(error) => return refuse(&caller, &error),
        };
        let cgroups = descriptors.collect();
        match self.try_start(spec, cgroups) {
            Ok((name, mut container)) => {
                container.caller = Some(caller);
                self.containers.insert(name, container);
            }
            Err(error) => refuse(&caller, &error),
        }
    }

    fn try_start(&mut self, spec: ContainerSpec, cgroups: Vec<OwnedFd>) -> std::io::Result<(String, Container)> {
        if self.closing.is_some() || self.containers.get(&spec.name).is_some_and(|container| container.alive) {
            return Err(std::io::Error::other("the container is still running, or the Pod is closing"));
        }
        let above = format!("{}/pod/containers/{}", stage(), spec.name);
        let home = format!("{above}/{}", spec.attempt);
        // The directory is the mark that this start happened. One that is there already must never be run again.
        fs::create_dir_all(&above)?;
        fs::create_dir(&home)?;
        let started = self.start_in(&home, spec, cgroups);
        if started.is_err() {
            // It surely did not happen, and may be tried again.
            let _ = fs::remove_dir_all(&home);
        }
        started
    }

    fn start_in(&self, home: &str, spec: ContainerSpec, cgroups: Vec<OwnedFd>) -> std::io::Result<(String, Container)> {
        File::create(format!("{home}/termination-log"))?;
        let record = File::options().create_new(true).write(true).open(format!("{home}/state.json"))?;
        let log = Log::open(File::open(home)?)?;
        let Streams { inside, outputs, attachments } = Streams::make(&spec)?;
        let (starting, starting_end) = pipe()?;
        let (ended, ended_end) = pipe()?;
        let (recorded, record_done) = std::io::pipe()?;
        let pipes = Pipes { streams: inside, started: starting_end, ended: ended_end };
        let started = jiff::Timestamp::now().as_millisecond();
        let keeper = start(&self.shim.spec, &spec, home, &cgroups, &recorded.into(), pipes)?;
        // Durable before the command runs. The keeper needs the time anyway, to build the container.
        let durable = write_state(&record, &State::Running { started })
            .and_then(|()| sync(home))
            .and_then(|()| sync(&format!("{home}/..")));
        if let Err(error) = durable {
            let _ = kill(keeper, Signal::SIGKILL);
            let _ = waitpid(keeper, None);
            return Err(error);
        }
        // A keeper that has given up by now says so itself.
        let _ = (&record_done).write_all(b"!");
        let name = spec.name.clone();
        let container = Container {
            spec,
            home: home.to_owned(),
            keeper,
            alive: true,
            state: None,
            record,
            outputs,
            starting: Some(starting),
            refused: None,
            ended,
            caller: None,
            cgroups,
            log,
            attachments,
            started,
        };
        Ok((name, container))
    }

    fn attach(&mut self, caller: OwnedFd, name: &str, writes: bool, descriptors: Vec<OwnedFd>) {
        let container = self.containers.get_mut(name).filter(|container| container.alive);
        match (container, <[OwnedFd; 2]>::try_from(descriptors)) {
            (Some(container), Ok(outputs)) => container.attachments.add(caller, writes, outputs),
            (None, _) => refuse(&caller, &std::io::Error::other(format!("container {name} is not running"))),
            (_, Err(_)) => refuse(&caller, &std::io::Error::other("an attachment needs two streams")),
        }
    }

    fn execute(&mut self, caller: OwnedFd, descriptors: Vec<OwnedFd>) {
        let mut descriptors = descriptors.into_iter();
        let spec = descriptors
            .next()
            .ok_or_else(|| std::io::Error::other("no command came along"))
            .and_then(from_memory_file::<ExecSpec>);
        let streams: Result<[OwnedFd; 3], _> = descriptors.collect::<Vec<_>>().try_into();
        let (Ok(spec), Ok(streams)) = (spec, streams) else {
            return refuse(&caller, &std::io::Error::other("an exec needs a command and three streams"));
        };
        match self.try_execute(&spec, streams) {
            Ok((child, starting, ended)) => {
                let (starting, caller) = (Some(starting), Some(caller));
                self.executions.push(Execution { child, starting, ended, caller, complaint: None });
            }
            Err(error) => refuse(&caller, &error),
        }
    }

    fn try_execute(&self, spec: &ExecSpec, streams: [OwnedFd; 3]) -> std::io::Result<(Pid, OwnedFd, OwnedFd)> {
        let container = self.containers.get(&spec.container).filter(|container| container.alive);
        let container =
            container.ok_or_else(|| std::io::Error::other(format!("container {} is not running", spec.container)))?;
        let (starting, starting_end) = pipe()?;
        let (ended, ended_end) = pipe()?;
        let pipes = Pipes { streams, started: starting_end, ended: ended_end };
        let child = execute_in(
            &self.shim.spec,
            &container.spec,
            container.keeper,
            &container.cgroups,
            &spec.command,
            spec.terminal,
            pipes,
        )?;
        Ok((child, starting, ended))
    }

    fn close(&mut self, caller: OwnedFd, volumes: &[String]) {
        let running = self.containers.iter().filter(|(_, container)| container.alive);
        let running: Vec<String> = running.map(|(name, _)| name.clone()).collect();
        for name in running {
            let _ = self.signal(&name, libc::SIGKILL);
        }
        let mut paths = Vec::new();
        for volume in volumes {
            let entries = fs::read_dir(format!("{}/volumes/{volume}", stage()));
            paths.extend(
                entries.into_iter().flatten().flatten().map(|entry| entry.path().to_string_lossy().into_owned()),
            );
        }
        self.remove(paths);
        self.closing = Some(caller);
    }

    /// Removes trees in a process of its own: they may be large, and they may belong to users that only exist here.
    fn remove(&mut self, paths: Vec<String>) {
        if paths.is_empty() {
            return;
        }
        match sys::fork_into(CloneFlags::empty()) {
            Ok(Some(remover)) => self.removers.push(remover),
            Ok(None) => {
                for path in paths {
                    let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                }
                sys::exit_now(0);
            }
            // No process to be had: the node removes what is left when the Pod is gone.
            Err(_) => {}
        }
    }
}

fn refuse(caller: &OwnedFd, error: &std::io::Error) {
    let _ = send(caller, &Reply::Failed { message: error.to_string() }, &[]);
}
