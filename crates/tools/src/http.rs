//! A tool behind a URL.

use std::time::Duration;

use api::omnia::tools::{HttpCall, ToolEntry, input_schema};
use api::omnia::{AuthType, HttpMethod};
use reqwest::{Method, RequestBuilder, Url};
use serde_json::Value;

use crate::client::{Client, Error};

/// The first wait before a call is tried again; each next is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

impl Client {
    /// Calls a tool over HTTP. `secret` gives the value of the variable that holds the credentials.
    pub async fn call(
        &self,
        entry: &ToolEntry,
        arguments: &Value,
        secret: impl Fn(&str) -> Option<String>,
    ) -> Result<String, Error> {
        let Some(call) = &entry.http_config else {
            return Err(Error::Invalid(format!("tool {} is not called over HTTP", entry.tool.name)));
        };
        let schema = input_schema(&entry.tool.input_schema).map_err(Error::Invalid)?;
        schema.validate(arguments).map_err(|error| Error::Arguments(error.to_string()))?;
        let url = Self::url(&entry.endpoint)?;
        let patience = api::duration::Duration(entry.timeout.clone()).parse().ok();
        let patience = patience.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or(Duration::from_secs(30));
        let mut wait = FIRST_WAIT;
        for _ in 0..entry.retries {
            match Self::ask(self.request(call, &url, arguments, &secret)?, patience).await {
                Err(error) if error.is_transient() => {}
                answer => return answer,
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        Self::ask(self.request(call, &url, arguments, &secret)?, patience).await
    }

    fn request(
        &self,
        call: &HttpCall,
        url: &Url,
        arguments: &Value,
        secret: &impl Fn(&str) -> Option<String>,
    ) -> Result<RequestBuilder, Error> {
        let (method, has_body) = match call.method {
            HttpMethod::Get => (Method::GET, false),
            HttpMethod::Delete => (Method::DELETE, false),
            HttpMethod::Post => (Method::POST, true),
            HttpMethod::Put => (Method::PUT, true),
            HttpMethod::Patch => (Method::PATCH, true),
        };
        let mut request = self.http.request(method, url.clone());
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        request = if has_body {
            request.header("content-type", &call.content_type).body(arguments.to_string())
        } else {
            let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let pairs = arguments.as_object().into_iter().flatten();
            let pairs: Vec<(&String, String)> = pairs.map(|(name, value)| (name, plain(value))).collect();
            request.query(&pairs)
        };
        let Some(variable) = call.auth_env.as_deref().filter(|_| call.auth_type != AuthType::None) else {
            return Ok(request);
        };
        let secret =
            secret(variable).ok_or_else(|| Error::Invalid(format!("the credentials in {variable} are missing")))?;
        Ok(match call.auth_type {
            AuthType::Basic => {
                let (user, password) = secret.split_once(':').unwrap_or((&secret, ""));
                request.basic_auth(user, Some(password))
            }
            _ => request.bearer_auth(secret.trim()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Router;
    use axum::http::HeaderMap;
    use axum::response::Redirect;
    use axum::routing::{any, get, post};
    use serde_json::json;

    use super::*;

    async fn serve(router: Router) -> SocketAddr {
        let _ = rustls::crypto::ring::default_provider().install_default();
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
        Client::new().expect("a client").call(entry, &arguments, secret).await
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
        lost.http_config.as_mut().expect("http").auth_env = Some("OTHER".into());
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
        assert!(matches!(call(&at("/endless"), arguments()).await, Err(Error::TooLarge)));
        let mut slow = at("/slow");
        slow.timeout = "50ms".into();
        assert!(matches!(call(&slow, arguments()).await, Err(Error::Timeout(_))));
        let credentials = entry("http://169.254.169.254/latest", &plain("GET"));
        assert!(matches!(call(&credentials, arguments()).await, Err(Error::Invalid(_))));
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
