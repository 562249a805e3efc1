#![allow(clippy::duplicated_attributes, reason = "columns have types in common")]
#![allow(clippy::struct_field_names, reason = "the names that users write")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A language model and how to reach it, for runtimes and packs to refer to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "omnia.altairalabs.ai",
    version = "v1alpha1",
    kind = "Provider",
    plural = "providers",
    shortname = "prov",
    category = "omnia",
    category = "orrery",
    namespaced,
    status = "ProviderStatus",
    derive = "PartialEq",
    doc = "A language model and how to reach it: its kind, its key, its defaults and what it costs.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {
    /// Whose API it is. `mock` answers by itself and needs no key.
    #[serde(rename = "type")]
    pub type_: ProviderType,
    /// The model, in the provider's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Where the API is, when not at the provider's own address.
    #[serde(default, rename = "baseURL", skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^https?://[^/]+"))]
    pub base_url: Option<String>,
    /// The Secret with the provider's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ProviderSecret>,
    /// How the model is asked, unless the prompt says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Tuning>,
    /// What its tokens cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
}

/// Whose API a provider speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderType {
    /// Chosen by the name of the model.
    #[default]
    Auto,
    /// Anthropic's.
    Claude,
    /// `OpenAI`'s, and of everyone who speaks it.
    #[serde(rename = "openai")]
    OpenAi,
    /// Google's.
    Gemini,
    /// A model on a machine of yours.
    Ollama,
    /// Answers by itself.
    Mock,
}

impl ProviderType {
    /// The word that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Claude => "claude",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Mock => "mock",
        }
    }

    /// The environment variable, and the key in a Secret, that holds the provider's key; `None` where none is needed.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("ANTHROPIC_API_KEY"),
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Auto | Self::Ollama | Self::Mock => None,
        }
    }

    /// What `auto` stands for: the provider whose models have names like this one's. `None` when the name tells nothing.
    pub fn of_model(model: Option<&str>) -> Option<Self> {
        let model = model?;
        let known: [(&str, Self); 7] = [
            ("claude", Self::Claude),
            ("gpt-", Self::OpenAi),
            ("o1", Self::OpenAi),
            ("o3", Self::OpenAi),
            ("o4", Self::OpenAi),
            ("gemini", Self::Gemini),
            ("mock", Self::Mock),
        ];
        known.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, provider)| *provider)
    }
}

/// A Secret in the same namespace, and the key in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The key in it; by default `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`, as the type says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub key: Option<String>,
}

/// How a model is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tuning {
    /// How freely it answers, from 0 to 2, e.g. "0.7".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^(1(\.[0-9]+)?|0(\.[0-9]+)?|2(\.0+)?)$"))]
    pub temperature: Option<String>,
    /// The share of likely words it chooses from, from 0 to 1, e.g. "0.9".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^(0(\.[0-9]+)?|1(\.0+)?)$"))]
    pub top_p: Option<String>,
    /// The most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<i32>,
}

/// What tokens cost, in dollars for a thousand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Pricing {
    /// Tokens that the model reads, e.g. "0.003".
    #[serde(default, rename = "inputCostPer1K", skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[0-9]+(\.[0-9]+)?$"))]
    pub input_cost_per_1k: Option<String>,
    /// Tokens that it writes, e.g. "0.015".
    #[serde(default, rename = "outputCostPer1K", skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[0-9]+(\.[0-9]+)?$"))]
    pub output_cost_per_1k: Option<String>,
    /// Tokens that it remembers, e.g. "0.0003".
    #[serde(default, rename = "cachedCostPer1K", skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[0-9]+(\.[0-9]+)?$"))]
    pub cached_cost_per_1k: Option<String>,
}

/// A provider written into the `AgentRuntime` itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineProvider {
    /// Whose API it is; `auto` looks at the name of the model.
    #[serde(default, rename = "type")]
    pub type_: ProviderType,
    /// The model, in the provider's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The Secret with the provider's key, under the name that the type says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ProviderSecret>,
    /// Where the API is, when not at the provider's own address.
    #[serde(default, rename = "baseURL", skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^https?://[^/]+"))]
    pub base_url: Option<String>,
    /// How the model is asked, unless the prompt says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Tuning>,
    /// What its tokens cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// More settings; each becomes the variable `OMNIA_PROVIDER_KEY`, in capitals, with `_` for `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_config: Option<BTreeMap<String, String>>,
}

/// Whether a provider can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProviderPhase {
    /// It can.
    Ready,
    /// It cannot; the conditions say why.
    #[default]
    Error,
}

/// What is known about a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// Ready or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProviderPhase>,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether it can be used, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_name_of_the_model() {
        for (model, expected) in [
            (Some("claude-sonnet-4"), Some(ProviderType::Claude)),
            (Some("gpt-4o"), Some(ProviderType::OpenAi)),
            (Some("gemini-2.0-flash"), Some(ProviderType::Gemini)),
            (Some("llama3"), None),
            (None, None),
        ] {
            assert_eq!(ProviderType::of_model(model), expected, "{model:?}");
        }
    }
}
