use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A Secret given to the agent, as environment variables or as files.
///
/// No key and no mountPath: every key becomes a variable. No key and a mountPath: every key becomes a file in that
/// directory. A key: a variable (`env`), a file (`mountPath`), or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.env) || has(self.secretRef.key)")
        .message("env needs secretRef.key: one variable holds one key; leave env out to get every key as a variable")
        .field_path(".env"),
    validation = Rule::new("!has(self.secretRef.key) || has(self.env) || has(self.mountPath)")
        .message("set env or mountPath: a credential with secretRef.key and neither of them would reach nobody")
        .field_path(".secretRef.key"),
)]
pub struct Credential {
    /// What the credential is for; shows in messages.
    pub name: String,
    /// The Secret, and one of its keys if only that is meant.
    pub secret_ref: SecretKeyReference,
    /// Where the file (with a key) or the directory (without one) appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^/"))]
    pub mount_path: Option<String>,
    /// The environment variable that holds the key's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub env: Option<String>,
    /// Permissions of the files, e.g. 0400. Default 0600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 511))]
    pub file_mode: Option<i32>,
}

/// A Secret in the same namespace, or one key of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyReference {
    /// Name of the Secret.
    pub name: String,
    /// The key that is meant; without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub key: Option<String>,
}
