//! Calling a tool, whatever its server speaks.

use std::time::Duration;

use api::omnia::tools::{ToolEntry, input_schema};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use crate::client::{Bounds, Client, Error, MOST_OF_AN_ANSWER};
use crate::{http as plain, openapi};

/// The first wait before a call is tried again; each next is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Gives the value of the variable that holds credentials.
pub type Secret<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

impl Client {
    /// Calls a tool, as often as its entry says.
    pub async fn call(&self, entry: &ToolEntry, arguments: &Value, secret: Secret<'_>) -> Result<String, Error> {
        let schema = input_schema(&entry.tool.input_schema).map_err(Error::Invalid)?;
        schema.validate(arguments).map_err(|error| Error::Arguments(error.to_string()))?;
        let bounds = Bounds { time: patience(entry), bytes: MOST_OF_AN_ANSWER };
        let mut wait = FIRST_WAIT;
        for _ in 0..entry.retries {
            match self.once(entry, arguments, secret, bounds).await {
                Err(error) if error.is_transient() => {}
                answer => return answer,
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        self.once(entry, arguments, secret, bounds).await
    }

    async fn once(
        &self,
        entry: &ToolEntry,
        arguments: &Value,
        secret: Secret<'_>,
        bounds: Bounds,
    ) -> Result<String, Error> {
        if let Some(call) = &entry.mcp_config {
            return self.mcp_call(call, &entry.endpoint, arguments, secret, bounds).await;
        }
        if let Some(config) = &entry.grpc_config {
            let method = entry.grpc_method.as_deref();
            return self.grpc_call(&entry.tool.name, method, &entry.endpoint, config, arguments, bounds).await;
        }
        let request: Request<Full<Bytes>> = if let Some(call) = &entry.http_config {
            plain::request(call, &entry.endpoint, arguments, secret)?
        } else if let Some(call) = &entry.openapi_config {
            openapi::request(call, &entry.endpoint, arguments, secret)?
        } else {
            return Err(Error::Invalid(format!("tool {} does not say how it is called", entry.tool.name)));
        };
        let answer = self.ask(request, bounds).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn patience(entry: &ToolEntry) -> Duration {
    let patience = api::duration::Duration(entry.timeout.clone()).parse().ok();
    patience.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or(Duration::from_secs(30))
}

/// A value as it stands in a query or a path.
pub(crate) fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
