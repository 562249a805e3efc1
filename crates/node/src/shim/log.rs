//! A container's log: one line an output line, `2026-01-01T00:00:00.000000000Z stdout F text`, as container runtimes
//! write them. The writer never fails its container: what cannot be written is counted and said later.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;

/// Size at which the log is turned over; one older file is kept.
const LARGEST: u64 = 10 * 1024 * 1024;
/// Longest piece of a line that is written as one; a longer line is written in parts.
const LONGEST_LINE: usize = 16 * 1024;

/// Which output.
#[derive(Clone, Copy)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Writes one start of one container's log.
pub struct Log {
    directory: File,
    file: Option<File>,
    size: u64,
    lost: u64,
    rest: [Vec<u8>; 2],
    line: Vec<u8>,
}

impl Log {
    /// Opens `log` in `directory`.
    pub fn open(directory: File) -> std::io::Result<Self> {
        let file = create(&directory)?;
        Ok(Self { directory, file: Some(file), size: 0, lost: 0, rest: [Vec::new(), Vec::new()], line: Vec::new() })
    }

    /// Takes what came out of the container.
    pub fn write(&mut self, stream: Stream, mut bytes: &[u8]) {
        let index = stream as usize;
        let now = jiff::Timestamp::now();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let mut text = std::mem::take(&mut self.rest[index]);
            text.extend_from_slice(&bytes[..end]);
            self.emit(now, stream, true, &text);
            text.clear();
            self.rest[index] = text;
            bytes = &bytes[end + 1..];
        }
        self.rest[index].extend_from_slice(bytes);
        if self.rest[index].len() >= LONGEST_LINE {
            let text = std::mem::take(&mut self.rest[index]);
            self.emit(now, stream, false, &text);
        }
        self.flush();
    }

    /// Writes what has no newline yet: the container has ended.
    pub fn finish(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let text = std::mem::take(&mut self.rest[stream as usize]);
            if !text.is_empty() {
                self.emit(jiff::Timestamp::now(), stream, false, &text);
            }
        }
        self.flush();
        self.file = None;
    }

    fn emit(&mut self, now: jiff::Timestamp, stream: Stream, whole: bool, text: &[u8]) {
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let tag = if whole { 'F' } else { 'P' };
        let _ = write!(self.line, "{now:.9} {name} {tag} ");
        self.line.extend_from_slice(text);
        self.line.push(b'\n');
        if self.line.len() >= 64 * 1024 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.line.is_empty() {
            return;
        }
        if self.size >= LARGEST {
            self.turn_over();
        }
        let mut line = std::mem::take(&mut self.line);
        if self.lost > 0 {
            let now = jiff::Timestamp::now();
            let said = format!("{now:.9} stderr F orrery: {} bytes of log could not be written here\n", self.lost);
            if self.append(said.as_bytes()) {
                self.lost = 0;
            }
        }
        if !self.append(&line) {
            self.lost += line.len() as u64;
        }
        line.clear();
        self.line = line;
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let Some(file) = self.file.as_mut() else { return false };
        if file.write_all(bytes).is_ok() {
            self.size += bytes.len() as u64;
            return true;
        }
        // Never leave half a line for the next to be glued to.
        let _ = nix::unistd::ftruncate(&*file, self.size.cast_signed());
        false
    }

    fn turn_over(&mut self) {
        self.file = None;
        let _ = renameat(&self.directory, "log", &self.directory, "log.1");
        self.file = create(&self.directory).ok();
        self.size = 0;
    }
}

fn create(directory: &File) -> std::io::Result<File> {
    debug_assert!(directory.as_raw_fd() >= 0);
    let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CLOEXEC | OFlag::O_TRUNC;
    Ok(File::from(openat(directory, "log", flags, Mode::from_bits_truncate(0o600))?))
}
