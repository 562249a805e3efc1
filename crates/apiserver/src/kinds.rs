//! The table of kinds. A kind is a row: everything the router needs to serve it. Built-in rows are
//! written in [`builtin`]; custom resource definitions add rows at run time.

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::meta::NameRule;
use machinery::schema::Schema;
use machinery::schema::rules::Rules;
use machinery::table::Column;
use parking_lot::RwLock;
use serde_json::Value;

use crate::hooks::Hooks;
use crate::request::{Target, Verb};

mod builtin;
pub mod columns;
mod convert;

pub use convert::Conversion;

/// One served group/version/kind.
#[derive(Clone)]
pub struct Kind {
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// `Pod`
    pub kind: String,
    /// `PodList`
    pub list_kind: String,
    /// `pods`
    pub plural: String,
    /// `pod`
    pub singular: String,
    /// `po`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// What clients may do.
    pub verbs: Vec<Verb>,
    /// What lies below an object.
    pub subresources: Vec<Subresource>,
    /// Where objects are kept; `None` for kinds that are only asked (reviews).
    pub storage: Option<Storage>,
    /// The description of the fields.
    pub schema: Option<Arc<Schema>>,
    /// Validation rules of a custom resource.
    pub rules: Option<Arc<Rules>>,
    /// What names must look like.
    pub name_rule: NameRule,
    /// How `kubectl get` prints it.
    pub printer: Printer,
    /// Field selectors beside `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<String>,
    /// Paths of the scale subresource.
    pub scale: Option<Scale>,
    /// How writes treat the object.
    pub writing: Writing,
    /// Code that belongs to this kind alone.
    pub hooks: &'static dyn Hooks,
    /// Whether a CustomResourceDefinition made this row.
    pub custom: bool,
    /// Changes when the schema or names of a custom kind do.
    pub fingerprint: String,
    /// A newer version to use, said in a Warning header.
    pub deprecation: Option<String>,
}

/// Where and how a kind is stored.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The store's name of the resource: `group/plural`.
    pub resource: Arc<str>,
    /// The apiVersion objects are stored with.
    pub api_version: String,
    /// How stored objects become this version's.
    pub conversion: Conversion,
}

/// Something below an object.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`
    pub name: String,
    /// Group of the body's kind.
    pub group: String,
    /// Version of the body's kind.
    pub version: String,
    /// Kind of the body.
    pub kind: String,
    /// What clients may do.
    pub verbs: Vec<Verb>,
}

/// How a kind is written.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a row")]
pub struct Writing {
    /// `status` is written through its subresource only.
    pub status: bool,
    /// New objects may bring their status.
    pub status_on_create: bool,
    /// Status writes may also change labels and annotations.
    pub status_metadata: bool,
    /// `metadata.generation` counts changes of the specification.
    pub generation: bool,
    /// PUT must carry a resourceVersion.
    pub strict_update: bool,
    /// PUT of an absent object creates it.
    pub create_on_update: bool,
    /// DELETE answers with the object instead of a Status.
    pub returns_deleted: bool,
}

/// How `kubectl get` prints a kind.
#[derive(Clone)]
pub enum Printer {
    /// JSONPath columns (custom resources).
    Paths(Vec<Column>),
    /// Code for a built-in kind: column definitions and one row's cells.
    Code(&'static columns::Columns),
}

/// JSON paths of a scale subresource.
#[derive(Clone, Debug)]
pub struct Scale {
    /// `.spec.replicas`
    pub spec_replicas: Vec<String>,
    /// `.status.replicas`
    pub status_replicas: Vec<String>,
    /// `.status.selector` (a string), if the kind has one.
    pub selector: Option<Vec<String>>,
}

impl Kind {
    /// `apps/v1`, or `v1` for core.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// A row's subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether the bytes in the store are already what this row's clients read.
    pub fn reads_stored_bytes(&self) -> bool {
        self.storage.as_ref().is_some_and(|storage| storage.conversion == Conversion::Same)
    }

    /// Turns a stored object into this version's.
    pub fn from_stored(&self, object: &mut Value) {
        if let Some(storage) = &self.storage {
            storage.conversion.read(&self.api_version(), object);
        }
    }

    /// Turns this version's object into the stored form.
    pub fn to_stored(&self, object: &mut Value) {
        if let Some(storage) = &self.storage {
            storage.conversion.write(&storage.api_version, object);
        }
    }
}

/// `apps/v1`, or `v1` for core.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Rows by group, version and plural; one immutable snapshot.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<(String, String, String), Arc<Kind>>,
    /// Counts snapshots, so that documents made from the table know when they are stale.
    pub edition: u64,
}

impl Table {
    /// The row a request is about.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.rows.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Every row, ordered by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.rows.values()
    }

    /// Whether a path names something that is served.
    pub fn serves(&self, target: &Target) -> bool {
        let below = |row: &Arc<Kind>| target.subresource.is_empty() || row.subresource(&target.subresource).is_some();
        self.of(target).is_some_and(below)
    }

    /// The row a request is about, by its path.
    pub fn of(&self, target: &Target) -> Option<&Arc<Kind>> {
        self.find(&target.group, &target.version, &target.resource)
    }
}

/// The live table: readers take a snapshot, definitions replace it.
pub struct Kinds {
    current: RwLock<Arc<Table>>,
}

impl Kinds {
    /// The built-in rows.
    pub fn builtin() -> Self {
        let rows = builtin::rows().into_iter().map(keyed).collect();
        Self { current: RwLock::new(Arc::new(Table { rows, edition: 1 })) }
    }

    /// The table as it is now.
    pub fn table(&self) -> Arc<Table> {
        self.current.read().clone()
    }

    /// Replaces all custom rows of one resource (no rows: removes it).
    pub fn replace_custom(&self, group: &str, plural: &str, rows: Vec<Kind>) {
        let mut current = self.current.write();
        let mut next = current.rows.clone();
        next.retain(|(row_group, _, row_plural), row| !(row.custom && row_group == group && row_plural == plural));
        next.extend(rows.into_iter().map(keyed));
        *current = Arc::new(Table { rows: next, edition: current.edition + 1 });
    }
}

fn keyed(kind: Kind) -> ((String, String, String), Arc<Kind>) {
    ((kind.group.clone(), kind.version.clone(), kind.plural.clone()), Arc::new(kind))
}
