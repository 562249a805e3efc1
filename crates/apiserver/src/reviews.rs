//! Questions about access: token reviews, access reviews, "who am I" and "what may I".
//!
//! Reviews are not stored: a POST answers with the same object, its status filled in.

mod rules;

use jiff::Timestamp;
use machinery::status::{Cause, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Access;
use crate::attributes::Attributes;
use crate::object;
use crate::user::User;

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Where a review was posted, and by whom.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The kind, as `SubjectAccessReview`.
    pub kind: &'a str,
    /// The namespace in the path; empty for reviews of the cluster.
    pub namespace: &'a str,
    /// Who asks.
    pub user: &'a User,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessSpec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<PathAttributes>,
    user: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathAttributes {
    path: String,
    verb: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenSpec {
    token: String,
    audiences: Option<Vec<String>>,
}

impl Access {
    /// Answers a review: the same object, its status filled in.
    pub fn review(&self, asked: Asked<'_>, mut review: Value, now: Timestamp) -> Result<Value, Status> {
        let status = match asked.kind {
            "TokenReview" => self.review_token(&review, now)?,
            "SubjectAccessReview" => self.review_subject(asked, &review)?,
            "LocalSubjectAccessReview" => self.review_local(asked, &review)?,
            "SelfSubjectAccessReview" => {
                let spec = access_spec(&review)?;
                self.decide(asked, &spec, asked.user)?
            }
            "SelfSubjectRulesReview" => self.review_rules(asked.user, &review)?,
            "SelfSubjectReview" => {
                review["metadata"]["creationTimestamp"] = object::timestamp(now).into();
                json!({ "userInfo": asked.user })
            }
            other => return Err(Status::bad_request(format!("{other} is not a review"))),
        };
        review["status"] = status;
        if asked.kind == "TokenReview" {
            // The token was only shown to ask about it; answers end up in logs and terminals.
            review["spec"].as_object_mut().map(|spec| spec.remove("token"));
        }
        Ok(review)
    }

    fn review_token(&self, review: &Value, now: Timestamp) -> Result<Value, Status> {
        let spec = TokenSpec::deserialize(review.get("spec").unwrap_or(&Value::Null))
            .map_err(|error| Status::bad_request(format!("TokenReview spec: {error}")))?;
        if spec.token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(match self.verify_token(&spec.token, &spec.audiences.unwrap_or_default(), now) {
            Ok(verified) => json!({
                "authenticated": true,
                "user": verified.user,
                "audiences": verified.audiences,
            }),
            Err(reason) => json!({ "user": {}, "error": reason.to_string() }),
        })
    }

    fn review_subject(&self, asked: Asked<'_>, review: &Value) -> Result<Value, Status> {
        let spec = access_spec(review)?;
        let user = subject(asked, &spec)?;
        self.decide(asked, &spec, &user)
    }

    fn review_local(&self, asked: Asked<'_>, review: &Value) -> Result<Value, Status> {
        let spec = access_spec(review)?;
        let user = subject(asked, &spec)?;
        let here = spec.resource_attributes.as_ref().map(|attributes| attributes.namespace.as_str());
        if here != Some(asked.namespace) {
            let message = format!("Invalid value: \"{}\": must match metadata.namespace", here.unwrap_or_default());
            return Err(invalid(asked, "spec.resourceAttributes.namespace", message));
        }
        self.decide(asked, &spec, &user)
    }

    fn decide(&self, asked: Asked<'_>, spec: &AccessSpec, user: &User) -> Result<Value, Status> {
        let attributes = match (&spec.resource_attributes, &spec.non_resource_attributes) {
            (Some(resource), None) => Attributes {
                user,
                verb: &resource.verb,
                group: &resource.group,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                path: "",
            },
            (None, Some(path)) => Attributes::path(user, &path.verb, &path.path),
            (Some(_), Some(path)) => {
                let value = json!({ "path": path.path, "verb": path.verb });
                let message =
                    format!("Invalid value: {value}: cannot be specified in combination with resourceAttributes");
                return Err(invalid(asked, "spec.nonResourceAttributes", message));
            }
            (None, None) => {
                let message =
                    "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
                return Err(invalid(asked, "spec.resourceAttributes", message.into()));
            }
        };
        Ok(match self.authorizer.decide(&attributes) {
            crate::authz::Decision::Allowed(reason) => json!({ "allowed": true, "reason": reason }),
            crate::authz::Decision::NotAllowed => json!({ "allowed": false }),
        })
    }
}

fn access_spec(review: &Value) -> Result<AccessSpec, Status> {
    AccessSpec::deserialize(review.get("spec").unwrap_or(&Value::Null))
        .map_err(|error| Status::bad_request(format!("access review spec: {error}")))
}

fn subject(asked: Asked<'_>, spec: &AccessSpec) -> Result<User, Status> {
    let groups = spec.groups.clone().unwrap_or_default();
    if spec.user.is_empty() && groups.is_empty() {
        let message = "Invalid value: \"\": at least one of user or group must be specified";
        return Err(invalid(asked, "spec.user", message.into()));
    }
    let extra = spec.extra.clone().unwrap_or_default();
    Ok(User { name: spec.user.clone(), uid: spec.uid.clone(), groups, extra })
}

fn invalid(asked: Asked<'_>, field: &str, message: String) -> Status {
    let group = if asked.kind == "TokenReview" { AUTHENTICATION } else { AUTHORIZATION };
    let cause = Cause { reason: "FieldValueInvalid".into(), message, field: field.into() };
    Status::invalid(group, asked.kind, "", vec![cause])
}
