//! Reads what the shim wrote: a container's log.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::pods::{LogOptions, LogStream};
use bytes::Bytes;
use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::sync::mpsc;

/// How often a followed log is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// How often a container was started.
pub fn attempts(pod: &Path, container: &str) -> u32 {
    let entries = std::fs::read_dir(pod.join("containers").join(container)).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers.max().map_or(0, |latest| latest + 1)
}

/// The end of a log, for a container's last words.
pub fn tail(directory: &Path, lines: usize, bytes: usize) -> String {
    let mut all = Vec::new();
    read_file(&directory.join("log"), 0, &mut |line| all.push(line.text));
    let text: Vec<u8> = all.into_iter().rev().take(lines).collect::<Vec<_>>().into_iter().rev().flatten().collect();
    let start = text.len().saturating_sub(bytes);
    String::from_utf8_lossy(&text[start..]).trim_end().to_owned()
}

/// One written line. A line that was too long for one is in parts; only its last part ends with a newline.
struct Line {
    time: Timestamp,
    stamp: String,
    text: Vec<u8>,
    whole: bool,
}

fn parse(raw: &[u8]) -> Option<Line> {
    let mut parts = raw.splitn(4, |byte| *byte == b' ');
    let stamp = std::str::from_utf8(parts.next()?).ok()?.to_owned();
    let _stream = parts.next()?;
    let whole = parts.next()? == b"F";
    let mut text = parts.next()?.to_vec();
    if whole {
        text.push(b'\n');
    }
    Some(Line { time: stamp.parse().ok()?, stamp, text, whole })
}

/// Reads whole lines from `offset`; returns where it stopped.
fn read_file(path: &Path, offset: u64, take: &mut dyn FnMut(Line)) -> u64 {
    let Ok(mut file) = File::open(path) else { return offset };
    if file.seek(SeekFrom::Start(offset)).is_err() {
        return offset;
    }
    let mut reader = BufReader::new(file);
    let mut position = offset;
    let mut raw = Vec::new();
    loop {
        raw.clear();
        let length = reader.read_until(b'\n', &mut raw).unwrap_or(0);
        if length == 0 || raw.last() != Some(&b'\n') {
            return position;
        }
        position += length as u64;
        raw.pop();
        if let Some(line) = parse(&raw) {
            take(line);
        }
    }
}

/// Streams a log. `is_over` says whether nothing will be written any more.
pub fn stream(directory: PathBuf, options: LogOptions, is_over: impl Fn() -> bool + Send + 'static) -> LogStream {
    let (sender, receiver) = mpsc::channel::<std::io::Result<Bytes>>(32);
    tokio::spawn(async move {
        let mut left = options.limit_bytes.unwrap_or(u64::MAX);
        let mut follower = Follower { directory, options, offset: 0, inode: 0, started: false, mid_line: false };
        loop {
            // Asked before reading: what was written before the end is then read after it.
            let over = is_over();
            let reading = tokio::task::spawn_blocking(move || {
                let lines = follower.read();
                (follower, lines)
            });
            let Ok((mut follower_back, lines)) = reading.await else { return };
            for chunk in lines {
                let keep = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
                left -= keep as u64;
                if keep > 0 && sender.send(Ok(Bytes::from(chunk).slice(..keep))).await.is_err() {
                    return;
                }
            }
            if left == 0 || over || !follower_back.options.follow {
                return;
            }
            follower_back.started = true;
            follower = follower_back;
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(GLANCE) => {}
            }
        }
    });
    tokio_stream(receiver).boxed()
}

fn tokio_stream(
    mut receiver: mpsc::Receiver<std::io::Result<Bytes>>,
) -> impl futures::Stream<Item = std::io::Result<Bytes>> {
    futures::stream::poll_fn(move |context| receiver.poll_recv(context))
}

struct Follower {
    directory: PathBuf,
    options: LogOptions,
    offset: u64,
    inode: u64,
    started: bool,
    mid_line: bool,
}

impl Follower {
    /// What is new, ready to be sent, in pieces of reasonable size.
    fn read(&mut self) -> Vec<Vec<u8>> {
        let log = self.directory.join("log");
        let older = self.directory.join("log.1");
        let mut lines = Vec::new();
        let inode = std::fs::metadata(&log).map_or(0, |data| data.ino());
        if !self.started {
            read_file(&older, 0, &mut |line| lines.push(line));
        } else if inode != self.inode {
            // It was turned over: the rest of what we were reading is the older file now.
            read_file(&older, self.offset, &mut |line| lines.push(line));
            self.offset = 0;
        }
        self.inode = inode;
        self.offset = read_file(&log, self.offset, &mut |line| lines.push(line));
        if let Some(since) = self.options.since {
            lines.retain(|line| line.time >= since);
        }
        if let (false, Some(count)) = (self.started, self.options.tail_lines) {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let mut whole = 0;
            let keep_from = lines
                .iter()
                .enumerate()
                .rev()
                .find(|(index, line)| {
                    let is_end = line.whole || *index + 1 == lines.len();
                    whole += usize::from(is_end);
                    whole > count
                })
                .map_or(0, |(index, _)| index + 1);
            lines.drain(..keep_from);
        }
        self.render(lines)
    }

    fn render(&mut self, lines: Vec<Line>) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        let mut chunk = Vec::new();
        for line in lines {
            if self.options.timestamps && !self.mid_line {
                chunk.extend_from_slice(line.stamp.as_bytes());
                chunk.push(b' ');
            }
            self.mid_line = !line.whole;
            chunk.extend_from_slice(&line.text);
            if chunk.len() >= 32 * 1024 {
                chunks.push(std::mem::take(&mut chunk));
            }
        }
        if !chunk.is_empty() {
            chunks.push(chunk);
        }
        chunks
    }
}
