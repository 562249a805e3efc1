//! JSON as CEL values, as far as the schema describes it.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use crate::schema::{Additional, Schema, Type};

/// Words of the language that a field name must not collide with.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Names of types, as `type(self) == int` uses them.
pub const TYPE_NAMES: [&str; 9] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

/// The type of a value.
pub fn type_name(value: &CelValue) -> &'static str {
    match value {
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Int(_) => "int",
        CelValue::UInt(_) => "uint",
        CelValue::Float(_) => "double",
        CelValue::String(_) => "string",
        CelValue::Bytes(_) => "bytes",
        CelValue::Bool(_) => "bool",
        CelValue::Null => "null_type",
        CelValue::Duration(_) => "google.protobuf.Duration",
        CelValue::Timestamp(_) => "google.protobuf.Timestamp",
        _ => "dyn",
    }
}

/// A value as rules see it. Fields that the schema does not name are invisible to rules.
pub fn convert(schema: &Schema, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            #[expect(clippy::cast_precision_loss, reason = "numbers are floats in CEL")]
            Some(whole) if schema.value_type == Type::Number => CelValue::Float(whole as f64),
            Some(whole) => CelValue::Int(whole),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => string(schema, text),
        Value::Array(items) => {
            let any = Schema::default();
            let item_schema = schema.items.as_deref().unwrap_or(&any);
            CelValue::List(Arc::new(items.iter().map(|item| convert(item_schema, item)).collect()))
        }
        Value::Object(map) => {
            let entry = |(key, child): (&String, &Value)| match (schema.properties.get(key), &schema.additional) {
                (Some(property), _) if child.is_null() && !property.nullable => None,
                (Some(property), _) => Some((escape(key), convert(property, child))),
                (None, Some(Additional::Schema(other))) => Some((key.clone(), convert(other, child))),
                (None, Some(Additional::Anything)) => Some((key.clone(), convert(&Schema::default(), child))),
                (None, None) if schema.properties.is_empty() => Some((key.clone(), convert(&Schema::default(), child))),
                (None, None) => None,
            };
            let fields: HashMap<Key, CelValue> =
                map.iter().filter_map(entry).map(|(key, value)| (Key::String(Arc::new(key)), value)).collect();
            CelValue::Map(Map { map: Arc::new(fields) })
        }
    }
}

fn string(schema: &Schema, text: &str) -> CelValue {
    let plain = || CelValue::String(Arc::new(text.to_owned()));
    if schema.value_type != Type::String {
        return plain();
    }
    match schema.format.as_deref() {
        Some("date-time") => chrono::DateTime::parse_from_rfc3339(text).map_or_else(|_| plain(), CelValue::Timestamp),
        Some("date") => {
            let midnight = format!("{text}T00:00:00Z");
            chrono::DateTime::parse_from_rfc3339(&midnight).map_or_else(|_| plain(), CelValue::Timestamp)
        }
        Some("duration") => duration(text).map_or_else(plain, CelValue::Duration),
        Some("byte") => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            decoded.map_or_else(|_| plain(), |bytes| CelValue::Bytes(Arc::new(bytes)))
        }
        _ => plain(),
    }
}

/// A Go duration: `1h30m`, `-1.5s`.
fn duration(text: &str) -> Option<chrono::Duration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(chrono::Duration::zero());
    }
    let mut nanoseconds = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end =
            rest.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(rest.len());
        nanoseconds += number
            * match &rest[..unit_end] {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    #[expect(clippy::cast_possible_truncation, reason = "durations of more than 292 years saturate")]
    let whole = nanoseconds as i64;
    Some(chrono::Duration::nanoseconds(if negative { -whole } else { whole }))
}

/// A field name as rules must write it.
pub fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    let marked = name.replace("__", "\u{0}");
    let mut out = String::with_capacity(name.len() + 16);
    for character in marked.chars() {
        match character {
            '\u{0}' => out.push_str("__underscores__"),
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            other => out.push(other),
        }
    }
    out
}

/// The field name behind an escaped one.
pub fn unescape(name: &str) -> String {
    if let Some(word) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return word.to_owned();
    }
    name.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/").replace("__underscores__", "__")
}
