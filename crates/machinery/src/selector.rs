//! Label and field selectors: `app=web,tier in (a,b),!legacy` and `metadata.name=x,status.phase!=Running`.

mod parse;

use std::fmt;

use serde_json::{Map, Value};

use crate::field::{self, Path};
use crate::meta::names;
use crate::status::Cause;

/// A selector that cannot be used, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>5`
    GreaterThan,
    /// `key<5`
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How it compares.
    pub operator: Operator,
    /// What it compares with.
    pub values: Vec<String>,
}

impl Requirement {
    /// A requirement with a valid key and values that suit the operator.
    pub fn new(key: impl Into<String>, operator: Operator, values: Vec<String>) -> Result<Self, Error> {
        let key = key.into();
        let mut problems: Vec<String> = Vec::new();
        let mut refuse = |cause: Cause| problems.push(format!("{}: {}", cause.field, cause.message));
        let bad_key = names::label_key(&key);
        if !bad_key.is_empty() {
            refuse(field::invalid_text(&Path::new("key"), &key, &bad_key.join("; ")));
        }
        let path = Path::new("values");
        let given = Value::from(values.clone());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                refuse(field::invalid(&path, &given, "for 'in', 'notin' operators, values set can't be empty"));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                refuse(field::invalid(&path, &given, "exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                refuse(field::invalid(&path, &given, "values set must be empty for exists and does not exist"));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    refuse(field::invalid(&path, &given, "for 'Gt', 'Lt' operators, exactly one value is required"));
                }
                for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    refuse(field::invalid_text(&path.index(index), value, detail));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let bad_value = names::label_value(value);
            if !bad_value.is_empty() {
                refuse(field::invalid_text(&path.index(index).key(&key), value, &bad_value.join("; ")));
            }
        }
        match problems.as_slice() {
            [] => Ok(Self { key, operator, values }),
            [one] => Err(Error(one.clone())),
            many => Err(Error(format!("[{}]", many.join(", ")))),
        }
    }

    /// Whether labels meet it.
    pub fn matches(&self, labels: &Map<String, Value>) -> bool {
        let label = labels.get(&self.key).and_then(Value::as_str);
        let listed = |value: &str| self.values.iter().any(|allowed| allowed == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let numbers = (
                    label.and_then(|label| label.parse::<i64>().ok()),
                    self.values.first().and_then(|value| value.parse::<i64>().ok()),
                );
                let (Some(label), Some(limit)) = numbers else { return false };
                if self.operator == Operator::GreaterThan { label > limit } else { label < limit }
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values = self.values.clone();
        values.sort();
        let values = values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A label selector: all requirements must hold; none means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// What must hold, sorted by key.
    pub requirements: Vec<Requirement>,
    /// Selects nothing at all (an absent `LabelSelector` object).
    pub nothing: bool,
}

impl LabelSelector {
    /// Reads the text form, as in `?labelSelector=`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = parse::requirements(text)?;
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a `LabelSelector` object (`matchLabels`, `matchExpressions`). None selects nothing, an
    /// empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, Error> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(Self { requirements: Vec::new(), nothing: true });
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(Error(format!("{} is not a valid label selector operator", field::quote(other)))),
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Self { requirements, nothing: false })
    }

    /// A selector for exactly these labels (a Service's or an old controller's `spec.selector`).
    pub fn from_labels(labels: &Map<String, Value>) -> Self {
        let requirement = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        Self { requirements: labels.iter().map(requirement).collect(), nothing: false }
    }

    /// Whether labels are selected.
    pub fn matches(&self, labels: &Map<String, Value>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether an object's labels are selected.
    pub fn matches_object(&self, object: &Value) -> bool {
        match object.pointer("/metadata/labels").and_then(Value::as_object) {
            Some(labels) => self.matches(labels),
            None => self.matches(&Map::new()),
        }
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

/// Checks a `LabelSelector` object inside a spec.
pub fn validate_object(selector: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = crate::meta::validate_labels(selector.get("matchLabels"), &path.child("matchLabels"));
    let path = path.child("matchExpressions");
    for (index, expression) in
        selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        causes.extend(validate_expression(expression, &path.index(index)));
    }
    causes
}

fn validate_expression(expression: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
    let empty = Vec::new();
    let values = expression.get("values").and_then(Value::as_array).unwrap_or(&empty);
    let values_path = path.child("values");
    match text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            causes.push(field::required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(field::forbidden(&values_path, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => causes.push(field::invalid_text(&path.child("operator"), other, "not a valid selector operator")),
    }
    let key = text("key");
    let key_path = path.child("key");
    causes.extend(names::label_key(key).iter().map(|problem| field::invalid_text(&key_path, key, problem)));
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let path = values_path.index(index);
        causes.extend(names::label_value(value).iter().map(|problem| field::invalid_text(&path, value, problem)));
    }
    causes
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, as `status.phase`.
    pub field: String,
    /// Equal or not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// A field selector: all requirements must hold; none means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// What must hold.
    pub requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads the text form, as in `?fieldSelector=`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(Error(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = unescape(value)?;
            requirements.push(FieldRequirement { field: field.to_owned(), equal: operator != "!=", value });
        }
        Ok(Self { requirements })
    }

    /// Whether an object is selected. `lookup` gives the value of a field; a missing one is empty.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<std::borrow::Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = lookup(&requirement.field).unwrap_or_default();
            (value == requirement.value) == requirement.equal
        })
    }

    /// Whether an object is selected, with fields read at their own paths.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(|path| field_text(object, path))
    }

    /// The first field that is not among `supported`.
    pub fn unsupported(&self, supported: &[&str]) -> Option<&str> {
        self.requirements.iter().map(|requirement| requirement.field.as_str()).find(|field| !supported.contains(field))
    }

    /// The value that a field must be equal to.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|requirement| requirement.equal && requirement.field == field)
            .map(|requirement| requirement.value.as_str())
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let operator = if requirement.equal { "=" } else { "!=" };
            let value = requirement.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{}{operator}{value}", requirement.field)?;
        }
        Ok(())
    }
}

/// The text of a scalar field at a dotted path.
pub fn field_text<'a>(object: &'a Value, path: &str) -> Option<std::borrow::Cow<'a, str>> {
    let value = path.split('.').try_fold(object, |value, key| value.get(key))?;
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().into()),
        _ => None,
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (position, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    for (position, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[position..].strip_prefix(operator) {
                return Some((&term[..position], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => {
                    return Err(Error(format!("invalid field selector: invalid escape sequence: \\{other}")));
                }
                None => return Err(Error("invalid field selector: invalid escape sequence: \\".to_owned())),
            },
            ',' | '=' => {
                return Err(Error(format!(
                    "invalid field selector: unescaped character in value: {}",
                    character as u32
                )));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}
