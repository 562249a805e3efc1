//! Ports of a Pod over a WebSocket: two channels a port, data and errors, each opened with the port
//! number.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use axum::response::Response;
use bytes::{BufMut as _, BytesMut};
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

type Sink = SplitSink<WebSocket, Message>;

/// Connects the ports and carries their bytes.
pub async fn serve(
    request: &Parts,
    node: Arc<dyn PodAccess>,
    pod: Value,
    ports: Vec<u16>,
    closing: CancellationToken,
) -> Result<Response, Status> {
    if ports.is_empty() || ports.len() > 100 {
        return Err(Status::bad_request("query parameter \"ports\" is required, with at most 100 ports"));
    }
    let upgrade = super::channels::accept(request).await?;
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
    let mut writers: Vec<Option<WriteHalf<Connection>>> = Vec::new();
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
                writers.push(Some(writer));
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
    loop {
        tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => if send(&mut sink, message).await.is_err() { return },
                None => return,
            },
            message = messages.next() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    let Some((&channel, data)) = bytes.split_first() else { continue };
                    let port = usize::from(channel) / 2;
                    if channel % 2 == 0 && let Some(Some(writer)) = writers.get_mut(port)
                        && writer.write_all(data).await.is_err()
                    {
                        writers[port] = None;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

fn channel(index: usize) -> u8 {
    u8::try_from(index).expect("at most 100 ports, two channels each")
}

async fn send(sink: &mut Sink, message: Message) -> Result<(), axum::Error> {
    sink.send(message).await
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
