//! How a server is reached: over the network, or by somebody who knows a better way.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api::omnia::address::refusal;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes that come and go.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to a host, or says why not.
pub trait Connect: fmt::Debug + Send + Sync + 'static {
    /// Connects.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;
}

/// The network, as this process sees it, without the addresses that nobody is sent to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network;

impl Connect for Network {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
            if let Some(refused) = found.iter().find_map(|address| refusal(host, address.ip())) {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused));
            }
            let stream = TcpStream::connect(found.as_slice()).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Gives the HTTP client its connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub(crate) Arc<dyn Connect>);

impl tower_service::Service<Uri> for Connector {
    type Response = Wire;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Wire>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connect = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
            let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
            connect.connect(host, port).await.map(|stream| Wire(TokioIo::new(stream)))
        })
    }
}

/// A connection, as the HTTP client wants it.
pub(crate) struct Wire(TokioIo<Box<dyn Stream>>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
