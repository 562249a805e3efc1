//! Reads built-in objects that arrive as protobuf, into the same JSON that everything else works with.
//!
//! Go clients send built-in types this way unless told otherwise (`kubectl create` does, since 1.32), and expect
//! custom resources to be refused. Only reading is here: an answer in JSON is one they all take.
//!
//! The numbers of the fields are facts in `messages.txt`, read once.

mod message;
mod wire;

use serde_json::Value;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin as Kubernetes' protobuf does.
    #[error("the body is not a Kubernetes object in protobuf")]
    Foreign,
    /// The bytes end or bend in the wrong place.
    #[error("the body is damaged protobuf: {0}")]
    Damaged(&'static str),
    /// We know no numbers for this kind.
    #[error("{0} is not read from protobuf")]
    Unknown(String),
}

/// What a Kubernetes protobuf body begins with.
const MAGIC: [u8; 4] = *b"k8s\0";

/// The object in the body, with `apiVersion` and `kind`.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = body.strip_prefix(&MAGIC).ok_or(Error::Foreign)?;
    let mut api_version = "";
    let mut kind = "";
    let mut object: &[u8] = &[];
    for field in wire::fields(envelope) {
        match field? {
            (1, wire::Data::Bytes(type_meta)) => {
                for field in wire::fields(type_meta) {
                    match field? {
                        (1, wire::Data::Bytes(bytes)) => api_version = wire::text(bytes)?,
                        (2, wire::Data::Bytes(bytes)) => kind = wire::text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, wire::Data::Bytes(bytes)) => object = bytes,
            _ => {}
        }
    }
    let mut decoded = message::decode(api_version, kind, object)?;
    decoded.insert("apiVersion".into(), api_version.into());
    decoded.insert("kind".into(), kind.into());
    Ok(Value::Object(decoded))
}
