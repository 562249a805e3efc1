//! Ports of a Pod over a WebSocket: two channels a port, data and errors, each opened with the port
//! number.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::SinkExt as _;
use futures::stream::{SplitSink, StreamExt as _};
use http::request::Parts;
use machinery::status::Status;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::pods::{Connection, PodAccess};

/// How kubectl asks for a [`super::tunnel`].
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// How long a client may take to answer that a connection is over.
const FAREWELL: Duration = Duration::from_secs(5);

type Sink = SplitSink<WebSocket, Message>;

/// Connects the ports and carries their bytes.
pub async fn serve(
    request: &Parts,
    node: Arc<dyn PodAccess>,
    pod: Value,
    ports: Vec<u16>,
    closing: CancellationToken,
) -> Result<Response, Status> {
    let protocols = [TUNNEL, super::channels::PROTOCOLS[0], super::channels::PROTOCOLS[1]];
    let upgrade = super::channels::accept(request, &protocols).await?;
    if upgrade.selected_protocol().is_some_and(|protocol| protocol == TUNNEL) {
        return Ok(upgrade.on_upgrade(move |socket| async move {
            closing.run_until_cancelled(super::tunnel::run(socket, node, pod)).await;
        }));
    }
    if ports.is_empty() || ports.len() > 100 {
        return Err(Status::bad_request("query parameter \"ports\" is required, with at most 100 ports"));
    }
    Ok(upgrade.on_upgrade(move |socket| async move {
        // Tasks end with the set when the client goes or the server closes.
        let mut tasks = JoinSet::new();
        tokio::select! {
            () = run(socket, node, pod, ports, &mut tasks) => {}
            () = closing.cancelled() => {}
        }
    }))
}

async fn run(socket: WebSocket, node: Arc<dyn PodAccess>, pod: Value, ports: Vec<u16>, tasks: &mut JoinSet<()>) {
    let (mut sink, mut messages) = socket.split();
    let (frames, mut outgoing) = mpsc::channel::<Message>(64);
    let mut writers: Vec<Option<mpsc::Sender<Bytes>>> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let (data, errors) = (channel(index * 2), channel(index * 2 + 1));
        for one in [data, errors] {
            if send(&mut sink, frame(one, &port.to_le_bytes())).await.is_err() {
                return;
            }
        }
        match node.port_forward(&pod, *port).await {
            Ok(connection) => {
                let (reader, writer) = tokio::io::split(connection);
                tasks.spawn(copy(reader, data, frames.clone()));
                let (input, received) = mpsc::channel(64);
                tasks.spawn(write(writer, received));
                writers.push(Some(input));
            }
            Err(status) => {
                if send(&mut sink, frame(errors, status.message.as_bytes())).await.is_err() {
                    return;
                }
                writers.push(None);
            }
        }
    }
    drop(frames);
    // Both ways at once: a Pod that does not read must not keep what it says from being heard.
    let outward = async {
        while let Some(message) = outgoing.recv().await {
            if send(&mut sink, message).await.is_err() {
                return;
            }
        }
    };
    let inward = async {
        while let Some(Ok(message)) = messages.next().await {
            let Message::Binary(bytes) = message else { continue };
            let Some(&channel) = bytes.first() else { continue };
            let port = usize::from(channel) / 2;
            if channel % 2 == 0
                && let Some(Some(writer)) = writers.get(port)
                && writer.send(bytes.slice(1..)).await.is_err()
            {
                writers[port] = None;
            }
        }
    };
    let everything_is_said = tokio::select! {
        () = outward => true,
        () = inward => false,
    };
    // A client that is left without a farewell takes the connection for broken, and may forget what it has not read yet.
    if everything_is_said && send(&mut sink, Message::Close(None)).await.is_ok() {
        let answer = async { while let Some(Ok(_)) = messages.next().await {} };
        let _ = tokio::time::timeout(FAREWELL, answer).await;
    }
}

fn channel(index: usize) -> u8 {
    u8::try_from(index).expect("at most 100 ports, two channels each")
}

async fn send(sink: &mut Sink, message: Message) -> Result<(), axum::Error> {
    sink.send(message).await
}

async fn write(mut writer: WriteHalf<Connection>, mut received: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = received.recv().await {
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn copy(mut reader: ReadHalf<Connection>, channel: u8, frames: mpsc::Sender<Message>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = reader.read(&mut buffer).await {
        if frames.send(frame(channel, &buffer[..count])).await.is_err() {
            return;
        }
    }
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(bytes.len() + 1);
    message.put_u8(channel);
    message.put_slice(bytes);
    Message::Binary(message.freeze())
}
