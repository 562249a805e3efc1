//! Streamable HTTP: every message is a request of its own; an answer is JSON, or the end of a stream of events.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::Value;
use url::Url;

use super::events::Events;
use super::{Heard, hear, question};
use crate::caller::Caller;
use crate::client::{self, Client, Error, read, refused};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// A conversation.
pub(super) struct Session<'a> {
    client: &'a Client,
    url: Url,
    caller: Caller,
    most: usize,
    /// What the server calls it.
    name: Option<HeaderValue>,
    version: Option<HeaderValue>,
    asked: u64,
}

impl<'a> Session<'a> {
    pub(super) fn new(client: &'a Client, url: &str, caller: Caller, most: usize) -> Result<Self, Error> {
        Ok(Self { client, url: client::url(url)?, caller, most, name: None, version: None, asked: 0 })
    }

    /// The version that both speak from now on.
    pub(super) fn speak(&mut self, version: &str) {
        self.version = HeaderValue::from_str(version).ok();
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.asked += 1;
        let id = self.asked;
        let response = self.send(Method::POST, question(id, method, &params).to_string()).await?;
        if let Some(name) = response.headers().get(SESSION) {
            self.name = Some(name.clone());
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let body = read(response, self.most).await?;
            return match hear(&String::from_utf8_lossy(&body), id)? {
                Heard::Answer(answer) => answer,
                Heard::Question(_) | Heard::Nothing => Err(Error::Odd("the server answers something else".into())),
            };
        }
        let mut events = Events::of(response, self.most);
        while let Some(event) = events.next().await? {
            match hear(&event.data, id)? {
                Heard::Answer(answer) => return answer,
                Heard::Question(answer) => self.tell(answer).await?,
                Heard::Nothing => {}
            }
        }
        Err(Error::Unreachable("the server ended its answer before it had answered".into()))
    }

    pub(super) async fn tell(&self, message: Value) -> Result<(), Error> {
        let response = self.send(Method::POST, message.to_string()).await?;
        read(response, self.most).await.map(drop)
    }

    pub(super) async fn close(self) {
        if self.name.is_some() {
            let _ = self.send(Method::DELETE, String::new()).await;
        }
    }

    async fn send(&self, method: Method, body: String) -> Result<Response<Incoming>, Error> {
        let mut request = client::request(method, &self.url, &self.caller)?
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json");
        for (header, value) in [(SESSION, &self.name), (VERSION, &self.version)] {
            if let Some(value) = value {
                request = request.header(header, value);
            }
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| Error::Invalid(error.to_string()))?;
        let response = self.client.send(request).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::METHOD_NOT_ALLOWED if self.asked == 1 => Err(Error::Odd(
                "the server takes no messages at this URL: is its transport sse, or is it at another path?".into(),
            )),
            status => Err(refused(status.as_u16(), &read(response, self.most).await?)),
        }
    }
}
