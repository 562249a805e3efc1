//! HTTP with server-sent events, the transport before streamable HTTP: one stream brings everything that the server says,
//! and its first event names the URL that takes messages.

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::Full;
use serde_json::Value;
use url::Url;

use super::events::Events;
use super::{Heard, hear, question};
use crate::caller::Caller;
use crate::client::{self, Client, Error, read, refused};

/// A conversation.
pub(super) struct Session<'a> {
    client: &'a Client,
    events: Events,
    messages: Url,
    caller: Caller,
    most: usize,
    asked: u64,
}

impl<'a> Session<'a> {
    pub(super) async fn open(client: &'a Client, url: &str, caller: Caller, most: usize) -> Result<Self, Error> {
        let url = client::url(url)?;
        let request = client::request(Method::GET, &url, &caller)?
            .header(ACCEPT, "text/event-stream")
            .body(Full::default())
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let response = client.send(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status.as_u16(), &read(response, most).await?));
        }
        let mut events = Events::of(response, most);
        while let Some(event) = events.next().await? {
            if event.name != "endpoint" {
                continue;
            }
            let messages = url.join(event.data.trim());
            let messages = messages.map_err(|error| Error::Odd(format!("{:?} is no URL: {error}", event.data)))?;
            if messages.origin() != url.origin() {
                return Err(Error::Odd(format!("the server sends messages to {messages}, which nobody named")));
            }
            return Ok(Self { client, events, messages, caller, most, asked: 0 });
        }
        Err(Error::Odd("the server does not say where it takes messages".into()))
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.asked += 1;
        let id = self.asked;
        self.tell(question(id, method, &params)).await?;
        while let Some(event) = self.events.next().await? {
            match hear(&event.data, id)? {
                Heard::Answer(answer) => return answer,
                Heard::Question(answer) => self.tell(answer).await?,
                Heard::Nothing => {}
            }
        }
        Err(Error::Unreachable("the server ended its stream before it had answered".into()))
    }

    pub(super) async fn tell(&self, message: Value) -> Result<(), Error> {
        let request = client::request(Method::POST, &self.messages, &self.caller)?
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(message.to_string())))
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let response = self.client.send(request).await?;
        let status = response.status();
        let body = read(response, self.most).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status.as_u16(), &body)) }
    }
}
