//! gRPC over HTTP/2: messages with their lengths before them, and a status after them.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, TE, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::client::{Client, Error, refused};

/// The status of a method that a server does not have.
pub(super) const UNIMPLEMENTED: u16 = 12;

impl Client {
    /// Sends messages to a method and reads all of its answers.
    pub(super) async fn exchange(
        &self,
        base: &Url,
        method: &str,
        messages: &[&[u8]],
        most: usize,
    ) -> Result<Vec<Bytes>, Error> {
        let mut body = BytesMut::new();
        for message in messages {
            let length = u32::try_from(message.len()).map_err(|_| Error::Arguments("too large to be sent".into()))?;
            body.put_u8(0);
            body.put_u32(length);
            body.put_slice(message);
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{base}{method}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header(USER_AGENT, concat!("orrery/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body.freeze()))
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let response = self.send_http2(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status.as_u16(), b"this is no gRPC"));
        }
        // A server that has nothing to say gives its status at once.
        check(response.headers(), false)?;
        let mut body = response.into_body();
        let (mut bytes, mut ended) = (BytesMut::new(), false);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Error::Unreachable(format!("the answer broke off: {error}")))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > most {
                    return Err(Error::TooLarge(most));
                }
                bytes.extend_from_slice(data);
            } else if let Ok(trailers) = frame.into_trailers() {
                check(&trailers, true)?;
                ended = true;
            }
        }
        if !ended {
            return Err(Error::Unreachable("the answer ended without a status".into()));
        }
        split(bytes.freeze())
    }
}

/// Says no if the status is not zero.
fn check(headers: &HeaderMap, last: bool) -> Result<(), Error> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        None if !last => Ok(()),
        status => {
            let status = status.and_then(|status| status.parse().ok()).unwrap_or(2);
            let words = percent_decode_str(text("grpc-message").unwrap_or_default()).decode_utf8_lossy().into_owned();
            Err(Error::Status { status, message: words.chars().take(500).collect() })
        }
    }
}

fn split(mut bytes: Bytes) -> Result<Vec<Bytes>, Error> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let odd = || Error::Odd("the answer is no sequence of messages".into());
        if bytes.len() < 5 {
            return Err(odd());
        }
        if bytes.get_u8() != 0 {
            return Err(Error::Odd("the answer is compressed, which nobody asked for".into()));
        }
        let length = bytes.get_u32() as usize;
        if length > bytes.len() {
            return Err(odd());
        }
        messages.push(bytes.split_to(length));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_broken_ones_refused() {
        let split = |bytes: &'static [u8]| split(Bytes::from_static(bytes));
        assert_eq!(split(&[0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0]).expect("two"), [Bytes::from_static(&[7]), Bytes::new()]);
        for broken in [&[0, 0, 0][..], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 9, 1], &[0, 255, 255, 255, 255]] {
            assert!(matches!(super::split(Bytes::copy_from_slice(broken)), Err(Error::Odd(_))), "{broken:?}");
        }
    }
}
