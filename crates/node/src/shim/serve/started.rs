//! What the shim has started and keeps: containers and commands beside them, with their pipes, logs and ends.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::shim::attach::Attachments;
use crate::shim::log::{Log, Stream};
use crate::shim::wire::{ContainerSpec, Event, Exit, Reply, State, send};

/// Room for a state in its file, so that the end can be written in place even when the disk is full.
const STATE_SIZE: usize = 1024;

/// A container that was started.
pub struct Container {
    pub spec: ContainerSpec,
    pub home: String,
    pub keeper: Pid,
    pub alive: bool,
    pub state: Option<State>,
    pub record: File,
    pub outputs: [Option<OwnedFd>; 2],
    pub starting: Option<OwnedFd>,
    pub refused: Option<String>,
    pub ended: OwnedFd,
    pub caller: Option<OwnedFd>,
    pub cgroups: Vec<OwnedFd>,
    pub log: Log,
    pub attachments: Attachments,
    pub started: i64,
}

/// A command that runs in a container beside its own.
pub struct Execution {
    pub child: Pid,
    pub starting: Option<OwnedFd>,
    pub ended: OwnedFd,
    pub caller: Option<OwnedFd>,
    pub complaint: Option<String>,
}

impl Container {
    /// What it is now, for those who watch; nothing before it runs.
    pub fn event(&self) -> Option<Event> {
        let state = self.state.clone()?;
        Some(Event { container: self.spec.name.clone(), attempt: self.spec.attempt, state })
    }

    /// Takes what it wrote to those of its streams that have something, at most so many pieces of each.
    pub fn read_outputs(&mut self, buffer: &mut [u8], is_ready: impl Fn(&OwnedFd) -> bool, most: usize) {
        for (stream, output) in [Stream::Stdout, Stream::Stderr].into_iter().zip(&mut self.outputs) {
            for _ in 0..most {
                let Some(pipe) = output.as_ref().filter(|pipe| is_ready(pipe)) else { break };
                match nix::unistd::read(pipe, buffer) {
                    // The end; of a terminal, when nobody has it open any more.
                    Ok(0) | Err(Errno::EIO) => *output = None,
                    Ok(length) => {
                        self.log.write(stream, &buffer[..length]);
                        self.attachments.show(stream, &buffer[..length]);
                    }
                    Err(Errno::EINTR) => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// It runs, or could not be started: told to whoever asked for it.
    pub fn read_start(&mut self, pipe: &OwnedFd) {
        self.refused = read_text(pipe);
        let Some(message) = &self.refused else {
            self.state = Some(State::Running { started: self.started });
            if let Some(caller) = self.caller.take() {
                let _ = send(&caller, &Reply::Done, &[]);
            }
            return;
        };
        if let Some(caller) = self.caller.take() {
            let _ = send(&caller, &Reply::Failed { message: message.clone() }, &[]);
        }
    }

    /// The keeper is gone, and with it everything in the container.
    pub fn finish(&mut self, buffer: &mut [u8]) {
        self.alive = false;
        if let Some(pipe) = self.starting.take() {
            self.read_start(&pipe);
        }
        // Bounded: an exec that outlives the container may hold a pipe open.
        self.read_outputs(buffer, |_| true, 64);
        self.outputs = [None, None];
        self.log.finish();
        let mut message = [0; 8];
        let told = nix::unistd::read(&self.ended, &mut message) == Ok(8);
        let number = |part: &[u8]| part.try_into().map_or(0, i32::from_ne_bytes);
        let killed = Signal::SIGKILL as i32;
        let (code, signal) = match (&self.refused, told) {
            (Some(_), _) => (128, 0),
            (None, true) => (number(&message[..4]), number(&message[4..])),
            // The keeper itself was killed: that is how a container is ended by force.
            (None, false) => (128 + killed, killed),
        };
        let exit = Exit {
            code,
            signal: (signal != 0).then_some(signal),
            refused: self.refused.as_ref().map(|message| message.chars().take(600).collect()),
            started: self.started,
            finished: jiff::Timestamp::now().as_millisecond(),
        };
        let state = State::Ended(exit);
        // Durable before anybody is told.
        let _ = write_state(&self.record, &state);
        self.state = Some(state);
        self.attachments.finish(code);
        self.cgroups.clear();
    }
}

impl Execution {
    /// It has ended: told to whoever asked for it.
    pub fn finish(mut self) {
        if let Some(pipe) = self.starting.take() {
            self.complaint = read_text(&pipe);
        }
        let Some(caller) = self.caller else { return };
        if let Some(message) = self.complaint {
            let _ = send(&caller, &Reply::Failed { message }, &[]);
            return;
        }
        let mut message = [0; 8];
        let told = nix::unistd::read(&self.ended, &mut message) == Ok(8);
        let code = message[..4].try_into().map_or(137, i32::from_ne_bytes);
        let _ = send(&caller, &Reply::Ended { code: if told { code } else { 137 } }, &[]);
    }
}

/// What was said on a start pipe; nothing means that the command runs.
pub fn read_text(pipe: &OwnedFd) -> Option<String> {
    let mut text = [0; 2048];
    let length = nix::unistd::read(pipe, &mut text).unwrap_or(0);
    (length > 0).then(|| String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Makes a directory's entries durable.
pub fn sync(directory: &str) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Writes a state down for good, in the room that its file has.
pub fn write_state(record: &File, state: &State) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(state)?;
    text.resize(text.len().max(STATE_SIZE), b' ');
    record.write_all_at(&text, 0)?;
    record.sync_data()
}
