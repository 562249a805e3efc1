//! `SPDY/3.1+portforward.k8s.io`: what kubectl forwards ports over. Each connection is a pair of streams, data and
//! errors, that carry the same request number.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::spdy::{self, Decoder, Encoder, Frame};
use crate::pods::PodAccess;

/// Connections at a time.
const MOST: usize = 1000;
/// Pieces that may wait for a Pod that does not read.
const WAITING: usize = 64;

/// Serves until the client goes.
pub async fn run(socket: WebSocket, node: Arc<dyn PodAccess>, pod: Value) {
    let (sink, mut messages) = socket.split();
    let (frames, outgoing) = mpsc::channel(64);
    let mut session = Session::new(node, pod, frames);
    let reading = async {
        while let Some(Ok(message)) = messages.next().await {
            let Message::Binary(bytes) = message else { continue };
            if let Err(error) = session.take(&bytes).await {
                tracing::debug!(%error, "a port-forward connection is given up");
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = write(sink, outgoing) => {}
    }
}

/// Sends what is ready, many frames at a time.
async fn write(mut sink: SplitSink<WebSocket, Message>, mut outgoing: mpsc::Receiver<Bytes>) {
    while let Some(frame) = outgoing.recv().await {
        if sink.feed(Message::Binary(frame)).await.is_err() {
            return;
        }
        while let Ok(frame) = outgoing.try_recv() {
            if sink.feed(Message::Binary(frame)).await.is_err() {
                return;
            }
        }
        if sink.flush().await.is_err() {
            return;
        }
    }
    let frame = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = sink.send(Message::Close(Some(frame))).await;
}

struct Session {
    node: Arc<dyn PodAccess>,
    pod: Value,
    decoder: Decoder,
    encoder: Encoder,
    frames: mpsc::Sender<Bytes>,
    /// Error streams whose data stream has not come yet, by request.
    waiting: HashMap<String, u32>,
    /// Connections by data stream.
    connections: HashMap<u32, Connection>,
    tasks: JoinSet<u32>,
}

struct Connection {
    /// To the Pod; gone when the client has sent everything.
    input: Option<mpsc::Sender<Bytes>>,
    task: AbortHandle,
}

impl Session {
    fn new(node: Arc<dyn PodAccess>, pod: Value, frames: mpsc::Sender<Bytes>) -> Self {
        Self {
            node,
            pod,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            frames,
            waiting: HashMap::new(),
            connections: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), spdy::Error> {
        self.decoder.feed(bytes);
        while let Some(frame) = self.decoder.next()? {
            while let Some(Ok(over)) = self.tasks.try_join_next() {
                self.connections.remove(&over);
            }
            match frame {
                Frame::Open { stream, headers, .. } => self.open(stream, &headers).await,
                Frame::Data { stream, bytes, last } => self.pass(stream, bytes, last).await,
                Frame::Reset(stream) => {
                    if let Some(connection) = self.connections.remove(&stream) {
                        connection.task.abort();
                    }
                }
                Frame::Ping(number) => self.send(spdy::pong(number)).await,
                Frame::GoAway | Frame::Other => {}
            }
        }
        Ok(())
    }

    async fn send(&self, frame: Bytes) {
        // Nobody takes it when the client is gone; reading ends then, too.
        let _ = self.frames.send(frame).await;
    }

    async fn open(&mut self, stream: u32, headers: &[(String, String)]) {
        let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let port = header("port").and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
        let (Some(kind), Some(port), Some(request)) = (header("streamtype"), port, header("requestid")) else {
            return self.send(spdy::reset(stream, spdy::REFUSED_STREAM)).await;
        };
        if self.connections.len() + self.waiting.len() >= MOST {
            return self.send(spdy::reset(stream, spdy::REFUSED_STREAM)).await;
        }
        if kind == "error" {
            self.waiting.insert(request.to_owned(), stream);
            let reply = self.encoder.reply(stream);
            return self.send(reply).await;
        }
        let Some(errors) = self.waiting.remove(request) else {
            return self.send(spdy::reset(stream, spdy::REFUSED_STREAM)).await;
        };
        let reply = self.encoder.reply(stream);
        self.send(reply).await;
        let (input, received) = mpsc::channel(WAITING);
        let (node, pod, frames) = (self.node.clone(), self.pod.clone(), self.frames.clone());
        let task = self.tasks.spawn(async move {
            let complaint = carry(node, &pod, port, stream, received, &frames).await;
            // The message first: the client reads it once its data have ended.
            let _ = frames.send(spdy::data(errors, complaint.as_bytes(), true)).await;
            let _ = frames.send(spdy::data(stream, b"", true)).await;
            stream
        });
        self.connections.insert(stream, Connection { input: Some(input), task });
    }

    async fn pass(&mut self, stream: u32, bytes: Bytes, last: bool) {
        let Some(connection) = self.connections.get_mut(&stream) else { return };
        if let Some(input) = connection.input.as_ref().filter(|_| !bytes.is_empty())
            && input.send(bytes).await.is_err()
        {
            connection.input = None;
        }
        if last {
            connection.input = None;
        }
    }
}

/// Carries one connection's bytes until the Pod has said everything. Returns what went wrong, or nothing.
async fn carry(
    node: Arc<dyn PodAccess>,
    pod: &Value,
    port: u16,
    stream: u32,
    mut received: mpsc::Receiver<Bytes>,
    frames: &mpsc::Sender<Bytes>,
) -> String {
    let connection = match node.port_forward(pod, port).await {
        Ok(connection) => connection,
        Err(status) => return status.message,
    };
    let (mut reader, mut writer) = tokio::io::split(connection);
    let inward = async {
        while let Some(bytes) = received.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    let outward = async {
        let mut buffer = vec![0; 32 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            if frames.send(spdy::data(stream, &buffer[..count], false)).await.is_err() {
                return;
            }
        }
    };
    let inward_for_ever = async {
        inward.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = outward => {}
        () = inward_for_ever => {}
    }
    String::new()
}
