//! Streams into a Pod: logs over plain HTTP, the rest over `WebSockets`.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use machinery::status::Status;
use serde_json::Value;

use crate::call::Call;
use crate::pods::{ExecRequest, LogOptions, PodAccess};
use crate::respond;

mod channels;
mod forward;
mod spdy;
mod tunnel;

/// GET of `/log`.
pub async fn log(call: &Call) -> Result<Response, Status> {
    let (node, pod) = pod(call)?;
    let query = &call.query;
    let container = container(&pod, query.get("container").unwrap_or_default())?;
    let since = match (query.number("sinceSeconds")?, query.get("sinceTime")) {
        (Some(_), Some(_)) => {
            return Err(Status::bad_request("at most one of sinceTime or sinceSeconds may be specified"));
        }
        (Some(seconds), None) => {
            let seconds = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(0));
            Some(jiff::Timestamp::now() - seconds)
        }
        (None, Some(time)) => {
            Some(time.parse().map_err(|_| Status::bad_request(format!("invalid query parameter sinceTime={time:?}")))?)
        }
        (None, None) => None,
    };
    let options = LogOptions {
        container,
        follow: query.flag("follow").unwrap_or(false),
        tail_lines: query.number("tailLines")?,
        since,
        timestamps: query.flag("timestamps").unwrap_or(false),
        previous: query.flag("previous").unwrap_or(false),
        limit_bytes: query.number("limitBytes")?,
    };
    let lines = node.logs(&pod, options).await?;
    let lines = futures::StreamExt::take_until(lines, call.server.closing().cancelled_owned());
    Ok(respond::text(StatusCode::OK, Body::from_stream(lines)))
}

/// `/exec` and `/attach`.
pub async fn exec(call: Call, request: &Parts) -> Result<Response, Status> {
    let (node, pod) = pod(&call)?;
    let query = &call.query;
    let flag = |name: &str| query.flag(name).unwrap_or(false);
    let command = ExecRequest {
        container: container(&pod, query.get("container").unwrap_or_default())?,
        command: query.all("command").map(str::to_owned).collect(),
        stdin: flag("stdin"),
        stdout: flag("stdout"),
        stderr: flag("stderr"),
        tty: flag("tty"),
    };
    if !(command.stdin || command.stdout || command.stderr) {
        return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    let upgrade = channels::accept(request, &channels::PROTOCOLS).await?;
    let session = if call.target.subresource == "attach" {
        node.attach(&pod, command).await?
    } else {
        if command.command.is_empty() {
            return Err(Status::bad_request("you must specify the command to run"));
        }
        node.exec(&pod, command).await?
    };
    let closing = call.server.closing();
    Ok(upgrade.on_upgrade(move |socket| channels::run(socket, session, closing)))
}

/// `/portforward`.
pub async fn port_forward(call: Call, request: &Parts) -> Result<Response, Status> {
    let (node, pod) = pod(&call)?;
    let ports = call.query.all("ports").flat_map(|list| list.split(','));
    let ports = ports
        .map(|port| port.parse::<u16>().ok().filter(|port| *port > 0))
        .collect::<Option<Vec<u16>>>()
        .ok_or_else(|| Status::bad_request("ports must be numbers between 1 and 65535"))?;
    forward::serve(request, node, pod, ports, call.server.closing()).await
}

/// The Pod and who runs it.
fn pod(call: &Call) -> Result<(Arc<dyn PodAccess>, Value), Status> {
    let pod = call.value(&*call.entry(&call.target.name)?);
    let pods = call.server.pods().cloned().ok_or_else(|| {
        Status::new(501, "NotImplemented", "this server runs no Pods, so there is nothing to read from or connect to")
    })?;
    Ok((pods, pod))
}

/// The container asked for, or the only or default one.
fn container(pod: &Value, wanted: &str) -> Result<String, Status> {
    let name = crate::object::name(pod);
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let all = lists.iter().flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
    let names: Vec<&str> = all.filter_map(|container| container["name"].as_str()).collect();
    if !wanted.is_empty() {
        return if names.contains(&wanted) {
            Ok(wanted.to_owned())
        } else {
            Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")))
        };
    }
    let main: Vec<&str> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect();
    let annotated = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    match (main.as_slice(), annotated.filter(|name| names.contains(name))) {
        (_, Some(default)) => Ok(default.to_owned()),
        ([only], None) => Ok((*only).to_owned()),
        (several, None) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            several.join(" ")
        ))),
    }
}
