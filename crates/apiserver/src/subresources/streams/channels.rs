//! `v4.channel.k8s.io` and `v5.channel.k8s.io`: the streams of a command in one WebSocket. The first
//! byte of a message is its channel.

use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::header::UPGRADE;
use http::request::Parts;
use machinery::status::Status;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pods::{ExecSession, Exit, Output, TerminalSize};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Version 5: says that a channel is closed.
const CLOSE: u8 = 255;

/// The protocols of commands.
pub const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// How long output is waited for after a command has ended: something it left behind may hold it open for ever.
const AFTERMATH: Duration = Duration::from_millis(500);
/// How long a client may take to hang up.
const FAREWELL: Duration = Duration::from_secs(5);

/// Accepts a WebSocket that speaks one of the protocols.
pub async fn accept(parts: &Parts, protocols: &[&'static str]) -> Result<WebSocketUpgrade, Status> {
    let upgrade = parts.headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let wanted = protocols.join(" or ");
    if !upgrade.eq_ignore_ascii_case("websocket") && parts.version < http::Version::HTTP_2 {
        return Err(Status::bad_request(if upgrade.to_ascii_lowercase().starts_with("spdy") {
            "SPDY is not served; use a client that speaks WebSockets (kubectl 1.31 or later)".to_owned()
        } else {
            format!("this is a stream: connect with a WebSocket and the protocol {wanted}")
        }));
    }
    let mut parts = parts.clone();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
        .await
        .map_err(|rejection| Status::bad_request(format!("the WebSocket could not be opened: {rejection}")))?;
    let upgrade = upgrade.protocols(protocols.iter().copied());
    if upgrade.selected_protocol().is_none() {
        return Err(Status::bad_request(format!("the WebSocket must offer the protocol {wanted}")));
    }
    Ok(upgrade)
}

/// Carries a command's streams until it ends or the client goes.
pub async fn run(socket: WebSocket, session: ExecSession, closing: CancellationToken) {
    let ExecSession { stdin, output, resize, exit } = session;
    let (mut sink, mut messages) = socket.split();
    // Both ways at once: a command that does not read its input must not keep its output from being read.
    let exit = tokio::select! {
        exit = outward(&mut sink, output, exit) => exit,
        () = inward(&mut messages, stdin, resize) => return,
        () = closing.cancelled() => Exit::Failed("the server is closing".into()),
    };
    // Nobody is left to tell when the client is gone already.
    let _ = sink.send(frame(ERROR, outcome(&exit).to_string().as_bytes())).await;
    // Without a code kubectl takes the end for a broken connection.
    let farewell = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = sink.send(Message::Close(Some(farewell))).await;
    // Closing while something of the client's is unread would take back what it has not read yet.
    let drained = async { while let Some(Ok(_)) = messages.next().await {} };
    let _ = tokio::time::timeout(FAREWELL, drained).await;
}

/// Sends what the command says until it has ended.
async fn outward(
    sink: &mut SplitSink<WebSocket, Message>,
    mut output: mpsc::Receiver<Output>,
    mut exit: BoxFuture<'static, Exit>,
) -> Exit {
    let mut open = true;
    let mut ended = None;
    loop {
        tokio::select! {
            said = output.recv(), if open => {
                let message = match said {
                    Some(Output::Stdout(bytes)) => Some(frame(STDOUT, &bytes)),
                    Some(Output::Stderr(bytes)) => Some(frame(STDERR, &bytes)),
                    None => None,
                };
                open = message.is_some();
                if let Some(message) = message
                    && sink.send(message).await.is_err()
                {
                    // The other direction notices, and ends this.
                    std::future::pending::<()>().await;
                }
            },
            code = &mut exit, if ended.is_none() => ended = Some(code),
            () = tokio::time::sleep(AFTERMATH), if ended.is_some() && open => open = false,
        }
        if !open && let Some(exit) = ended.take() {
            return exit;
        }
    }
}

/// Takes what the client sends until it goes.
async fn inward(messages: &mut SplitStream<WebSocket>, stdin: mpsc::Sender<Bytes>, resize: mpsc::Sender<TerminalSize>) {
    let mut stdin = Some(stdin);
    loop {
        match messages.next().await {
            Some(Ok(Message::Binary(bytes))) => receive(&bytes, &mut stdin, &resize).await,
            Some(Ok(Message::Text(text))) => receive(text.as_bytes(), &mut stdin, &resize).await,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            Some(Ok(_)) => {}
        }
    }
}

async fn receive(message: &[u8], stdin: &mut Option<mpsc::Sender<Bytes>>, resize: &mpsc::Sender<TerminalSize>) {
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
