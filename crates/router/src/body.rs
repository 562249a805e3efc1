//! Bodies as they pass.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use crate::ledger::Entry;

/// What is sent, in either direction.
pub(crate) type Passing = UnsyncBoxBody<Bytes, hyper::Error>;

/// A text of our own.
pub(crate) fn full(text: impl Into<Bytes>) -> Passing {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer that passes; its request is under way until it has passed.
pub(crate) struct Answer {
    pub(crate) body: Incoming,
    pub(crate) entry: Entry,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(Some(Err(_)))) {
            self.entry.broke_off();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
