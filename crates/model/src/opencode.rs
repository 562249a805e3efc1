//! How OpenCode is told to use a scripted model.

use serde_json::{Value, json};

/// A configuration with one provider: a script at `base_url`, called what it is called. Prices are in dollars for a
/// million tokens.
pub fn config(provider: &str, name: &str, base_url: &str, prices: (f64, f64)) -> Value {
    json!({
        "model": format!("{provider}/script"),
        "small_model": format!("{provider}/script"),
        "enabled_providers": [provider],
        "provider": { provider: {
            "npm": "@ai-sdk/openai-compatible",
            "name": name,
            "options": { "baseURL": base_url, "apiKey": "none" },
            "models": { "script": {
                "name": name,
                "tool_call": true,
                "cost": { "input": prices.0, "output": prices.1 },
                "limit": { "context": 200_000, "output": 8192 },
            } },
        } },
        "autoupdate": false,
        "share": "disabled",
        "lsp": false,
        "formatter": false,
    })
}
