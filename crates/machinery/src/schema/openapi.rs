//! Printing a schema as `OpenAPI` v3.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Additional, ListType, Rule, Schema, Type};

/// Where named types live in an `OpenAPI` v3 document.
const COMPONENTS: &str = "#/components/schemas/";

impl Schema {
    /// This type in `OpenAPI` v3. Named types below it are printed as `$ref`; see
    /// [`Schema::referenced_names`].
    pub fn to_openapi(&self) -> Value {
        let mut out = Map::new();
        self.describe(&mut out);
        self.structure(&mut out);
        self.bounds(&mut out);
        self.extensions(&mut out);
        Value::Object(out)
    }

    /// Names of the types that [`Schema::to_openapi`] refers to, directly only.
    pub fn referenced_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.each_child(&mut |child| match &child.name {
            Some(name) => {
                names.insert(name.clone());
            }
            None => names.extend(child.referenced_names()),
        });
        names
    }

    fn each_child(&self, visit: &mut dyn FnMut(&Schema)) {
        self.properties.values().for_each(|property| visit(property));
        if let Some(items) = &self.items {
            visit(items);
        }
        if let Some(Additional::Schema(other)) = &self.additional {
            visit(other);
        }
    }

    fn describe(&self, out: &mut Map<String, Value>) {
        if let Some(description) = &self.description {
            out.insert("description".into(), description.as_str().into());
        }
        if let Some(default) = &self.default {
            out.insert("default".into(), default.clone());
        }
        if self.nullable {
            out.insert("nullable".into(), true.into());
        }
    }

    fn structure(&self, out: &mut Map<String, Value>) {
        let name = match self.value_type {
            Type::Any | Type::IntOrString => None,
            Type::Object => Some("object"),
            Type::Array => Some("array"),
            Type::String => Some("string"),
            Type::Integer => Some("integer"),
            Type::Number => Some("number"),
            Type::Boolean => Some("boolean"),
        };
        if let Some(name) = name {
            out.insert("type".into(), name.into());
        }
        if !self.properties.is_empty() {
            let fields = self.properties.iter().map(|(name, property)| (name.clone(), reference(property)));
            out.insert("properties".into(), Value::Object(fields.collect()));
        }
        match &self.additional {
            Some(Additional::Schema(other)) => {
                out.insert("additionalProperties".into(), reference(other));
            }
            Some(Additional::Anything) => {
                out.insert("additionalProperties".into(), true.into());
            }
            None => {}
        }
        if let Some(items) = &self.items {
            out.insert("items".into(), reference(items));
        }
        if !self.required.is_empty() {
            out.insert("required".into(), json!(self.required));
        }
    }

    fn bounds(&self, out: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                out.insert(key.to_owned(), value);
            }
        };
        let flag = |on: bool| on.then_some(Value::Bool(true));
        set("format", self.format.as_deref().map(Value::from));
        set("pattern", self.pattern.as_deref().map(Value::from));
        set("enum", (!self.enumeration.is_empty()).then(|| json!(self.enumeration)));
        set("minimum", self.minimum.map(number));
        set("maximum", self.maximum.map(number));
        set("exclusiveMinimum", flag(self.exclusive_minimum));
        set("exclusiveMaximum", flag(self.exclusive_maximum));
        set("multipleOf", self.multiple_of.map(number));
        set("minLength", self.min_length.map(Value::from));
        set("maxLength", self.max_length.map(Value::from));
        set("minItems", self.min_items.map(Value::from));
        set("maxItems", self.max_items.map(Value::from));
        set("uniqueItems", flag(self.unique_items));
        set("minProperties", self.min_properties.map(Value::from));
        set("maxProperties", self.max_properties.map(Value::from));
        for (key, branches) in [("allOf", &self.all_of), ("anyOf", &self.any_of), ("oneOf", &self.one_of)] {
            let printed: Vec<Value> = branches.iter().map(Schema::to_openapi).collect();
            set(key, (!printed.is_empty()).then_some(Value::Array(printed)));
        }
        set("not", self.not.as_ref().map(|not| not.to_openapi()));
    }

    fn extensions(&self, out: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| {
            out.insert(format!("x-kubernetes-{key}"), value);
        };
        if self.value_type == Type::IntOrString {
            set("int-or-string", true.into());
        }
        if self.preserve_unknown_fields {
            set("preserve-unknown-fields", true.into());
        }
        if self.embedded_resource {
            set("embedded-resource", true.into());
        }
        if self.atomic_map {
            set("map-type", "atomic".into());
        }
        match &self.list_type {
            ListType::Map(keys) => {
                set("list-type", "map".into());
                set("list-map-keys", json!(keys));
            }
            ListType::Set => set("list-type", "set".into()),
            ListType::Atomic if self.list_type_given => set("list-type", "atomic".into()),
            ListType::Atomic => {}
        }
        if let Some(patch) = &self.patch {
            let strategy: Vec<&str> = [(patch.retain_keys, "retainKeys"), (patch.merge, "merge")]
                .into_iter()
                .filter_map(|(on, name)| on.then_some(name))
                .collect();
            if !strategy.is_empty() {
                set("patch-strategy", strategy.join(",").into());
            }
            if let Some(key) = &patch.merge_key {
                set("patch-merge-key", key.as_str().into());
            }
        }
        if !self.rules.is_empty() {
            set("validations", self.rules.iter().map(Rule::to_openapi).collect());
        }
    }
}

impl Rule {
    fn to_openapi(&self) -> Value {
        let mut out = Map::from_iter([("rule".to_owned(), Value::from(self.rule.as_str()))]);
        let texts = [
            ("message", &self.message),
            ("messageExpression", &self.message_expression),
            ("reason", &self.reason),
            ("fieldPath", &self.field_path),
        ];
        for (key, value) in texts {
            if let Some(value) = value {
                out.insert(key.to_owned(), value.as_str().into());
            }
        }
        if self.optional_old_self {
            out.insert("optionalOldSelf".to_owned(), true.into());
        }
        Value::Object(out)
    }
}

/// A field: a named type by reference, with what the field itself adds to it.
fn reference(schema: &Arc<Schema>) -> Value {
    let Some(name) = &schema.name else { return schema.to_openapi() };
    let target = json!({ "$ref": format!("{COMPONENTS}{name}") });
    let mut out = Map::new();
    schema.describe(&mut out);
    if out.is_empty() {
        return target;
    }
    out.insert("allOf".to_owned(), json!([target]));
    Value::Object(out)
}

/// Whole numbers without a fraction, as they were written.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
    let whole = value as i64;
    if value.fract() == 0.0 && value.abs() < 1e15 { whole.into() } else { value.into() }
}
