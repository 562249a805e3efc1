//! `v4.channel.k8s.io` and `v5.channel.k8s.io`: the streams of a command in one WebSocket. The first
//! byte of a message is its channel.

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use http::header::UPGRADE;
use http::request::Parts;
use machinery::status::Status;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::pods::{ExecSession, Exit, Output, TerminalSize};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Version 5: says that a channel is closed.
const CLOSE: u8 = 255;

/// Accepts a WebSocket that speaks one of the channel protocols.
pub async fn accept(parts: &Parts) -> Result<WebSocketUpgrade, Status> {
    let upgrade = parts.headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !upgrade.eq_ignore_ascii_case("websocket") && parts.version < http::Version::HTTP_2 {
        return Err(Status::bad_request(if upgrade.to_ascii_lowercase().starts_with("spdy") {
            "SPDY is not served; use a client that speaks WebSockets (kubectl 1.31 or later)"
        } else {
            "this is a stream: connect with a WebSocket and the protocol v5.channel.k8s.io or v4.channel.k8s.io"
        }));
    }
    let mut parts = parts.clone();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
        .await
        .map_err(|rejection| Status::bad_request(format!("the WebSocket could not be opened: {rejection}")))?;
    let upgrade = upgrade.protocols(["v5.channel.k8s.io", "v4.channel.k8s.io"]);
    if upgrade.selected_protocol().is_none() {
        return Err(Status::bad_request(
            "the WebSocket must offer the protocol v5.channel.k8s.io or v4.channel.k8s.io",
        ));
    }
    Ok(upgrade)
}

/// Carries a command's streams until it ends or the client goes.
pub async fn run(socket: WebSocket, mut session: ExecSession, closing: CancellationToken) {
    let (mut sink, mut messages) = socket.split();
    let mut stdin = Some(session.stdin);
    let mut output_open = true;
    let exit = loop {
        tokio::select! {
            output = session.output.recv(), if output_open => match output {
                Some(output) => {
                    let (channel, bytes) = match output {
                        Output::Stdout(bytes) => (STDOUT, bytes),
                        Output::Stderr(bytes) => (STDERR, bytes),
                    };
                    if sink.send(frame(channel, &bytes)).await.is_err() {
                        return;
                    }
                }
                None => output_open = false,
            },
            exit = &mut session.exit, if !output_open => break exit,
            message = messages.next() => match message {
                Some(Ok(Message::Binary(bytes))) => receive(&bytes, &mut stdin, &session.resize).await,
                Some(Ok(Message::Text(text))) => receive(text.as_bytes(), &mut stdin, &session.resize).await,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            () = closing.cancelled() => break Exit::Failed("the server is closing".into()),
        }
    };
    // Nobody is left to tell when the client is gone already.
    let _ = sink.send(frame(ERROR, outcome(&exit).to_string().as_bytes())).await;
    // Without a code kubectl takes the end for a broken connection.
    let normal = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = sink.send(Message::Close(Some(normal))).await;
}

async fn receive(
    message: &[u8],
    stdin: &mut Option<tokio::sync::mpsc::Sender<Bytes>>,
    resize: &tokio::sync::mpsc::Sender<TerminalSize>,
) {
    match message.split_first() {
        Some((&STDIN, bytes)) if !bytes.is_empty() => {
            if let Some(sender) = stdin
                && sender.send(Bytes::copy_from_slice(bytes)).await.is_err()
            {
                *stdin = None;
            }
        }
        Some((&CLOSE, [STDIN])) => *stdin = None,
        Some((&RESIZE, bytes)) => {
            if let Ok(size) = serde_json::from_slice(bytes) {
                let _ = resize.send(size).await;
            }
        }
        _ => {}
    }
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(bytes.len() + 1);
    message.put_u8(channel);
    message.put_slice(bytes);
    Message::Binary(message.freeze())
}

/// How a command ended, as clients read it.
fn outcome(exit: &Exit) -> Value {
    match exit {
        Exit::Code(0) => json!({ "metadata": {}, "status": "Success" }),
        Exit::Code(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
        }),
        Exit::Failed(why) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "message": why, "code": 500,
        }),
    }
}
