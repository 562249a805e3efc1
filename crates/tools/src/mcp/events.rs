//! Server-sent events, read from the body of an answer.

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::client::Error;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; empty when it has none.
    pub(super) name: String,
    /// Its data, line by line.
    pub(super) data: String,
}

/// The events of an answer.
pub(super) struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    /// What may still be read.
    left: usize,
    most: usize,
}

impl Events {
    pub(super) fn of(response: Response<Incoming>, most: usize) -> Self {
        Self { body: response.into_body(), buffer: Vec::new(), left: most, most }
    }

    /// The next event; `None` when there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Error> {
        let mut event = Event::default();
        while let Some(line) = self.line().await? {
            if line.is_empty() {
                if !event.data.is_empty() {
                    return Ok(Some(event));
                }
                event = Event::default();
            } else {
                event.add(&line);
            }
        }
        Ok(None)
    }

    async fn line(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| Error::Unreachable(format!("the answer broke off: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            self.left = self.left.checked_sub(data.len()).ok_or(Error::TooLarge(self.most))?;
            self.buffer.extend_from_slice(&data);
        }
    }
}

impl Event {
    fn add(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            _ => {}
        }
    }
}
