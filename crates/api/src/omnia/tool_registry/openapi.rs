//! Tools that an OpenAPI document describes.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuthType, SecretKey};

/// Where the document is that describes the tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(self.authType in ['bearer', 'basic']) || has(self.authSecretRef)")
        .message("authSecretRef is required when authType is bearer or basic")
        .field_path(".authSecretRef"),
)]
pub struct OpenApiConfig {
    /// The document, OpenAPI 3.0 or 3.1, JSON or YAML; with a selector, `/openapi.json` of the Service unless its
    /// annotation says otherwise.
    #[serde(default, rename = "specURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), pattern(r"^https?://[^/]+"))]
    pub spec_url: Option<String>,
    /// Where operations are called; by default what the document says, if that is on the host of the document.
    #[serde(default, rename = "baseURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), pattern(r"^https?://[^/]+"))]
    pub base_url: Option<String>,
    /// Only the operations with these ids become tools; by default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub operation_filter: Vec<String>,
    /// Headers of every request, also of the one for the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// How requests say who they are, also the one for the document.
    #[serde(default)]
    pub auth_type: AuthType,
    /// The Secret with the token (bearer) or with user:password (basic).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<SecretKey>,
}

/// How an operation of an OpenAPI document is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The method.
    pub method: String,
    /// The path under the base URL, with `{names}` to fill in.
    pub path: String,
    /// Which argument goes where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub parameters: Vec<Parameter>,
    /// The argument that is the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

/// Where an argument goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Parameter {
    /// The argument.
    pub argument: String,
    /// The parameter's name, when it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Path, query, header or cookie.
    #[serde(rename = "in")]
    pub location: Location,
    /// How lists and objects are written.
    #[serde(default, skip_serializing_if = "Style::is_plain")]
    pub style: Style,
}

/// How lists and objects are written in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// The name is repeated for each value of a list; fields of an object stand for themselves.
    #[default]
    Plain,
    /// Values are joined by commas.
    Joined,
    /// Fields of an object are written `name[field]`.
    Deep,
}

impl Style {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks this way")]
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// Where a parameter goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// Into the path.
    Path,
    /// After the question mark.
    #[default]
    Query,
    /// Into a header.
    Header,
    /// Into the header Cookie.
    Cookie,
}

/// The argument that is the body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Body {
    /// The argument.
    pub argument: String,
    /// How it is written.
    pub content_type: String,
}
