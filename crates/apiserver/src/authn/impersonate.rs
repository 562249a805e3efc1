//! Acting as someone else: `kubectl --as`, allowed one by one through the verb `impersonate`.

use http::{HeaderMap, HeaderName, HeaderValue};
use machinery::status::Status;

use crate::access::Access;
use crate::attributes::Attributes;
use crate::request::percent_decode;
use crate::user::{ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, UNAUTHENTICATED, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user to act as: the one the headers name, when `user` may, or `user` itself when they name none.
pub(crate) fn assume(access: &Access, user: User, headers: &HeaderMap) -> Result<User, Status> {
    let Some(wanted) = wanted(headers)? else { return Ok(user) };
    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        access.authorize(&Attributes {
            user: &user,
            verb: "impersonate",
            group,
            resource,
            subresource,
            namespace,
            name,
            path: "",
        })
    };
    match service_account(&wanted.name) {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        may("", "groups", "", "", group)?;
    }
    if !wanted.uid.is_empty() {
        may(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            may(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    tracing::info!(target: "audit", user = %user.name, as_user = %wanted.name, "impersonates");
    Ok(complete(wanted))
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
}

/// Adds the groups that everyone of that name is in.
fn complete(mut user: User) -> User {
    if user.groups.is_empty()
        && let Some((namespace, name)) = service_account(&user.name)
    {
        user.groups = User::service_account(namespace, name, "").groups;
    }
    let everyone = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.is_in(everyone) {
        user.groups.push(everyone.into());
    }
    user
}

/// What the headers ask for; `None` when they ask for nothing.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let mut user = User::default();
    let mut asked = false;
    for (name, value) in headers {
        let Some(part) = name.as_str().strip_prefix("impersonate-") else { continue };
        asked = true;
        let text = text(name, value)?;
        match name.as_str() {
            USER => user.name = text,
            GROUP => user.groups.push(text),
            UID => user.uid = text,
            // Keys of extras are percent-encoded, as header names know no slash.
            _ => match part.strip_prefix("extra-").and_then(percent_decode) {
                Some(key) if !key.is_empty() => user.extra.entry(key).or_default().push(text),
                _ => return Err(Status::bad_request(format!("unknown impersonation header {name}"))),
            },
        }
    }
    if asked && user.name.is_empty() {
        return Err(Status::bad_request(format!(
            "the headers {GROUP}, {UID} and {EXTRA}KEY need {USER}: say whom to impersonate"
        )));
    }
    Ok(asked.then_some(user))
}

fn text(name: &HeaderName, value: &HeaderValue) -> Result<String, Status> {
    std::str::from_utf8(value.as_bytes())
        .map(str::to_owned)
        .map_err(|_| Status::bad_request(format!("the header {name} is not UTF-8")))
}
