//! How a value merges: what the schema says about a place in an object.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::path::{Element, Scalar};
use crate::builtin;
use crate::schema::{Additional, ListType, Schema, Type};

/// A place in an object, seen through the schema.
///
/// Where the schema says nothing, objects merge member by member and lists are owned as a whole.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    schema: Option<&'a Schema>,
    /// Unknown fields are kept here and everywhere below.
    preserve: bool,
    /// A whole object: its metadata is the metadata of every object, whatever the schema says.
    whole: bool,
}

/// What a value at a [`Node`] is to the merge.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    /// Owned and replaced as a whole: scalars, atomic lists, atomic maps.
    Leaf,
    /// A list whose items are owned one by one.
    List(List<'a>),
    /// An object whose members are owned one by one.
    Map(Node<'a>),
}

impl Shape<'_> {
    pub(super) fn is_like(&self, other: &Shape<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// A list whose items are owned one by one.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    /// `None` for a set of scalars.
    keys: Option<&'a [String]>,
    pub(super) items: Node<'a>,
}

impl<'a> Node<'a> {
    /// The root of an object.
    pub(super) fn root(schema: &'a Schema) -> Self {
        Self { whole: true, ..Self::of(schema, false) }
    }

    fn of(schema: &'a Schema, preserve: bool) -> Self {
        let schema = schema.resolve();
        Self {
            schema: Some(schema),
            preserve: preserve || schema.preserve_unknown_fields,
            whole: schema.embedded_resource,
        }
    }

    fn unknown() -> Self {
        Self { schema: None, preserve: true, whole: false }
    }

    pub(super) fn shape(self, value: &Value) -> Shape<'a> {
        let Some(schema) = self.schema else {
            return if value.is_object() || value.is_null() { Shape::Map(self) } else { Shape::Leaf };
        };
        match (schema.value_type, value) {
            (Type::Object, _) | (Type::Any, Value::Object(_) | Value::Null) if !schema.atomic_map => Shape::Map(self),
            (Type::Array, _) | (Type::Any, Value::Array(_)) => self.list_shape(schema),
            _ => Shape::Leaf,
        }
    }

    fn list_shape(self, schema: &'a Schema) -> Shape<'a> {
        let keys = match &schema.list_type {
            ListType::Atomic => return Shape::Leaf,
            ListType::Set => None,
            ListType::Map(keys) => Some(keys.as_slice()),
        };
        Shape::List(List { keys, items: self.items() })
    }

    /// The place of the items of a list.
    pub(super) fn items(self) -> Self {
        let items = self.schema.and_then(|schema| schema.items.as_deref());
        items.map_or_else(Self::unknown, |items| Self::of(items, self.preserve))
    }

    /// The place of a member. `None` when the schema does not allow it.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        if let Some(found) = self.whole_member(name) {
            return Some(found);
        }
        let Some(schema) = self.schema else {
            return Some(Self::unknown());
        };
        if let Some(property) = schema.properties.get(name) {
            return Some(Self::of(property, self.preserve));
        }
        match &schema.additional {
            Some(Additional::Schema(values)) => Some(Self::of(values, self.preserve)),
            Some(Additional::Anything) => Some(Self::unknown()),
            None if self.preserve || schema.properties.is_empty() => Some(Self::unknown()),
            None => None,
        }
    }

    fn whole_member(self, name: &str) -> Option<Self> {
        if !self.whole {
            return None;
        }
        let described = self.schema.and_then(|schema| schema.properties.get(name));
        match name {
            "apiVersion" | "kind" if described.is_none() => Some(Self::of(&TEXT, false)),
            "metadata" if described.is_none_or(|metadata| metadata.properties.is_empty()) => {
                Some(Self::of(&OBJECT_META, false))
            }
            _ => None,
        }
    }

    /// Whether the schema has this member by name, as a struct has a field.
    pub(super) fn has_named(self, name: &str) -> bool {
        self.schema.is_some_and(|schema| schema.properties.contains_key(name)) || self.whole_member(name).is_some()
    }

    /// [`Self::has_named`] for a path element.
    pub(super) fn names(self, element: &Element) -> bool {
        element.name().is_some_and(|name| self.has_named(name))
    }

    /// The place one path element further.
    pub(super) fn below(self, element: &Element) -> Self {
        match element {
            Element::Field(name) => self.member(name).unwrap_or_else(Self::unknown),
            _ => self.items(),
        }
    }

    /// Whether the schema says nothing of what is here, so that it cannot have changed.
    pub(super) fn is_unknown(self) -> bool {
        self.schema.is_none()
    }

    pub(super) fn value_type(self) -> Type {
        self.schema.map_or(Type::Any, |schema| schema.value_type)
    }

    /// Strings with a format may come as other scalars; Kubernetes does not look inside them either.
    pub(super) fn has_format(self) -> bool {
        self.schema.is_some_and(|schema| schema.format.as_deref().is_some_and(|format| format != "byte"))
    }

    fn default_of(self, name: &str) -> Option<&'a Value> {
        self.schema?.properties.get(name)?.default.as_ref()
    }
}

impl List<'_> {
    /// What identifies an item.
    pub(super) fn element(&self, item: &Value) -> Result<Element, String> {
        let Some(keys) = self.keys else {
            return match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(Element::Value(Scalar(scalar.clone()))),
            };
        };
        let Value::Object(members) = item else {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let mut found: Vec<(String, Scalar)> = keys
            .iter()
            .filter_map(|key| {
                let value = members.get(key).or_else(|| self.items.default_of(key))?;
                Some((key.clone(), Scalar(value.clone())))
            })
            .collect();
        if found.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default values for any key fields)"
            ));
        }
        found.sort();
        Ok(Element::Key(found))
    }
}

static TEXT: LazyLock<Schema> = LazyLock::new(|| Schema { value_type: Type::String, ..Schema::default() });

/// The metadata of every object, for kinds whose schema leaves it out (custom resources).
static OBJECT_META: LazyLock<Arc<Schema>> = LazyLock::new(builtin::object_meta);
