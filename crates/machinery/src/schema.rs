//! Structural schemas: the one description of a kind.
//!
//! A [`Schema`] feeds validation, pruning and defaulting, tells the two merge engines (strategic
//! merge patch and server-side apply) how lists and maps behave, and is printed as `OpenAPI`.
//! Built-in kinds and custom resources use the same type.
//!
//! | step | function | what it does |
//! |---|---|---|
//! | read | [`Schema::from_json_schema`] | refuses what is not structural, with Kubernetes' causes |
//! | prune | [`prune`] | drops what the schema does not name and says what it dropped |
//! | default | [`default`] | fills in defaults |
//! | validate | [`judge`] | types, bounds, list keys, embedded objects, [`rules`] |
//! | print | [`Schema::to_openapi`] | OpenAPI v3 |

mod defaulting;
mod embedded;
mod formats;
mod judge;
mod lists;
mod openapi;
mod parse;
mod pruning;
pub mod rules;
mod structural;
mod validation;

pub use defaulting::{default, drop_nulls};
pub use embedded::validate_embedded;
pub use judge::{judge, judge_status};
pub use lists::validate_lists;
pub use pruning::{prune, prune_value};
pub use validation::{validate, validate_at, validate_update};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// What JSON type a value must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// Anything goes (no `type` in the schema).
    #[default]
    Any,
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
}

/// How a list merges (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole, owned as a whole.
    #[default]
    Atomic,
    /// Items are scalars and owned one by one.
    Set,
    /// Items are objects identified by these keys and owned field by field.
    Map(Vec<String>),
}

/// How a strategic merge patch treats this field (`x-kubernetes-patch-strategy`). Built-in kinds only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists merge item by item instead of being replaced.
    pub merge: bool,
    /// `$retainKeys` semantics: keys the patch does not list are dropped.
    pub retain_keys: bool,
    /// The key that identifies list items; `None` for lists of scalars.
    pub merge_key: Option<String>,
}

/// One CEL rule (`x-kubernetes-validations`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The expression, over `self` and perhaps `oldSelf`.
    pub rule: String,
    /// What to say when it is false.
    pub message: Option<String>,
    /// An expression that makes the message.
    pub message_expression: Option<String>,
    /// `FieldValueInvalid` and friends.
    pub reason: Option<String>,
    /// A path relative to this schema, reported instead of it.
    pub field_path: Option<String>,
    /// Evaluate transition rules on creation too, with `oldSelf` optional.
    pub optional_old_self: bool,
}

/// What an object may hold beside its named properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Additional {
    /// Every other key, with values of this schema.
    Schema(Arc<Schema>),
    /// `additionalProperties: true`.
    Anything,
}

/// A structural schema node. Nodes are shared (`Arc`): built-in types such as `PodSpec` occur in
/// several kinds.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema language")]
pub struct Schema {
    /// The name of a shared built-in type (`io.k8s.api.core.v1.Container`), printed as a `$ref`.
    pub name: Option<String>,
    /// This node only names a built-in type that contains itself (`JSONSchemaProps`); use [`Schema::resolve`].
    pub reference: bool,
    /// What the field is for; `kubectl explain` shows it.
    pub description: Option<String>,
    /// The JSON type.
    pub value_type: Type,
    /// Whether `null` is a value of its own rather than absence.
    pub nullable: bool,
    /// The value used when the field is absent.
    pub default: Option<Value>,
    /// A zero value (`""`, `0`, `false`, `[]`, `{}`) is the same as absence. Built-in kinds only.
    pub omit_empty: bool,
    /// Named fields of an object.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// Fields of an object beside the named ones.
    pub additional: Option<Additional>,
    /// Fields that must be present.
    pub required: Vec<String>,
    /// The schema of list items.
    pub items: Option<Arc<Schema>>,
    /// Keep what the schema does not name.
    pub preserve_unknown_fields: bool,
    /// The value is a whole object with apiVersion, kind and metadata.
    pub embedded_resource: bool,
    /// How a list merges.
    pub list_type: ListType,
    /// `x-kubernetes-list-type` was given, even if as `atomic`; kept for printing.
    pub list_type_given: bool,
    /// The object is replaced and owned as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic_map: bool,
    /// Strategic merge patch behaviour; `None` for custom resources.
    pub patch: Option<PatchStrategy>,
    /// CEL rules on this node.
    pub rules: Vec<Rule>,
    /// Allowed values.
    pub enumeration: Vec<Value>,
    /// `int32`, `date-time`, `byte`, …
    pub format: Option<String>,
    /// Regular expression that strings must match.
    pub pattern: Option<String>,
    /// Smallest number allowed.
    pub minimum: Option<f64>,
    /// Largest number allowed.
    pub maximum: Option<f64>,
    /// The minimum itself is not allowed.
    pub exclusive_minimum: bool,
    /// The maximum itself is not allowed.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// Shortest string, in characters.
    pub min_length: Option<u64>,
    /// Longest string, in characters.
    pub max_length: Option<u64>,
    /// Fewest items.
    pub min_items: Option<u64>,
    /// Most items.
    pub max_items: Option<u64>,
    /// No two items may be equal (only valid as false in structural schemas, kept for printing).
    pub unique_items: bool,
    /// Fewest keys.
    pub min_properties: Option<u64>,
    /// Most keys.
    pub max_properties: Option<u64>,
    /// Every one must hold; value validation only.
    pub all_of: Vec<Schema>,
    /// At least one must hold; value validation only.
    pub any_of: Vec<Schema>,
    /// Exactly one must hold; value validation only.
    pub one_of: Vec<Schema>,
    /// Must not hold; value validation only.
    pub not: Option<Box<Schema>>,
}

impl Schema {
    /// The schema itself, or the built-in type it refers to.
    pub fn resolve(&self) -> &Schema {
        if self.reference
            && let Some(name) = &self.name
            && let Some(target) = crate::builtin::recursive_type(name)
        {
            return target;
        }
        self
    }

    /// The schema of a field of this object.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        let schema = self.resolve();
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) | (None, Some(Additional::Schema(property))) => Some(property.resolve()),
            _ => None,
        }
    }
}
