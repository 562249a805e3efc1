//! The deploy-adapter protocol of `PromptKit`: newline-delimited JSON-RPC on standard input and output, one request at a
//! time. Configurations, packs and states travel as JSON inside of strings; events come with the answer.

mod verbs;
mod wire;

use std::io;

use async_trait::async_trait;
use kube::Client;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::failure::Failure;
use crate::kubernetes::Config;
use crate::target::Patience;

/// The longest line, in either direction.
pub const LONGEST_LINE: usize = 10 * 1024 * 1024;

/// How a cluster is reached.
#[async_trait]
pub trait Connect: Send + Sync {
    /// A client for what the configuration means.
    async fn connect(&self, config: &Config) -> Result<Client, Failure>;
}

/// The adapter: answers requests.
pub struct Adapter<C> {
    /// How clusters are reached.
    pub connect: C,
    /// How long things may take.
    pub patience: Patience,
}

impl<C: Connect> Adapter<C> {
    /// Answers one line after the other, until there are no more.
    pub async fn serve(
        &self,
        mut requests: impl AsyncBufRead + Unpin,
        mut answers: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut line = Vec::with_capacity(64 * 1024);
        loop {
            line.clear();
            let limit = u64::try_from(LONGEST_LINE + 1).unwrap_or(u64::MAX);
            let read = (&mut requests).take(limit).read_until(b'\n', &mut line).await?;
            if read == 0 {
                return Ok(());
            }
            if line.len() > LONGEST_LINE && line.last() != Some(&b'\n') {
                let message = format!("a request line is longer than {LONGEST_LINE} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut answer = self.answer(line.trim_ascii()).await;
            answer.push(b'\n');
            answers.write_all(&answer).await?;
            answers.flush().await?;
        }
    }

    async fn answer(&self, line: &[u8]) -> Vec<u8> {
        let request = match wire::Request::parse(line) {
            Ok(request) => request,
            Err(error) => return wire::answer(None, Err(error)),
        };
        tracing::info!(method = request.method, "request");
        let result = self.call(&request).await;
        if let Err(error) = &result {
            tracing::warn!(method = request.method, code = error.code, error = error.message, "refused");
        }
        wire::answer(request.id.as_deref(), result)
    }
}
