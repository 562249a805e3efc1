//! What a request asks for, read once from method, path and query.

use http::{Method, Uri};
use machinery::status::Status;

mod query;

pub use query::Query;

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object in part.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove a collection.
    DeleteCollection,
}

impl Verb {
    /// The word role rules use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The resource part of a path, below `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What to do.
    pub verb: Verb,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, empty for cluster-wide requests.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Object name, empty for collections.
    pub name: String,
    /// `status`, `scale`, `log`, …; empty for the object itself.
    pub subresource: String,
}

/// A parsed request line.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// The path, decoded.
    pub path: String,
    /// Decoded path segments.
    pub segments: Vec<String>,
    /// The resource asked for, when the path names one.
    pub target: Option<Target>,
    /// The query string.
    pub query: Query,
}

/// Path segments below a namespace that belong to the Namespace object itself.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Reads a request line. Refuses paths that do not mean the same to everyone who reads them.
    pub fn parse(method: &Method, uri: &Uri) -> Result<Self, Status> {
        let segments = segments(uri.path())?;
        let mut query = Query::parse(uri.query().unwrap_or_default())?;
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => ("", "", [].as_slice()),
        };
        let target = match rest {
            [] => None,
            ["watch", rest @ ..] if !rest.is_empty() => Some(old_watch(method, group, version, rest, &mut query)?),
            rest => Some(target(method, group, version, rest, &query)?),
        };
        let path = format!("/{}", segments.join("/"));
        Ok(Self { path, segments, target, query })
    }
}

fn target(method: &Method, group: &str, version: &str, rest: &[&str], query: &Query) -> Result<Target, Status> {
    let (namespace, resource, name, subresource) = match rest {
        ["namespaces"] => ("", "namespaces", "", ""),
        // For authorization the namespace of a Namespace is itself, as role bindings inside it expect.
        ["namespaces", name] => (*name, "namespaces", *name, ""),
        ["namespaces", name, sub] if NAMESPACE_SUBRESOURCES.contains(sub) => (*name, "namespaces", *name, *sub),
        ["namespaces", namespace, resource] => (*namespace, *resource, "", ""),
        ["namespaces", namespace, resource, name] => (*namespace, *resource, *name, ""),
        ["namespaces", namespace, resource, name, sub] => (*namespace, *resource, *name, *sub),
        [resource] => ("", *resource, "", ""),
        [resource, name] => ("", *resource, *name, ""),
        [resource, name, sub] => ("", *resource, *name, *sub),
        _ => return Err(unknown_path()),
    };
    let verb = verb(method, name, query)?;
    Ok(Target {
        verb,
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    })
}

/// `/api/v1/watch/…`, as clients asked before `?watch=1`: an object's name is a field selector.
fn old_watch(method: &Method, group: &str, version: &str, rest: &[&str], query: &mut Query) -> Result<Target, Status> {
    if method != Method::GET {
        return Err(Status::method_not_allowed("only GET follows a path below watch"));
    }
    query.watch = true;
    let mut target = target(method, group, version, rest, query)?;
    if !target.name.is_empty() {
        let name = format!("metadata.name={}", std::mem::take(&mut target.name));
        query.field_selector =
            if query.field_selector.is_empty() { name } else { format!("{},{name}", query.field_selector) };
        if target.resource == "namespaces" {
            target.namespace.clear();
        }
    }
    target.verb = Verb::Watch;
    Ok(target)
}

fn verb(method: &Method, name: &str, query: &Query) -> Result<Verb, Status> {
    Ok(match (method, name.is_empty()) {
        (&Method::GET | &Method::HEAD, true) if query.watch => Verb::Watch,
        (&Method::GET | &Method::HEAD, true) => Verb::List,
        (&Method::GET | &Method::HEAD, false) => Verb::Get,
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, true) => Verb::DeleteCollection,
        (&Method::DELETE, false) => Verb::Delete,
        _ => return Err(Status::method_not_allowed("the server does not allow this method on the requested resource")),
    })
}

/// 404 for a path nobody serves.
pub fn unknown_path() -> Status {
    Status::new(404, "NotFound", "the server could not find the requested resource")
}

/// Splits a path and decodes each segment. A segment that would mean another path after decoding
/// (an encoded slash, dot segments, control characters) is refused rather than interpreted.
fn segments(path: &str) -> Result<Vec<String>, Status> {
    let trimmed = path.strip_prefix('/').ok_or_else(unknown_path)?;
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    if trimmed.is_empty() {
        return Ok(Vec::new());
    }
    trimmed
        .split('/')
        .map(|raw| {
            let decoded = percent_decode(raw)
                .ok_or_else(|| Status::bad_request("the path is not valid percent-encoded UTF-8"))?;
            let strange = decoded.is_empty() || decoded == "." || decoded == "..";
            if strange || decoded.chars().any(|c| c == '/' || c == '\\' || c.is_control()) {
                return Err(Status::bad_request(
                    "the path has a segment that is empty, relative, or holds a slash or control character",
                ));
            }
            Ok(decoded)
        })
        .collect()
}

/// Percent-decodes; `None` when the escapes are malformed or the result is not UTF-8.
pub(crate) fn percent_decode(raw: &str) -> Option<String> {
    if !raw.contains('%') {
        return Some(raw.to_owned());
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
