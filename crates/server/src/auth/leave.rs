//! The end of a caller's time: a stream must not outlive the credentials it was opened with.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::session::Session;
use crate::app::App;

/// What a caller's time depends on.
#[derive(Clone, Default)]
pub struct Leave {
    session: Option<(CancellationToken, Instant)>,
    token: Option<Arc<str>>,
}

impl Leave {
    /// As long as a token is good.
    pub fn of_token(token: &str) -> Self {
        Self { session: None, token: Some(Arc::from(token)) }
    }

    /// As long as a session is open, and the token good that it was begun with.
    pub fn of_session(session: &Session) -> Self {
        Self { session: Some((session.ended.clone(), session.until)), token: session.token.clone() }
    }

    /// Returns when the caller's time is over: signed out, expired, or the token was taken away. Who has no credentials
    /// has none to lose.
    pub async fn over(self, app: App) {
        let session = async {
            match self.session {
                Some((ended, until)) => tokio::select! {
                    () = ended.cancelled() => {}
                    () = tokio::time::sleep_until(until.into()) => {}
                },
                None => std::future::pending().await,
            }
        };
        let token = async {
            match self.token {
                Some(token) => app.tokens.revoked(&app.client, &token).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { () = session => {}, () = token => {} }
    }

    /// An answer that is a stream ends with the caller's time; any other is over soon by itself.
    pub fn ends(self, app: &App, response: Response) -> Response {
        if response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "text/event-stream") {
            return response;
        }
        let over = Box::pin(self.over(app.clone()));
        response.map(|body| Body::from_stream(body.into_data_stream().take_until(over)))
    }
}
