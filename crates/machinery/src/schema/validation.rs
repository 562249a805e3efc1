//! Validation of a value against a schema.
//!
//! The order of checks, the wording and even the oddities (a list passes where a formatted string is
//! wanted; the best-matching `anyOf` branch is the one reported) are those of the API server, because
//! clients see the texts.

use serde_json::{Map, Number, Value};

use super::{Additional, ListType, Schema, Type, formats};
use crate::field::{self, Path};
use crate::status::Cause;

/// Checks a new object. Empty means valid. Does not look at list keys, embedded resources or rules:
/// see [`super::validate_lists`], [`super::validate_embedded`] and [`super::rules`].
pub fn validate(schema: &Schema, value: &Value) -> Vec<Cause> {
    Check { old: None }.node(schema, value, &Path::ROOT).causes
}

/// Checks a changed object. What was wrong before and did not change is let through, so that an object
/// made before its schema was tightened can still be written (Kubernetes calls it ratcheting).
pub fn validate_update(schema: &Schema, value: &Value, old: &Value) -> Vec<Cause> {
    Check { old: Some(old) }.node(schema, value, &Path::ROOT).causes
}

/// As [`validate`], for a value that sits at `base` (a default in a schema, a status).
pub fn validate_at(schema: &Schema, value: &Value, base: &Path<'_>) -> Vec<Cause> {
    let mut causes = validate(schema, value);
    for cause in &mut causes {
        cause.field = match cause.field.as_str() {
            "<nil>" | "" => base.to_string(),
            inner if inner.starts_with('[') => format!("{base}{inner}"),
            inner => format!("{base}.{inner}"),
        };
    }
    causes
}

/// What a check found. `matches` counts the checks that passed; it decides which branch of an
/// `anyOf` or `oneOf` is reported.
#[derive(Default)]
struct Outcome {
    causes: Vec<Cause>,
    matches: u32,
}

impl Outcome {
    fn add(&mut self, cause: Cause) {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        for cause in other.causes {
            self.add(cause);
        }
    }
}

/// A walk over a value beside its old version (when there is one that corresponds).
#[derive(Clone, Copy)]
struct Check<'v> {
    old: Option<&'v Value>,
}

impl<'v> Check<'v> {
    fn node(self, schema: &Schema, value: &Value, path: &Path<'_>) -> Outcome {
        let schema = schema.resolve();
        let mut outcome = Outcome::default();
        let format = formats::effective(schema);
        if value.is_null() {
            match type_problem(schema, value, format, path) {
                Some(problem) => outcome.add(problem),
                None => outcome.matches += 1,
            }
            if let Some(problem) = enumeration(schema, value, path) {
                outcome.add(problem);
            }
            return outcome;
        }
        if schema.value_type != Type::Any || format.is_some() {
            match type_problem(schema, value, format, path) {
                Some(problem) => outcome.add(problem),
                None => outcome.matches += 1,
            }
            outcome.matches += 1;
        }
        outcome.merge(self.combinations(schema, value, path));
        match value {
            Value::String(text) => string(schema, text, format, path, &mut outcome),
            Value::Number(number) => numeric(schema, number, format, path, &mut outcome),
            Value::Array(items) => outcome.merge(self.list(schema, items, path)),
            _ => {}
        }
        if let Some(problem) = enumeration(schema, value, path) {
            outcome.add(problem);
        }
        outcome.matches += 1;
        if let Value::Object(map) = value {
            outcome.merge(self.object(schema, map, path));
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    /// A field or item: unchanged ones are forgiven.
    fn child(self, schema: &Schema, value: &Value, path: &Path<'_>) -> Outcome {
        let mut outcome = self.node(schema, value, path);
        if !outcome.causes.is_empty() && self.old == Some(value) {
            outcome.causes.clear();
        }
        outcome
    }

    fn object(self, schema: &Schema, map: &Map<String, Value>, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let count = map.len() as u64;
        if let Some(min) = schema.min_properties.filter(|min| count < *min) {
            let detail = format!("{path} in body should have at least {min} properties");
            outcome.add(field::invalid(path, &count.into(), &detail));
        }
        if let Some(max) = schema.max_properties.filter(|max| count > *max) {
            outcome.add(field::too_many(path, map.len(), max));
        }
        let old = |key: &str| Check { old: self.old.and_then(|old| old.get(key)) };
        if let Some(Additional::Schema(other)) = &schema.additional {
            for (key, value) in map.iter().filter(|(key, _)| !schema.properties.contains_key(*key)) {
                outcome.merge(old(key).child(other, value, &path.child(key)));
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = map.get(name) {
                outcome.merge(old(name).child(property, value, &path.child(name)));
            }
        }
        for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
            outcome.add(field::required(&path.child(name), ""));
        }
        outcome
    }

    fn list(self, schema: &Schema, items: &[Value], path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome { matches: 2, ..Outcome::default() };
        if let Some(item_schema) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                let old = self.matching_item(schema, item);
                outcome.merge(Check { old }.child(item_schema, item, &path.index(index)));
            }
        }
        let count = items.len() as u64;
        if let Some(min) = schema.min_items.filter(|min| count < *min) {
            let detail = format!("{path} in body should have at least {min} items");
            outcome.add(field::invalid(path, &count.into(), &detail));
        }
        if let Some(max) = schema.max_items.filter(|max| count > *max) {
            outcome.add(field::too_many(path, items.len(), max));
        }
        if schema.unique_items && items.iter().enumerate().any(|(index, item)| items[..index].contains(item)) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            outcome.add(field::invalid_text(path, "", &detail));
        }
        outcome
    }

    /// Only items of list maps can be told apart from one version to the next.
    fn matching_item(self, schema: &Schema, item: &Value) -> Option<&'v Value> {
        let ListType::Map(keys) = &schema.list_type else { return None };
        let old = self.old?.as_array()?;
        old.iter().find(|candidate| keys.iter().all(|key| candidate.get(key) == item.get(key)))
    }

    fn combinations(self, schema: &Schema, value: &Value, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome { matches: 2, ..Outcome::default() };
        let general = |detail: String| field::invalid_text(&Path::ROOT, "", &detail);
        let name = field::quote(&path.to_string());
        if !schema.any_of.is_empty() {
            match self.first_match(&schema.any_of, value, path) {
                Ok(success) => outcome.merge(success),
                Err(best) => {
                    outcome.add(general(format!("{name} must validate at least one schema (anyOf)")));
                    outcome.merge(best);
                }
            }
        }
        if !schema.one_of.is_empty() {
            self.exactly_one(schema, value, path, &mut outcome);
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for branch in &schema.all_of {
                let result = self.node(branch, value, path);
                valid += usize::from(result.causes.is_empty());
                outcome.merge(result);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(general(format!("{name} must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(not) = &schema.not
            && self.node(not, value, path).causes.is_empty()
        {
            outcome.add(general(format!("{name} must not validate the schema (not)")));
        }
        outcome
    }

    fn first_match(self, branches: &[Schema], value: &Value, path: &Path<'_>) -> Result<Outcome, Outcome> {
        let mut best: Option<Outcome> = None;
        for branch in branches {
            let result = self.node(branch, value, path);
            if result.causes.is_empty() {
                return Ok(result);
            }
            if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        Err(best.unwrap_or_default())
    }

    fn exactly_one(self, schema: &Schema, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let mut valid = 0;
        let mut first: Option<Outcome> = None;
        let mut best: Option<Outcome> = None;
        for branch in &schema.one_of {
            let result = self.node(branch, value, path);
            if result.causes.is_empty() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        if valid == 1 {
            outcome.merge(first.unwrap_or_default());
            return;
        }
        let found =
            if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
        let name = field::quote(&path.to_string());
        let detail = format!("{name} must validate one and only one schema (oneOf). {found}");
        outcome.add(field::invalid_text(&Path::ROOT, "", &detail));
        outcome.merge(best.unwrap_or_default());
    }
}

impl Type {
    /// The JSON Schema types that values of this type may have.
    fn names(self) -> &'static [&'static str] {
        match self {
            Type::Any => &[],
            Type::Object => &["object"],
            Type::Array => &["array"],
            Type::String => &["string"],
            Type::Integer => &["integer"],
            Type::Number => &["number"],
            Type::Boolean => &["boolean"],
            Type::IntOrString => &["integer", "string"],
        }
    }
}

fn type_problem(schema: &Schema, value: &Value, format: Option<&str>, path: &Path<'_>) -> Option<Cause> {
    let wanted = schema.value_type.names();
    let problem = |wanted: &str, found: &str| {
        let detail = format!("{path} in body must be of type {wanted}: {}", field::quote(found));
        Some(field::type_invalid(path, &found.into(), &detail))
    };
    // Name of the type and of the number format that the value itself has.
    let (found, found_format) = match value {
        Value::Null if wanted.is_empty() || schema.nullable => return None,
        Value::Null => return problem(&wanted.join(","), "null"),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let whole_float = found == "number" && wanted.contains(&"integer") && is_whole(value);
    let matches = wanted.contains(&found) || whole_float || (found == "integer" && wanted.contains(&"number"));
    let textual = matches!(value, Value::String(_) | Value::Array(_));
    if let Some(format) = format {
        if !textual && !matches && found_format != format {
            return problem(format, found_format);
        }
        if textual && !wanted.contains(&"number") && !wanted.contains(&"integer") {
            return None;
        }
    }
    if matches || wanted.is_empty() && format.is_none() { None } else { problem(&wanted.join(","), found) }
}

fn is_whole(value: &Value) -> bool {
    /// Whole numbers beyond this are not exact as JSON numbers.
    const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
    value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= MAX_EXACT)
}

fn enumeration(schema: &Schema, value: &Value, path: &Path<'_>) -> Option<Cause> {
    if schema.enumeration.is_empty() || schema.enumeration.iter().any(|allowed| equal(allowed, value)) {
        return None;
    }
    let supported: Vec<String> = schema
        .enumeration
        .iter()
        .map(|allowed| allowed.as_str().map_or_else(|| field::json(allowed), str::to_owned))
        .collect();
    Some(field::not_supported(path, value, &supported))
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

fn string(schema: &Schema, text: &str, format: Option<&str>, path: &Path<'_>, outcome: &mut Outcome) {
    let length = text.chars().count() as u64;
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        outcome.add(field::too_long(path, max));
    } else if let Some(min) = schema.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        outcome.add(field::invalid_text(path, text, &detail));
    } else if let Some(pattern) = schema.pattern.as_deref().filter(|pattern| !formats::matches_pattern(pattern, text)) {
        let detail = format!("{path} in body should match '{pattern}'");
        outcome.add(field::invalid_text(path, text, &detail));
    }
    outcome.matches += 1;
    if let Some(format) = format.filter(|format| formats::is_known(format)) {
        if !formats::is_valid(format, text) {
            let detail = format!("{path} in body must be of type {format}: {}", field::quote(text));
            outcome.add(field::type_invalid(path, &text.into(), &detail));
        }
        outcome.matches += 1;
    }
}

fn numeric(schema: &Schema, number: &Number, format: Option<&str>, path: &Path<'_>, outcome: &mut Outcome) {
    let value = Value::Number(number.clone());
    let general = |detail: String| field::invalid_text(&Path::ROOT, "", &detail);
    if let Some(detail) = out_of_range(schema.value_type, format, &value, "Checked", path) {
        outcome.add(general(detail));
    }
    let bounds = [
        (schema.multiple_of, "MultipleOf", Bound::Multiple),
        (schema.minimum, "Minimum boundary", Bound::Minimum(schema.exclusive_minimum)),
        (schema.maximum, "Maximum boundary", Bound::Maximum(schema.exclusive_maximum)),
    ];
    for (limit, title, bound) in bounds {
        let Some(limit) = limit else { continue };
        if let Some(detail) = out_of_range(schema.value_type, format, &limit.into(), title, path) {
            outcome.add(general(detail));
        }
        if let Some(detail) = bound.problem(number, limit) {
            outcome.add(field::invalid(path, &value, &format!("{path} in body {detail}")));
        }
    }
    outcome.matches += 2;
}

fn out_of_range(value_type: Type, format: Option<&str>, value: &Value, title: &str, path: &Path<'_>) -> Option<String> {
    let fits = match (value_type, format) {
        (Type::Integer, Some("int32")) => {
            is_whole(value) && value.as_f64().is_some_and(|n| n >= f64::from(i32::MIN) && n <= f64::from(i32::MAX))
        }
        (Type::Integer, _) => value.is_i64() || is_whole(value),
        #[expect(clippy::cast_possible_truncation, reason = "finding out whether it fits is the point")]
        (Type::Number, Some("float")) => value.as_f64().is_some_and(|number| (number as f32).is_finite()),
        _ => true,
    };
    if fits {
        return None;
    }
    let kind = if value_type == Type::Integer { "integer" } else { "number" };
    Some(match format {
        Some(format) => format!("{title} value must be of type {kind} with format {format} in {path}"),
        None => format!("{title} value must be of type {kind} (default format) in {path}"),
    })
}

#[derive(Clone, Copy)]
enum Bound {
    Multiple,
    Minimum(bool),
    Maximum(bool),
}

impl Bound {
    /// What is wrong with `number`. Whole numbers are compared as such, and bounds printed to match.
    fn problem(self, number: &Number, limit: f64) -> Option<String> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as the API server does")]
        let (value, limit, printed) = match number.as_i64() {
            Some(whole) => (whole as f64, limit.trunc(), (limit as i64).to_string()),
            None => (number.as_f64().unwrap_or_default(), limit, field::float(limit)),
        };
        match self {
            Bound::Multiple => {
                let quotient = if limit.abs() < 1.0 { 1.0 / limit * value } else { value / limit };
                (quotient.fract() != 0.0).then(|| format!("should be a multiple of {printed}"))
            }
            Bound::Minimum(true) => (value <= limit).then(|| format!("should be greater than {printed}")),
            Bound::Minimum(false) => (value < limit).then(|| format!("should be greater than or equal to {printed}")),
            Bound::Maximum(true) => (value >= limit).then(|| format!("should be less than {printed}")),
            Bound::Maximum(false) => (value > limit).then(|| format!("should be less than or equal to {printed}")),
        }
    }
}
