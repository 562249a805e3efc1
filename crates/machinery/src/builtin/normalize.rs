//! Built-in kinds pass through typed structures in Kubernetes. What such a passage refuses and changes is
//! done here: wrong types, zero values that mean absence, quantities and times in their one true form.

use base64::{DecodeError, Engine as _};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::Value;

use crate::field;
use crate::quantity::Quantity;
use crate::schema::{Additional, Schema, Type};

/// Writes an object the way a typed decoder and encoder would leave it. Run it after pruning and before
/// defaulting; it changes nothing the second time.
pub fn normalize(schema: &Schema, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(map) => {
            map.retain(|key, child| {
                let Some(child_schema) = schema.field(key) else { return true };
                normalize(child_schema, child);
                let Some(property) = schema.properties.get(key) else { return true };
                let absent = child.is_null() && property.default.is_none();
                !(absent || property.omit_empty && is_zero(child))
            });
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return };
            for item in items {
                normalize(item_schema, item);
            }
        }
        Value::String(_) | Value::Number(_) => scalar(schema, value),
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn scalar(schema: &Schema, value: &mut Value) {
    match (schema.format.as_deref(), &*value) {
        (Some("quantity"), Value::String(text)) => {
            if let Ok(canonical) = Quantity::canonical(text.trim()) {
                *value = canonical.into();
            }
        }
        (Some("quantity"), Value::Number(number)) => {
            if let Ok(canonical) = Quantity::canonical(&number.to_string()) {
                *value = canonical.into();
            }
        }
        (Some("date-time"), Value::String(text)) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                let micro = schema.name.as_deref().is_some_and(|name| name.ends_with("MicroTime"));
                *value = print_time(time, micro).into();
            }
        }
        _ => {}
    }
}

fn print_time(time: Timestamp, micro: bool) -> String {
    let printer = DateTimePrinter::new().precision(Some(if micro { 6 } else { 0 }));
    printer.timestamp_to_string(&time)
}

/// The first value that a typed decoder could not read, in its words:
/// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub fn decode(schema: &Schema, object: &Value) -> Result<(), String> {
    let mut stack = Vec::new();
    walk(schema, object, None, &mut stack)
}

fn walk<'a>(
    schema: &'a Schema,
    value: &'a Value,
    parent: Option<&'a Schema>,
    stack: &mut Vec<&'a str>,
) -> Result<(), String> {
    let schema = schema.resolve();
    if value.is_null() {
        return Ok(());
    }
    if let Some(found) = mismatch(schema, value) {
        let wanted = go_type(schema);
        let holder = parent.and_then(|parent| parent.name.as_deref()).and_then(|name| name.rsplit('.').next());
        return Err(match holder {
            Some(holder) => format!(
                "json: cannot unmarshal {found} into Go struct field {holder}.{} of type {wanted}",
                stack.join(".")
            ),
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        });
    }
    if schema.format.as_deref() == Some("quantity") {
        return Quantity::from_value(value).map(|_| ()).map_err(|error| error.to_string());
    }
    if let (Some("date-time"), Some(text)) = (schema.format.as_deref(), value.as_str())
        && text.parse::<Timestamp>().is_err()
    {
        let quoted = field::quote(text);
        let micro = schema.name.as_deref().is_some_and(|name| name.ends_with("MicroTime"));
        let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        return Err(format!("parsing time {quoted} as \"{layout}\": cannot parse {quoted} as \"2006\""));
    }
    if let (Some("byte"), Some(text)) = (schema.format.as_deref(), value.as_str())
        && let Err(error) = base64::engine::general_purpose::STANDARD.decode(text)
    {
        let offset = match error {
            DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol(offset, _) => offset,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len() / 4 * 4,
        };
        return Err(format!("illegal base64 data at input byte {offset}"));
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if let Some(property) = schema.properties.get(key) {
                    stack.push(key);
                    walk(property, child, Some(schema), stack)?;
                    stack.pop();
                } else if let Some(Additional::Schema(other)) = &schema.additional {
                    walk(other, child, parent, stack)?;
                }
            }
            Ok(())
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return Ok(()) };
            items.iter().try_for_each(|item| walk(item_schema, item, parent, stack))
        }
        _ => Ok(()),
    }
}

/// What the value is, when it is not what the schema says.
fn mismatch(schema: &Schema, value: &Value) -> Option<String> {
    let fits = match (schema.value_type, value) {
        (Type::Any, _)
        | (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::Number, Value::Number(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::String | Type::IntOrString, Value::String(_)) => true,
        (Type::Integer, Value::Number(number)) => fits_integer(schema, number),
        (Type::IntOrString, Value::Number(number)) => number.as_i64().is_some_and(|whole| i32::try_from(whole).is_ok()),
        _ => false,
    };
    (!fits).then(|| match value {
        Value::Number(number) if matches!(schema.value_type, Type::Integer | Type::IntOrString) => {
            format!("number {number}")
        }
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    })
}

fn fits_integer(schema: &Schema, number: &serde_json::Number) -> bool {
    match (schema.format.as_deref(), number.as_i64()) {
        (Some("int32"), Some(whole)) => i32::try_from(whole).is_ok(),
        (_, whole) => whole.is_some(),
    }
}

/// A type the way Go names it.
fn go_type(schema: &Schema) -> String {
    if let Some(name) = &schema.name {
        let mut parts = name.rsplit('.');
        let (short, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return match short {
            "Time" | "MicroTime" => "string".to_owned(),
            "IntOrString" => "int32".to_owned(),
            _ => format!("{package}.{short}"),
        };
    }
    match schema.value_type {
        Type::Array => format!("[]{}", schema.items.as_deref().map_or("interface {}".to_owned(), go_type)),
        Type::Object => match &schema.additional {
            Some(Additional::Schema(other)) => format!("map[string]{}", go_type(other)),
            _ => "map[string]interface {}".to_owned(),
        },
        Type::String if schema.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        Type::String => "string".to_owned(),
        Type::Integer => schema.format.clone().unwrap_or_else(|| "int64".to_owned()),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Any | Type::IntOrString => "int32".to_owned(),
    }
}
