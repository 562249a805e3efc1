//! A tool behind a URL.

use api::omnia::HttpMethod;
use api::omnia::tools::HttpCall;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;

use crate::call::{Secret, plain_text};
use crate::caller::Caller;
use crate::client::{self, Error};

/// The request that makes a call.
pub(crate) fn request(
    call: &HttpCall,
    endpoint: &str,
    arguments: &Value,
    secret: Secret<'_>,
) -> Result<Request<Full<Bytes>>, Error> {
    let (method, has_body) = match call.method {
        HttpMethod::Get => (Method::GET, false),
        HttpMethod::Delete => (Method::DELETE, false),
        HttpMethod::Post => (Method::POST, true),
        HttpMethod::Put => (Method::PUT, true),
        HttpMethod::Patch => (Method::PATCH, true),
    };
    let mut url = client::url(endpoint)?;
    let mut body = Bytes::new();
    if has_body {
        body = arguments.to_string().into();
    } else if let Some(pairs) = arguments.as_object().filter(|pairs| !pairs.is_empty()) {
        url.query_pairs_mut().extend_pairs(pairs.iter().map(|(name, value)| (name, plain_text(value))));
    }
    let mut request = client::request(method, &url, &Caller::of(&call.access, secret)?)?;
    if has_body {
        request = request.header(CONTENT_TYPE, &call.content_type);
    }
    request.body(Full::new(body)).map_err(|error| Error::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Router;
    use axum::http::HeaderMap;
    use axum::response::Redirect;
    use axum::routing::{any, get, post};
    use serde_json::json;

    use api::omnia::tools::ToolEntry;

    use super::*;
    use crate::Client;

    async fn serve(router: Router) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn entry(endpoint: &str, http: &Value) -> ToolEntry {
        serde_json::from_value(json!({
            "name": "h", "type": "http", "registry": "r", "endpoint": endpoint, "timeout": "2s", "retries": 0,
            "tool": { "name": "t", "description": "d", "inputSchema": { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } },
            "httpConfig": http,
        }))
        .expect("an entry")
    }

    fn plain(method: &str) -> Value {
        json!({ "method": method, "contentType": "application/json" })
    }

    async fn call(entry: &ToolEntry, arguments: Value) -> Result<String, Error> {
        let secret = |name: &str| (name == "KEY").then(|| "top:secret".to_owned());
        Client::new().expect("a client").call(entry, &arguments, &secret).await
    }

    #[tokio::test]
    async fn arguments_go_where_the_method_says() {
        let router = Router::new()
            .route("/body", post(|body: String| async move { body }))
            .route("/query", get(|uri: axum::http::Uri| async move { uri.query().unwrap_or_default().to_owned() }));
        let address = serve(router).await;
        let body = entry(&format!("http://{address}/body"), &plain("POST"));
        assert_eq!(call(&body, json!({ "n": 1 })).await.expect("an answer"), r#"{"n":1}"#);
        let query = entry(&format!("http://{address}/query"), &plain("GET"));
        assert_eq!(call(&query, json!({ "n": 1 })).await.expect("an answer"), "n=1");
    }

    #[tokio::test]
    async fn credentials_and_headers_are_sent() {
        let router = Router::new().route(
            "/",
            any(|headers: HeaderMap| async move {
                let show =
                    |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
                format!("{} {}", show("authorization"), show("x-a"))
            }),
        );
        let address = serve(router).await;
        let http = |auth: &str| json!({ "method": "POST", "contentType": "application/json", "headers": { "X-A": "b" }, "authType": auth, "authEnv": "KEY" });
        let url = format!("http://{address}/");
        assert_eq!(
            call(&entry(&url, &http("bearer")), json!({ "n": 1 })).await.expect("an answer"),
            "Bearer top:secret b"
        );
        assert_eq!(
            call(&entry(&url, &http("basic")), json!({ "n": 1 })).await.expect("an answer"),
            "Basic dG9wOnNlY3JldA== b"
        );
        let mut lost = entry(&url, &http("bearer"));
        lost.http_config.as_mut().expect("http").access.auth_env = Some("OTHER".into());
        assert!(matches!(call(&lost, json!({ "n": 1 })).await, Err(Error::Invalid(_))));
    }

    #[tokio::test]
    async fn what_does_not_fit_the_schema_is_not_sent() {
        let closed = entry("http://127.0.0.1:1/", &plain("POST"));
        assert!(matches!(call(&closed, json!({ "n": "x" })).await, Err(Error::Arguments(_))));
    }

    #[tokio::test]
    async fn hostile_servers_are_left_alone() {
        let endless = || async {
            let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 65536]));
            axum::body::Body::from_stream(chunks)
        };
        let router = Router::new()
            .route("/elsewhere", any(|| async { Redirect::temporary("http://169.254.169.254/latest") }))
            .route("/endless", any(endless))
            .route("/slow", any(|| async { std::future::pending::<()>().await }));
        let address = serve(router).await;
        let at = |path: &str| entry(&format!("http://{address}{path}"), &plain("POST"));
        let arguments = || json!({ "n": 1 });
        assert!(matches!(call(&at("/elsewhere"), arguments()).await, Err(Error::Refused { status: 307, .. })));
        assert!(matches!(call(&at("/endless"), arguments()).await, Err(Error::TooLarge(_))));
        let mut slow = at("/slow");
        slow.timeout = "50ms".into();
        assert!(matches!(call(&slow, arguments()).await, Err(Error::Timeout(_))));
        let credentials = entry("http://169.254.169.254/latest", &plain("GET"));
        assert!(
            matches!(call(&credentials, arguments()).await, Err(Error::Unreachable(why)) if why.contains("link-local"))
        );
    }

    #[tokio::test]
    async fn a_call_that_failed_is_tried_as_often_as_it_says() {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = count.clone();
        let router = Router::new().route(
            "/",
            any(move || {
                let before = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                async move {
                    if before < 2 {
                        (axum::http::StatusCode::SERVICE_UNAVAILABLE, "busy")
                    } else {
                        (axum::http::StatusCode::OK, "done")
                    }
                }
            }),
        );
        let address = serve(router).await;
        let mut twice = entry(&format!("http://{address}/"), &plain("POST"));
        twice.retries = 1;
        assert!(matches!(call(&twice, json!({ "n": 1 })).await, Err(Error::Refused { status: 503, .. })));
        assert_eq!(call(&twice, json!({ "n": 1 })).await.expect("the third works"), "done");
    }
}
