//! Whether the server lives and is ready, and what it is.

use axum::response::Response;
use futures::FutureExt as _;
use http::StatusCode;
use machinery::status::Status;
use serde_json::json;

use crate::request::{Query, unknown_path};
use crate::respond;
use crate::server::ApiServer;

type Check = (&'static str, fn(&ApiServer) -> Result<(), String>);

/// What is looked at.
const CHECKS: [Check; 3] = [
    ("ping", |_| Ok(())),
    ("store", |server| server.store().stopped().now_or_never().map_or(Ok(()), Err)),
    ("shutdown", |server| if server.closing().is_cancelled() { Err("the server is closing".into()) } else { Ok(()) }),
];

/// `/healthz`, `/livez`, `/readyz` and the single checks below them.
pub fn answer(server: &ApiServer, kind: &str, rest: &[&str], query: &Query) -> Result<Response, Status> {
    // A server that drains is alive but not ready.
    let applies = |name: &str| kind == "readyz" || name != "shutdown";
    let excluded: Vec<&str> = query.all("exclude").collect();
    let checks: Vec<Check> = match rest {
        [] => CHECKS.into_iter().filter(|(name, _)| applies(name)).collect(),
        [one] => CHECKS.into_iter().filter(|(name, _)| name == one && applies(name)).collect(),
        _ => return Err(unknown_path()),
    };
    if checks.is_empty() {
        return Err(unknown_path());
    }
    let mut failed = false;
    let lines = checks.into_iter().map(|(name, check)| match check(server) {
        _ if excluded.contains(&name) => format!("[+]{name} excluded: ok\n"),
        Ok(()) => format!("[+]{name} ok\n"),
        Err(why) => {
            failed = true;
            format!("[-]{name} failed: {why}\n")
        }
    });
    let lines: String = lines.collect();
    Ok(if failed {
        respond::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{kind} check failed\n"))
    } else if query.get("verbose").is_some() {
        respond::text(StatusCode::OK, format!("{lines}{kind} check passed\n"))
    } else {
        respond::text(StatusCode::OK, "ok")
    })
}

/// The Kubernetes version whose API this is.
pub const KUBERNETES: (&str, &str) = ("1", "36");

/// `/version`
pub fn version(pretty: bool) -> Response {
    let (major, minor) = KUBERNETES;
    let own = env!("CARGO_PKG_VERSION");
    let value = json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{major}.{minor}.0+orrery-{own}"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    respond::value(StatusCode::OK, &value, pretty)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
