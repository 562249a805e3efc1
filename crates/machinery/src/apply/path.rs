//! Paths to fields: which member, which list item.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// One step of a path. The order of the variants is the order in which Kubernetes sorts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A member of an object.
    Field(String),
    /// The item of a keyed list that has these values in its keys, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// The item of a set that is this value.
    Value(Scalar),
    /// An item by its place. Never made here (such lists are owned as a whole), but read and kept.
    Index(i64),
}

impl Element {
    /// The member `name`.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// The name, when this is a member.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                out.write_str("[")?;
                for (place, (name, value)) in keys.iter().enumerate() {
                    write!(out, "{}{name}={}", if place == 0 { "" } else { "," }, value.0)?;
                }
                out.write_str("]")
            }
            Self::Value(value) => write!(out, "[={}]", value.0),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A path from the root of an object, printed as `.spec.containers[name="app"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Element>);

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(out))
    }
}

/// A JSON value with a total order: numbers by size, then strings, booleans and the rest.
#[derive(Clone, Debug)]
pub struct Scalar(pub Value);

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (left, right) => rank(left).cmp(&rank(right)).then_with(|| left.to_string().cmp(&right.to_string())),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

fn compare_numbers(left: &serde_json::Number, right: &serde_json::Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().unwrap_or_default().total_cmp(&right.as_f64().unwrap_or_default()),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Equality in which `1` is `1.0`.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        (left, right) => left == right,
    }
}
