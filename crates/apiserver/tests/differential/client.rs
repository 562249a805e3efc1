//! One way to ask both servers.

use axum::body::Body;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

/// Something that answers requests with all rights.
#[derive(Clone)]
pub enum Client {
    /// Over TLS, with a token.
    Remote { http: reqwest::Client, base: String, token: String },
    /// In this process.
    Local(tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, std::convert::Infallible>),
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub warnings: Vec<String>,
    /// JSON; several documents (a watch) as a list, other text as a string.
    pub body: Value,
}

impl Client {
    pub async fn send(&self, request: Request<Vec<u8>>) -> Answer {
        self.try_send(request).await.unwrap()
    }

    /// Fails only where there is a network to fail.
    pub async fn try_send(&self, request: Request<Vec<u8>>) -> Result<Answer, reqwest::Error> {
        match self {
            Self::Remote { http, base, token } => {
                let (parts, body) = request.into_parts();
                let url = format!("{base}{}", parts.uri);
                let request = http.request(parts.method, url).headers(parts.headers).bearer_auth(token);
                let response = request.body(body).send().await?;
                let (status, headers) = (response.status().as_u16(), response.headers().clone());
                Ok(Answer::new(status, &headers, &response.bytes().await?))
            }
            Self::Local(service) => {
                let Ok(response) = service.clone().oneshot(request.map(Body::from)).await;
                let (parts, body) = response.into_parts();
                let whole = tokio::time::timeout(std::time::Duration::from_secs(30), body.collect());
                let bytes = whole.await.expect("an answer that ends").unwrap().to_bytes();
                Ok(Answer::new(parts.status.as_u16(), &parts.headers, &bytes))
            }
        }
    }
}

impl Answer {
    fn new(status: u16, headers: &HeaderMap, bytes: &[u8]) -> Self {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(bytes).into_iter().collect();
        let body = match documents {
            Ok(mut documents) if documents.len() == 1 => documents.remove(0),
            Ok(documents) if !documents.is_empty() => Value::Array(documents),
            _ => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        };
        let content_type = headers.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default();
        let warnings = headers.get_all(http::header::WARNING).iter().map(text).collect();
        Self { status, content_type, warnings, body }
    }
}
