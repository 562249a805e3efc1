//! Field paths and field-level causes, worded as Kubernetes words them.
//!
//! Clients and people match on these texts (`Invalid value: "x": …`), so every cause in the crate is
//! built here.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::status::Cause;

/// Where in an object something is. Paths borrow their parent, so walking down costs nothing until
/// there is an error to report.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself. Kubernetes prints a cause on it as `<nil>`.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// A first field, or several already joined (`spec.template`).
    pub const fn new(name: &'a str) -> Self {
        Path { parent: None, step: Step::Name(name) }
    }

    /// A named field: `spec.name`.
    #[must_use]
    pub const fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    /// A list item: `items[3]`.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// A map entry: `labels[app]`.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            fmt::Display::fmt(parent, f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Name(name) if self.parent.is_none_or(Path::is_root) => f.write_str(name),
            Step::Name(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

fn cause(reason: &str, path: &Path<'_>, message: String) -> Cause {
    let field = if path.is_root() { "<nil>".to_owned() } else { path.to_string() };
    Cause { reason: reason.to_owned(), message, field }
}

fn with_detail(title: &str, detail: &str) -> String {
    if detail.is_empty() { title.to_owned() } else { format!("{title}: {detail}") }
}

/// The value is missing.
pub fn required(path: &Path<'_>, detail: &str) -> Cause {
    cause("FieldValueRequired", path, with_detail("Required value", detail))
}

/// The value is malformed.
pub fn invalid(path: &Path<'_>, value: &Value, detail: &str) -> Cause {
    cause("FieldValueInvalid", path, with_detail(&format!("Invalid value: {}", print(value)), detail))
}

/// A malformed string.
pub fn invalid_text(path: &Path<'_>, value: &str, detail: &str) -> Cause {
    cause("FieldValueInvalid", path, with_detail(&format!("Invalid value: {}", quote(value)), detail))
}

/// A malformed value that was already printed.
pub fn invalid_printed(path: &Path<'_>, printed: &str, detail: &str) -> Cause {
    cause("FieldValueInvalid", path, with_detail(&format!("Invalid value: {printed}"), detail))
}

/// A malformed value too large to be worth printing.
pub fn invalid_omitted(path: &Path<'_>, detail: &str) -> Cause {
    cause("FieldValueInvalid", path, with_detail("Invalid value", detail))
}

/// A repeated value too large to be worth printing.
pub fn duplicate_omitted(path: &Path<'_>) -> Cause {
    cause("FieldValueDuplicate", path, "Duplicate value".to_owned())
}

/// A repeated value that was already printed.
pub fn duplicate_printed(path: &Path<'_>, printed: &str) -> Cause {
    cause("FieldValueDuplicate", path, format!("Duplicate value: {printed}"))
}

/// An unknown value that was already printed.
pub fn not_supported_printed(path: &Path<'_>, printed: &str, supported: &[&str]) -> Cause {
    let list: Vec<String> = supported.iter().map(|one| quote(one)).collect();
    let message = format!("Unsupported value: {printed}: supported values: {}", list.join(", "));
    cause("FieldValueNotSupported", path, message)
}

/// The value has the wrong type.
pub fn type_invalid(path: &Path<'_>, value: &Value, detail: &str) -> Cause {
    cause("FieldValueTypeInvalid", path, with_detail(&format!("Invalid value: {}", print(value)), detail))
}

/// The value is none of those allowed.
pub fn not_supported<S: AsRef<str>>(path: &Path<'_>, value: &Value, supported: &[S]) -> Cause {
    let list: Vec<String> = supported.iter().map(|one| quote(one.as_ref())).collect();
    let detail = if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
    cause("FieldValueNotSupported", path, with_detail(&format!("Unsupported value: {}", print(value)), &detail))
}

/// The value may not be given here.
pub fn forbidden(path: &Path<'_>, detail: &str) -> Cause {
    cause("FieldValueForbidden", path, with_detail("Forbidden", detail))
}

/// The value occurs twice.
pub fn duplicate(path: &Path<'_>, value: &Value) -> Cause {
    cause("FieldValueDuplicate", path, format!("Duplicate value: {}", print(value)))
}

/// Nothing of that name exists.
pub fn not_found(path: &Path<'_>, value: &Value) -> Cause {
    cause("FieldValueNotFound", path, format!("Not found: {}", print(value)))
}

/// More bytes than allowed.
pub fn too_long(path: &Path<'_>, max: u64) -> Cause {
    let unit = if max == 1 { "byte" } else { "bytes" };
    cause("FieldValueTooLong", path, format!("Too long: may not be more than {max} {unit}"))
}

/// More items than allowed.
pub fn too_many(path: &Path<'_>, actual: usize, max: u64) -> Cause {
    let unit = if max == 1 { "item" } else { "items" };
    cause("FieldValueTooMany", path, format!("Too many: {actual}: must have at most {max} {unit}"))
}

/// Our own fault, reported on a field.
pub fn internal(path: &Path<'_>, detail: &str) -> Cause {
    cause("InternalError", path, format!("Internal error: {detail}"))
}

/// `value` may not differ from `old`.
pub fn immutable(path: &Path<'_>, value: &Value, old: &Value) -> Option<Cause> {
    (value != old).then(|| invalid(path, value, "field is immutable"))
}

/// A value inside a message: scalars plainly, text quoted, the rest as JSON.
pub fn print(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => float(number.as_f64().unwrap_or_default()),
        },
        other => json(other),
    }
}

/// A string in double quotes, escaped the way Go prints `%q`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => {
                let code = c as u32;
                let _ = if code < 0x80 { write!(out, "\\x{code:02x}") } else { write!(out, "\\u{code:04x}") };
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A number the way Go prints `%v` of a float.
pub fn float(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// JSON with sorted keys and Go's HTML-safe escapes.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (position, key) in keys.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_text(key, out);
                out.push(':');
                write_json(&map[key.as_str()], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_text(text, out),
        other => out.push_str(&other.to_string()),
    }
}

fn write_text(text: &str, out: &mut String) {
    let plain = Value::String(text.to_owned()).to_string();
    for character in plain.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            c => out.push(c),
        }
    }
}
