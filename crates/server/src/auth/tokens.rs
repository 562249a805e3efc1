//! Bearer tokens, judged by the Kubernetes API.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::caller::User;
use crate::error::{Error, Result};

const MOST: usize = 1000;

/// Reviews tokens and remembers the good ones for a moment, by digest.
pub struct Tokens {
    known: Mutex<HashMap<[u8; 32], (User, Instant)>>,
    remembered: Duration,
    /// One review at a time for those who listen: many streams of one token are one question.
    turn: tokio::sync::Mutex<()>,
}

impl Tokens {
    /// What was reviewed counts so long.
    pub fn new(remembered: Duration) -> Self {
        Self { known: Mutex::default(), remembered, turn: tokio::sync::Mutex::default() }
    }

    /// Returns when the token is good no more. An API that does not answer says nothing about it.
    pub async fn revoked(&self, client: &Client, token: &str) {
        loop {
            tokio::time::sleep(self.remembered).await;
            let _turn = self.turn.lock().await;
            if self.remembered(token).is_none()
                && let Err(error) = self.review(client, token).await
                && error.is_unauthorized()
            {
                return;
            }
        }
    }

    /// Asks who the token belongs to.
    pub async fn review(&self, client: &Client, token: &str) -> Result<User> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let review = Api::<TokenReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let user = user.ok_or_else(|| {
            Error::unauthorized("The token is not valid or has expired. Make another: kubectl create token NAME")
        })?;
        let user = User {
            name: user.username.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            uid: user.uid.filter(|uid| !uid.is_empty()),
        };
        self.remember(digest(token), user.clone());
        Ok(user)
    }

    /// Who it belongs to, if that was asked a moment ago.
    pub fn remembered(&self, token: &str) -> Option<User> {
        let known = self.known.lock();
        known.get(&digest(token)).filter(|(_, until)| *until > Instant::now()).map(|(user, _)| user.clone())
    }

    fn remember(&self, digest: [u8; 32], user: User) {
        let mut known = self.known.lock();
        let now = Instant::now();
        if known.len() >= MOST {
            known.retain(|_, (_, until)| *until > now);
        }
        if known.len() < MOST {
            known.insert(digest, (user, now + self.remembered));
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// How much longer a token lives, if it says so. To be asked only about a token that was reviewed: nothing is verified.
pub fn remaining(token: &str, now: SystemTime) -> Option<Duration> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let until = UNIX_EPOCH.checked_add(Duration::from_secs(claims["exp"].as_u64()?))?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_how_long_it_lives() {
        let token = |claims: &str| format!("header.{}.signature", URL_SAFE_NO_PAD.encode(claims));
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(remaining(&token(r#"{"exp": 160}"#), now), Some(Duration::from_mins(1)));
        assert_eq!(remaining(&token(r#"{"exp": 40}"#), now), Some(Duration::ZERO));
        for other in ["opaque", "a.b.c", &token("{}"), &token("nonsense")] {
            assert_eq!(remaining(other, now), None, "{other}");
        }
    }
}
