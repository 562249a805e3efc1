//! A container's standard streams, and clients that look at its output as it comes and write its input.

use std::fs::File;
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::log::Stream;
use super::sys::pipe;
use super::wire::{ContainerSpec, Input, Reply, Request, receive, send};

/// One client's view of a container.
pub struct Attachment {
    /// Says when its client has gone.
    pub caller: OwnedFd,
    outputs: [Option<OwnedFd>; 2],
    writes: bool,
}

/// The clients of a container, and its input as long as somebody may write it.
#[derive(Default)]
pub struct Attachments {
    /// The end of the input that we keep open, so that a client can come later; the terminal, when it is on one.
    pub input: Option<OwnedFd>,
    /// Whether the input ends with the first client that was there.
    pub once: bool,
    /// Who looks on.
    pub list: Vec<Attachment>,
}

impl Attachments {
    /// Adds a client. One that writes gets the container's input, if there is one.
    pub fn add(&mut self, caller: OwnedFd, writes: bool, outputs: [OwnedFd; 2]) {
        for output in &outputs {
            // A client that does not read must not hold the container up: it misses what does not fit.
            let _ = fcntl(output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        }
        let input: Vec<_> = self.input.iter().filter(|_| writes).map(std::os::fd::AsRawFd::as_raw_fd).collect();
        if send(&caller, &Reply::Done, &input).is_ok() {
            self.list.push(Attachment { caller, outputs: outputs.map(Some), writes });
        }
    }

    /// Passes on what the container says.
    pub fn show(&mut self, stream: Stream, bytes: &[u8]) {
        for attachment in &mut self.list {
            let output = &mut attachment.outputs[stream as usize];
            if let Some(pipe) = output
                && nix::unistd::write(&*pipe, bytes) == Err(nix::errno::Errno::EPIPE)
            {
                *output = None;
            }
        }
    }

    /// Hears clients that are ready: they have sent all their input, or gone.
    pub fn hear(&mut self, is_ready: impl Fn(&OwnedFd) -> bool) {
        let mut input_ended = false;
        self.list.retain(|attachment| {
            if !is_ready(&attachment.caller) {
                return true;
            }
            input_ended |= attachment.writes;
            matches!(receive::<Request>(&attachment.caller), Ok(Some((Request::CloseInput, _))))
        });
        if input_ended && self.once {
            self.input = None;
        }
    }

    /// The container has ended.
    pub fn finish(&mut self, code: i32) {
        self.input = None;
        for attachment in self.list.drain(..) {
            let _ = send(&attachment.caller, &Reply::Ended { code }, &[]);
        }
    }
}

/// Both sides of a container's standard streams.
pub struct Streams {
    /// The container's.
    pub inside: [OwnedFd; 3],
    /// Ours, to read.
    pub outputs: [Option<OwnedFd>; 2],
    /// Ours, to write.
    pub attachments: Attachments,
}

impl Streams {
    /// Makes what the container asks for.
    pub fn make(spec: &ContainerSpec) -> std::io::Result<Self> {
        let once = spec.input == Input::Once;
        if spec.terminal {
            let terminal = nix::pty::openpty(None, None)?;
            fcntl(&terminal.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            let line = terminal.slave;
            let input = (spec.input != Input::None).then(|| terminal.master.try_clone()).transpose()?;
            return Ok(Self {
                inside: [line.try_clone()?, line.try_clone()?, line],
                outputs: [Some(terminal.master), None],
                attachments: Attachments { input, once: false, list: Vec::new() },
            });
        }
        let (standard_input, input) = match spec.input {
            Input::None => (OwnedFd::from(File::open("/dev/null")?), None),
            Input::Once | Input::Open => {
                let (reader, writer) = std::io::pipe()?;
                (reader.into(), Some(OwnedFd::from(writer)))
            }
        };
        let (output, output_end) = pipe()?;
        let (errors, errors_end) = pipe()?;
        Ok(Self {
            inside: [standard_input, output_end, errors_end],
            outputs: [Some(output), Some(errors)],
            attachments: Attachments { input, once, list: Vec::new() },
        })
    }
}
