//! Kubernetes semantics with no I/O.
//!
//! Everything here is a pure function over [`serde_json::Value`]: the API server, the controllers and
//! the fuzz targets share it. It owns the *meaning* of objects (names, selectors, schemas, patches,
//! server-side apply, tables) and refuses to know about sockets, clocks, storage or async.
//!
//! ```text
//!  request body ──▶ schema (prune, default, validate, rules) ──▶ object
//!                        ▲                                         │
//!  patch / apply ────────┘        selector, jsonpath, table ◀──────┘
//! ```

pub mod apply;
pub mod builtin;
pub mod crd;
pub mod field;
pub mod jsonpath;
pub mod meta;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
