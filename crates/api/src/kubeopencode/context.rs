use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something the agent should know: a text, a `ConfigMap`, a Git repository, a URL, or the platform it runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'Text' || has(self.text)")
        .message("text is required when type is Text").field_path(".text"),
    validation = Rule::new("self.type != 'ConfigMap' || has(self.configMap)")
        .message("configMap is required when type is ConfigMap").field_path(".configMap"),
    validation = Rule::new("self.type != 'Git' || has(self.git)")
        .message("git is required when type is Git").field_path(".git"),
    validation = Rule::new("self.type != 'URL' || has(self.url)")
        .message("url is required when type is URL").field_path(".url"),
    validation = Rule::new("self.type != 'Git' || has(self.mountPath)")
        .message("mountPath is required when type is Git: a repository needs a directory").field_path(".mountPath"),
    validation = Rule::new("self.type != 'URL' || has(self.mountPath)")
        .message("mountPath is required when type is URL: what is fetched needs a file").field_path(".mountPath"),
)]
pub struct ContextItem {
    /// Names the context in messages, and tags its text in the context file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the context is for; documentation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When true, the Task goes on even if this context cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Text, `ConfigMap`, Git, Runtime or URL; the field of that name holds the rest.
    #[serde(rename = "type")]
    pub type_: ContextType,
    /// Where the content appears. Relative paths start at the workspace. Empty: the content is added to
    /// `.kubeopencode/context.md` in the workspace, which the agent reads as instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub mount_path: Option<String>,
    /// Permissions of the file or files, e.g. 0755 for a script; kept exactly. Default 0644.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 511))]
    pub file_mode: Option<i32>,
    /// The text itself, for type Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The `ConfigMap`, for type `ConfigMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapContext>,
    /// The repository, for type Git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitContext>,
    /// For type Runtime; it has no fields, because the controller writes the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeContext>,
    /// The address, for type URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<UrlContext>,
}

/// Where a context comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContextType {
    /// Text in the manifest itself.
    Text,
    /// A `ConfigMap` in the same namespace.
    ConfigMap,
    /// A Git repository.
    Git,
    /// An explanation of the platform, written by the controller.
    Runtime,
    /// A file fetched over HTTP or HTTPS when the Task starts.
    #[serde(rename = "URL")]
    Url,
}

/// A `ConfigMap` in the same namespace, whole or one key of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapContext {
    /// Name of the `ConfigMap`.
    pub name: String,
    /// The key that is meant; without it, all of them (a directory when mountPath is set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub key: Option<String>,
    /// When true, a missing `ConfigMap` or key is no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A Git repository, or a directory of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitContext {
    /// Address of the repository: `https://…`, `http://…`, `ssh://…` or `git@host:path`.
    #[schemars(length(min = 1))]
    pub repository: String,
    /// Directory or file within the repository; without it, the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Branch, tag or commit.
    #[serde(default = "head", rename = "ref")]
    pub reference: String,
    /// How many commits to fetch; 0 means the whole history.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub depth: i32,
    /// Fetch the submodules too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurse_submodules: Option<bool>,
    /// Secret with `username` and `password`, or `ssh-privatekey` and `ssh-known-hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

fn head() -> String {
    "HEAD".into()
}

fn one() -> i32 {
    1
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    pub name: String,
}

/// Nothing to set: the controller writes the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct RuntimeContext {}

/// A file on the web.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UrlContext {
    /// The address, `http://` or `https://`.
    #[schemars(pattern(r"^https?://"))]
    pub source: String,
    /// Headers to send; for secrets use secretRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Secret with `token` (sent as a bearer token) or `username` and `password` (basic authentication).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Do not check the server's certificate. Prefer caBundle.
    #[serde(default, rename = "insecureSkipTLSVerify", skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// Seconds until the fetch is given up.
    #[serde(default = "thirty")]
    #[schemars(range(min = 1))]
    pub timeout: i32,
}

fn thirty() -> i32 {
    30
}
