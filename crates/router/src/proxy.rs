//! One request: find its session, choose its side, pass it there and the answer back.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::omnia::routing::{ROUTED_HEADER, SESSION_HEADER};
use http::header::{CONNECTION, HeaderName, HeaderValue, SET_COOKIE, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use crate::body::{Answer, Passing, full};
use crate::ledger::{Entry, Ledger};
use crate::session::{LARGEST, Session, in_body, in_head, may_be_in_body};

/// A side that refuses connections is asked again for so long: nothing was sent, so nothing can happen twice. So long too
/// has one end of a stream to go when the other has gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// What concerns one connection and is not passed on.
const OF_CONNECTION: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Passes requests on.
pub(crate) struct Proxy {
    pub(crate) ledger: Arc<Ledger>,
    /// Connections that became something else than HTTP.
    pub(crate) streams: TaskTracker,
}

impl Proxy {
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<Passing> {
        let Some(routing) = self.ledger.routing() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the router has not been told where to send requests");
        };
        let (parts, body) = request.into_parts();
        let named = in_head(&parts, &routing);
        let (named, body) = match named {
            None if may_be_in_body(&parts.headers) => {
                let Ok(read) = Limited::new(body, usize::try_from(LARGEST).unwrap_or(usize::MAX)).collect().await
                else {
                    return plain(StatusCode::BAD_REQUEST, "the request broke off");
                };
                let bytes = read.to_bytes();
                (in_body(&bytes), full(bytes))
            }
            named => (named, body.boxed_unsync()),
        };
        let session = Session::of(named);
        let Some(entry) = self.ledger.enter(&session.id) else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the router has not been told where to send requests");
        };
        let (retiring, version) = (entry.retiring, parts.version);
        let mut response = self.pass(Request::from_parts(parts, body), &session, entry).await;
        if session.is_new {
            let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Lax", routing.session_cookie, session.id);
            for (name, value) in [(SET_COOKIE, cookie), (HeaderName::from_static(SESSION), session.id)] {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().append(name, value);
                }
            }
        }
        if retiring && version < Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn pass(&self, request: Request<Passing>, session: &Session, entry: Entry) -> Response<Passing> {
        let began = Instant::now();
        match self.exchange(request, session, &entry).await {
            Ok((mut response, client)) => {
                entry.answered(response.status().is_server_error(), began.elapsed());
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    let server = hyper::upgrade::on(&mut response);
                    self.streams.spawn(connect(client, server, entry));
                    return response.map(|_| full(""));
                }
                strip(response.headers_mut());
                response.map(|body| Answer { body, entry }.boxed_unsync())
            }
            Err(problem) => {
                entry.answered(true, began.elapsed());
                tracing::warn!(
                    address = entry.address,
                    error = problem.to_string(),
                    "a request could not be passed on"
                );
                plain(StatusCode::BAD_GATEWAY, "the agent does not answer")
            }
        }
    }

    /// Sends a request over a connection of its own: one that is shared may be closed by the other end at the very moment.
    async fn exchange(
        &self,
        mut request: Request<Passing>,
        session: &Session,
        entry: &Entry,
    ) -> Result<(Response<Incoming>, Option<hyper::upgrade::OnUpgrade>), Problem> {
        let stream = connect_to(&entry.address).await?;
        let is_second = request.version() == Version::HTTP_2;
        let client = (!is_second && request.headers().contains_key(UPGRADE)).then(|| hyper::upgrade::on(&mut request));
        let request = outgoing(request, session, &entry.address)?;
        let io = TokioIo::new(stream);
        if is_second {
            let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            return Ok((sender.send_request(request).await?, None));
        }
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection.with_upgrades());
        Ok((sender.send_request(request).await?, client))
    }
}

/// The header as HTTP/2 writes it.
const SESSION: &str = "x-omnia-session";

async fn connect_to(address: &str) -> std::io::Result<TcpStream> {
    let began = Instant::now();
    loop {
        let connecting = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await;
        match connecting.unwrap_or_else(|late| Err(late.into())) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if began.elapsed() >= PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The request as a side gets it.
fn outgoing(request: Request<Passing>, session: &Session, address: &str) -> Result<Request<Passing>, Problem> {
    let (mut parts, body) = request.into_parts();
    let upgrade = parts.headers.get(UPGRADE).cloned();
    strip(&mut parts.headers);
    if let Some(upgrade) = upgrade.filter(|_| parts.version < Version::HTTP_2) {
        parts.headers.insert(UPGRADE, upgrade);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    parts.headers.insert(HeaderName::from_bytes(SESSION_HEADER.as_bytes())?, HeaderValue::from_str(&session.id)?);
    parts.headers.insert(HeaderName::from_bytes(ROUTED_HEADER.as_bytes())?, HeaderValue::from_static("true"));
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    parts.uri = if parts.version == Version::HTTP_2 {
        http::Uri::builder().scheme("http").authority(address).path_and_query(path).build()?
    } else {
        parts.version = Version::HTTP_11;
        path.parse()?
    };
    Ok(Request::from_parts(parts, body))
}

/// Takes away what concerns one connection.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named.iter().map(String::as_str).chain(OF_CONNECTION) {
        // Trailers are announced by it, and gRPC refuses a request without.
        if name != "te" || headers.get("te").is_none_or(|value| value != "trailers") {
            headers.remove(name);
        }
    }
}

/// Both ends speak something else now: bytes pass until one of them ends.
async fn connect(client: Option<hyper::upgrade::OnUpgrade>, server: hyper::upgrade::OnUpgrade, entry: Entry) {
    let Some(client) = client else { return };
    let (client, server) = match tokio::try_join!(client, server) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "an upgrade came to nothing"),
    };
    let (client_reads, client_writes) = tokio::io::split(TokioIo::new(client));
    let (server_reads, server_writes) = tokio::io::split(TokioIo::new(server));
    let (mut up, mut down) = (pin!(copy(client_reads, server_writes)), pin!(copy(server_reads, client_writes)));
    // An end that does not go when the other has gone would be under way for ever.
    let rest = tokio::select! {
        () = &mut up => tokio::time::timeout(PATIENCE, down).await,
        () = &mut down => tokio::time::timeout(PATIENCE, up).await,
    };
    if rest.is_err() {
        tracing::debug!("a stream that had ended on one side was cut off on the other");
    }
    drop(entry);
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    if let Err(error) = tokio::io::copy(&mut from, &mut to).await {
        tracing::debug!(%error, "a stream broke off");
    }
    let _ = to.shutdown().await;
}

fn plain(status: StatusCode, text: &'static str) -> Response<Passing> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response
}
