//! `meta.k8s.io/v1` Tables: the columns of custom resources, and how `kubectl get` says how long ago.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field;
use crate::jsonpath::Path;

/// A length of time as `kubectl get` prints it: two units at most, coarser as it grows.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |whole: i64, unit: &str, part: i64, smaller: &str| {
        if part == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{part}{smaller}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// How long ago an RFC 3339 time was.
pub fn age(time: Option<&Value>, now: Timestamp) -> String {
    let Some(text) = time.and_then(Value::as_str) else { return "<unknown>".to_owned() };
    match text.parse::<Timestamp>() {
        Ok(time) => human_duration(now.as_second() - time.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// One additional printer column of a custom resource.
#[derive(Clone, Debug)]
pub struct Column {
    /// The header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub value_type: String,
    /// A hint for clients, such as `int32`.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i64,
    path: Path,
}

impl Column {
    /// Reads one of a CRD version's `additionalPrinterColumns`. None if its path cannot be read.
    pub fn read(column: &Value) -> Option<Self> {
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            words if words.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
            words => words,
        };
        Some(Self {
            name: text("name"),
            value_type: text("type"),
            format: text("format"),
            description,
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: Path::parse(&path).ok()?,
        })
    }

    /// The columns of a CRD version; with none given, the age.
    pub fn of_version(version: &Value) -> Vec<Self> {
        let given =
            version.get("additionalPrinterColumns").and_then(Value::as_array).filter(|columns| !columns.is_empty());
        match given {
            Some(columns) => columns.iter().filter_map(Self::read).collect(),
            None => Self::read(&json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                "description": "When the server created the object, shown as how long ago that was.",
            }))
            .into_iter()
            .collect(),
        }
    }

    /// Its entry in a Table's `columnDefinitions`.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.value_type, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }

    /// The cell of an object; null when there is nothing to show.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.value_type.as_str(), value) {
            ("string", Value::String(text)) => text.as_str().into(),
            ("string", Value::Null) => "null".into(),
            ("string", Value::Number(_)) => field::print(value).into(),
            ("string", other) => field::json(other).into(),
            #[expect(clippy::cast_possible_truncation, reason = "as the API server does")]
            ("integer", Value::Number(number)) => {
                number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(_)) => age(Some(value), now).into(),
            _ => Value::Null,
        }
    }
}
