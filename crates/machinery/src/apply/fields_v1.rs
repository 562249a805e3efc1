//! `FieldsV1`: sets of fields as they travel in `managedFields`.
//!
//! A tree of objects whose keys are path elements: `f:name` a member, `k:{"name":"app"}` an item of a
//! keyed list, `v:"x"` a member of a set, `i:0` an item by place, and `.` the node itself.

use serde_json::{Map, Value};

use super::path::{Element, Scalar};
use super::set::Set;

/// Why a `fieldsV1` could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A node is not an object.
    #[error("a node of fieldsV1 must be an object")]
    NoObject,
    /// A key is none of the known forms.
    #[error("{0:?} is no path element: it must begin with f:, k:, v: or i:")]
    Element(String),
}

/// Writes a set.
pub fn encode(set: &Set) -> Value {
    let mut keys: Vec<&Element> = set.members.iter().collect();
    keys.extend(set.children.keys().filter(|element| !set.members.contains(element)));
    keys.sort();
    let nodes = keys.into_iter().map(|element| {
        let mut node = set.children.get(element).map_or_else(|| Value::Object(Map::new()), encode);
        if let (Value::Object(below), true) = (&mut node, set.members.contains(element))
            && !below.is_empty()
        {
            below.insert(".".to_owned(), Value::Object(Map::new()));
        }
        (encode_element(element), node)
    });
    Value::Object(nodes.collect())
}

/// Reads a set. Elements of a kind that we do not know are dropped, as Kubernetes drops them.
pub fn decode(fields: &Value) -> Result<Set, Error> {
    let mut set = Set::default();
    for (key, value) in fields.as_object().ok_or(Error::NoObject)? {
        if key == "." {
            continue;
        }
        let Some(element) = decode_element(key)? else {
            continue;
        };
        let node = value.as_object().ok_or(Error::NoObject)?;
        let below = decode(value)?;
        if below.is_empty() || node.contains_key(".") {
            set.members.insert(element.clone());
        }
        set.attach(&element, below);
    }
    Ok(set)
}

fn encode_element(element: &Element) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Key(keys) => {
            let object: Map<String, Value> = keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
            format!("k:{}", Value::Object(object))
        }
        Element::Value(value) => format!("v:{}", value.0),
        Element::Index(index) => format!("i:{index}"),
    }
}

fn decode_element(key: &str) -> Result<Option<Element>, Error> {
    let refused = || Error::Element(key.to_owned());
    let (kind, text) = key.split_once(':').ok_or_else(refused)?;
    let element = match kind {
        "f" => Element::field(text),
        "v" => Element::Value(Scalar(serde_json::from_str(text).map_err(|_| refused())?)),
        "i" => Element::Index(text.parse().map_err(|_| refused())?),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(text).map_err(|_| refused())?;
            let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name, Scalar(value))).collect();
            keys.sort();
            Element::Key(keys)
        }
        one if one.chars().count() == 1 => return Ok(None),
        _ => return Err(refused()),
    };
    Ok(Some(element))
}
