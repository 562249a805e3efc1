//! What the client wants to read: the object, a table, or its metadata only.

use http::HeaderMap;
use http::header::ACCEPT;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::kinds::{Kind, Printer};
use crate::request::Query;

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object itself.
    Object,
    /// `as=Table`
    Table,
    /// `as=PartialObjectMetadata` or `…List`
    Metadata,
}

/// How much of the object a table row carries (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata, the default.
    Metadata,
    /// All of it.
    Object,
}

/// What the client accepts, decided.
#[derive(Clone, Copy, Debug)]
pub struct Accept {
    /// The shape.
    pub form: Form,
    /// `v1`, or `v1beta1` for older clients.
    pub version: &'static str,
    /// What table rows carry.
    pub include: Include,
    /// Indented for people.
    pub pretty: bool,
}

impl Accept {
    /// Takes the first clause of the `Accept` header that we can serve.
    pub fn read(headers: &HeaderMap, query: &Query) -> Result<Self, Status> {
        let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        let include = match query.get("includeObject") {
            None | Some("" | "Metadata") => Include::Metadata,
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            Some(other) => {
                return Err(Status::bad_request(format!(
                    "invalid query parameter includeObject={other:?}: must be None, Metadata or Object"
                )));
            }
        };
        let header = if header.trim().is_empty() { "*/*" } else { header };
        let (form, version) = header.split(',').find_map(clause).ok_or_else(|| {
            Status::new(
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json, application/json;stream=watch, \
                 application/json;as=Table;g=meta.k8s.io;v=v1, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            )
        })?;
        Ok(Self { form, version, include, pretty: query.pretty })
    }

    /// `meta.k8s.io/v1`
    pub fn meta_version(&self) -> String {
        format!("meta.k8s.io/{}", self.version)
    }

    /// One object in the wanted shape. `headers` says whether a table repeats its column definitions.
    pub fn shape(&self, kind: &Kind, object: Value, headers: bool) -> Value {
        match self.form {
            Form::Object => object,
            Form::Metadata => self.partial(&object),
            Form::Table => {
                let resource_version = object["metadata"]["resourceVersion"].clone();
                let row = self.row(kind, &object);
                self.table(kind, &[row], &json!({ "resourceVersion": resource_version }), headers)
            }
        }
    }

    /// A table around rows.
    pub fn table(&self, kind: &Kind, rows: &[Value], metadata: &Value, headers: bool) -> Value {
        let columns = if headers { definitions(&kind.printer) } else { Value::Null };
        json!({
            "kind": "Table",
            "apiVersion": self.meta_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    /// One table row.
    pub fn row(&self, kind: &Kind, object: &Value) -> Value {
        let now = jiff::Timestamp::now();
        let cells = match &kind.printer {
            Printer::Code(columns) => (columns.cells)(object, now),
            Printer::Paths(columns) => {
                let name = object["metadata"]["name"].clone();
                std::iter::once(name).chain(columns.iter().map(|column| column.cell(object, now))).collect()
            }
        };
        match self.include {
            Include::None => json!({ "cells": cells, "object": null }),
            Include::Metadata => json!({ "cells": cells, "object": self.partial(object) }),
            Include::Object => json!({ "cells": cells, "object": object }),
        }
    }

    /// The metadata of a stored object alone, copied as it stands: nothing of the object is taken apart.
    pub fn stored_partial(&self, object: &[u8]) -> Vec<u8> {
        #[derive(serde::Deserialize)]
        struct Stored<'a> {
            #[serde(borrow)]
            metadata: &'a serde_json::value::RawValue,
        }
        let stored: Stored = serde_json::from_slice(object).expect("the store holds the JSON we wrote");
        let (version, metadata) = (self.meta_version(), stored.metadata.get());
        format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{version}","metadata":{metadata}}}"#).into_bytes()
    }

    /// The metadata of an object alone.
    pub fn partial(&self, object: &Value) -> Value {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": self.meta_version(),
            "metadata": object["metadata"],
        })
    }
}

fn definitions(printer: &Printer) -> Value {
    match printer {
        Printer::Code(columns) => columns
            .definitions
            .iter()
            .map(|column| {
                let format = if column.0 == "Name" { "name" } else { "" };
                json!({
                    "name": column.0, "type": column.1, "format": format,
                    "priority": column.2, "description": column.3,
                })
            })
            .collect(),
        Printer::Paths(columns) => {
            let name = json!({
                "name": "Name", "type": "string", "format": "name", "priority": 0,
                "description": "Name of the object, unique in its namespace.",
            });
            std::iter::once(name).chain(columns.iter().map(machinery::table::Column::definition)).collect()
        }
    }
}

/// The shape one clause asks for, when we can serve it.
fn clause(clause: &str) -> Option<(Form, &'static str)> {
    let mut parts = clause.split(';').map(str::trim);
    let media_type = parts.next()?;
    if !matches!(media_type, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut form, mut group, mut version, mut other) = (None, None, None, false);
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => form = Some(value),
            Some(("g", value)) => group = Some(value),
            Some(("v", value)) => version = Some(value),
            Some(("q" | "stream" | "charset" | "profile" | "pretty", _)) | None => {}
            Some(_) => other = true,
        }
    }
    if other {
        return None;
    }
    match (form, group) {
        (None, _) => Some((Form::Object, "v1")),
        (Some(form), Some("meta.k8s.io")) => {
            let version = match version? {
                "v1" => "v1",
                "v1beta1" => "v1beta1",
                _ => return None,
            };
            match form {
                "Table" => Some((Form::Table, version)),
                "PartialObjectMetadata" | "PartialObjectMetadataList" => Some((Form::Metadata, version)),
                _ => None,
            }
        }
        _ => None,
    }
}
