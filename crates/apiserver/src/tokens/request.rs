//! `TokenRequest`: POST to `serviceaccounts/NAME/token`.

use jiff::Timestamp;
use machinery::status::{Cause, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Bound, Claims, ISSUER, Reference};
use crate::access::Access;
use crate::object;

const DEFAULT_SECONDS: i64 = 60 * 60;
const SHORTEST_SECONDS: i64 = 10 * 60;
const LONGEST_SECONDS: i64 = 1 << 32;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<ObjectReference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectReference {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

impl Access {
    /// Answers a `TokenRequest` for the service account: the same object, its status filled in.
    pub fn create_token(
        &self,
        namespace: &str,
        name: &str,
        mut request: Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let spec = match request.get("spec") {
            Some(spec) => {
                Spec::deserialize(spec).map_err(|error| Status::bad_request(format!("TokenRequest spec: {error}")))?
            }
            None => Spec::default(),
        };
        let seconds = lifetime(spec.expiration_seconds)?;
        let account = self
            .live("/serviceaccounts", namespace, name)
            .ok_or_else(|| Status::not_found("", "serviceaccounts", name))?;
        let mut bound = Bound {
            namespace: namespace.to_owned(),
            serviceaccount: Reference { name: name.to_owned(), uid: account.uid },
            pod: None,
            secret: None,
        };
        if let Some(reference) = &spec.bound_object_ref {
            self.bind(&mut bound, reference)?;
        }
        let audiences = spec.audiences.filter(|list| !list.is_empty()).unwrap_or_else(|| vec![ISSUER.to_owned()]);
        let expires = Timestamp::from_second(now.as_second() + seconds).map_err(Status::internal)?;
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: format!("system:serviceaccount:{namespace}:{name}"),
            aud: audiences.clone(),
            exp: expires.as_second(),
            nbf: now.as_second(),
            iat: now.as_second(),
            jti: uuid::Uuid::new_v4().to_string(),
            bound,
        };
        let token = self.tokens.sign(&claims).map_err(Status::internal)?;
        request["metadata"] =
            json!({ "name": name, "namespace": namespace, "creationTimestamp": object::timestamp(now) });
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = seconds.into();
        request["status"] = json!({ "token": token, "expirationTimestamp": expires.to_string() });
        Ok(request)
    }

    fn bind(&self, bound: &mut Bound, reference: &ObjectReference) -> Result<(), Status> {
        let ObjectReference { kind, api_version, name, uid } = reference;
        let resource = match (api_version.as_str(), kind.as_str()) {
            ("v1", "Pod") => "pods",
            ("v1", "Secret") => "secrets",
            _ => {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount to object of type {api_version}, Kind={kind}: only v1 Pods and Secrets"
                )));
            }
        };
        let live = self
            .live(&format!("/{resource}"), &bound.namespace, name)
            .ok_or_else(|| Status::not_found("", resource, name))?;
        if !uid.is_empty() && *uid != live.uid {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Status::conflict("", resource, name, why));
        }
        let account = &bound.serviceaccount.name;
        if resource == "pods" && live.service_account != *account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
            )));
        }
        let reference = Some(Reference { name: name.clone(), uid: live.uid });
        if resource == "pods" {
            bound.pod = reference;
        } else {
            bound.secret = reference;
        }
        Ok(())
    }
}

fn lifetime(asked: Option<i64>) -> Result<i64, Status> {
    let seconds = asked.unwrap_or(DEFAULT_SECONDS);
    let wrong = if seconds < SHORTEST_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > LONGEST_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {seconds}: {wrong}"),
        field: "spec.expirationSeconds".into(),
    };
    Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", vec![cause]))
}
