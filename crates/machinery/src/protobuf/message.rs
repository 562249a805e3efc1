//! Messages by the table of their fields.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::Error;
use super::wire::{self, Data};

/// Messages nest no deeper than this in any type we know.
const DEPTH: usize = 32;

static MESSAGES: LazyLock<HashMap<&str, Message>> =
    LazyLock::new(|| include_str!("messages.txt").lines().filter(|line| !line.starts_with('#')).map(message).collect());

/// Fields by number.
type Message = HashMap<u64, Field>;

struct Field {
    /// The JSON name; `-` when its fields are those of the message around it.
    name: &'static str,
    shape: Shape,
    kind: Kind,
    /// Whether zero and the empty string mean something.
    keeps_zero: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

#[derive(Clone, Copy)]
enum Kind {
    String,
    Bool,
    Int,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Json,
    Strings,
    Message(&'static str),
}

fn message(line: &'static str) -> (&'static str, Message) {
    let mut words = line.split(' ');
    let name = words.next().expect("a line of the table has a name");
    (name, words.map(|word| field(word).expect("a field of the table is NUMBER=NAME:TYPE")).collect())
}

fn field(word: &'static str) -> Option<(u64, Field)> {
    let (number, rest) = word.split_once('=')?;
    let (name, kind) = rest.split_once(':')?;
    let (kind, keeps_zero) = kind.strip_suffix('!').map_or((kind, false), |kind| (kind, true));
    let (shape, kind) = if let Some(kind) = kind.strip_prefix("[]") {
        (Shape::List, kind)
    } else if let Some(kind) = kind.strip_prefix("{}") {
        (Shape::Map, kind)
    } else {
        (Shape::One, kind)
    };
    let kind = match kind {
        "string" => Kind::String,
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "time" => Kind::Time,
        "microtime" => Kind::MicroTime,
        "quantity" => Kind::Quantity,
        "int-or-string" => Kind::IntOrString,
        "json" => Kind::Json,
        "strings" => Kind::Strings,
        message => Kind::Message(message),
    };
    Some((number.parse().ok()?, Field { name, shape, kind, keeps_zero }))
}

/// Decodes the object of a kind.
pub(super) fn decode(api_version: &str, kind: &str, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    // Options of a delete come under the version of whatever is deleted.
    let name = if kind == "DeleteOptions" { "meta.DeleteOptions".to_owned() } else { format!("{api_version}.{kind}") };
    let (name, _) =
        MESSAGES.get_key_value(name.as_str()).ok_or_else(|| Error::Unknown(format!("{api_version} {kind}")))?;
    let mut object = Map::new();
    read(name, bytes, &mut object, DEPTH)?;
    Ok(object)
}

fn read(name: &str, bytes: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), Error> {
    let message = MESSAGES.get(name).expect("the table names only messages it has");
    let depth = depth.checked_sub(1).ok_or(Error::Damaged("it nests too deep"))?;
    for part in wire::fields(bytes) {
        let (number, data) = part?;
        // Fields of a later release are passed over, as protobuf means it.
        let Some(field) = message.get(&number) else { continue };
        if let (true, Kind::Message(inner), Data::Bytes(bytes)) = (field.name == "-", field.kind, data) {
            read(inner, bytes, object, depth)?;
            continue;
        }
        match field.shape {
            Shape::One => {
                let value = value(field.kind, data, depth)?;
                if field.keeps_zero || !is_zero(&value) {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Shape::List => {
                let value = value(field.kind, data, depth)?;
                let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut().expect("a field has one shape").push(value);
            }
            Shape::Map => {
                let (key, value) = entry(field.kind, data, depth)?;
                let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                map.as_object_mut().expect("a field has one shape").insert(key, value);
            }
        }
    }
    Ok(())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// An entry of a map: a message with a key and a value, either left out when empty.
fn entry(kind: Kind, data: Data<'_>, depth: usize) -> Result<(String, Value), Error> {
    let mut key = String::new();
    let mut content = None;
    for part in wire::fields(bytes(data)?) {
        match part? {
            (1, Data::Bytes(bytes)) => wire::text(bytes)?.clone_into(&mut key),
            (2, data) => content = Some(value(kind, data, depth)?),
            _ => {}
        }
    }
    let content = match content {
        Some(content) => content,
        None => value(kind, Data::Bytes(&[]), depth)?,
    };
    Ok((key, content))
}

fn bytes(data: Data<'_>) -> Result<&[u8], Error> {
    if let Data::Bytes(bytes) = data { Ok(bytes) } else { Err(Error::Damaged("a field has the wrong wire type")) }
}

fn value(kind: Kind, data: Data<'_>, depth: usize) -> Result<Value, Error> {
    Ok(match kind {
        Kind::String => wire::text(bytes(data)?)?.into(),
        Kind::Bool => Value::Bool(integer(data)? != 0),
        Kind::Int => integer(data)?.into(),
        Kind::Double => match data {
            Data::Fixed64(bits) => Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number),
            _ => return Err(Error::Damaged("a field has the wrong wire type")),
        },
        Kind::Bytes => BASE64_STANDARD.encode(bytes(data)?).into(),
        Kind::Time => time(bytes(data)?, false)?,
        Kind::MicroTime => time(bytes(data)?, true)?,
        Kind::Quantity => first(bytes(data)?)?.map_or(Ok("0"), wire::text)?.into(),
        Kind::IntOrString => int_or_string(bytes(data)?)?,
        Kind::Json => match first(bytes(data)?)? {
            Some(raw) => serde_json::from_slice(raw).map_err(|_| Error::Damaged("embedded JSON is not JSON"))?,
            None => Value::Null,
        },
        Kind::Strings => {
            let mut items = Vec::new();
            for part in wire::fields(bytes(data)?) {
                if let (1, Data::Bytes(item)) = part? {
                    items.push(wire::text(item)?.into());
                }
            }
            Value::Array(items)
        }
        Kind::Message(name) => {
            let mut object = Map::new();
            read(name, bytes(data)?, &mut object, depth)?;
            Value::Object(object)
        }
    })
}

fn integer(data: Data<'_>) -> Result<i64, Error> {
    if let Data::Varint(value) = data {
        Ok(value.cast_signed())
    } else {
        Err(Error::Damaged("a field has the wrong wire type"))
    }
}

/// The one field of a message that only wraps it.
fn first(bytes: &[u8]) -> Result<Option<&[u8]>, Error> {
    for part in wire::fields(bytes) {
        if let (1, Data::Bytes(inner)) = part? {
            return Ok(Some(inner));
        }
    }
    Ok(None)
}

/// `null` when it is not set.
fn time(bytes: &[u8], micros: bool) -> Result<Value, Error> {
    let (mut seconds, mut nanos) = (0, 0);
    for part in wire::fields(bytes) {
        match part? {
            (1, data) => seconds = integer(data)?,
            (2, data) => nanos = integer(data)?,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| Error::Damaged("a time is out of range"))?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| Error::Damaged("a time is out of range"))?;
    Ok(if micros { format!("{time:.6}") } else { format!("{time:.0}") }.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Error> {
    let (mut is_string, mut number, mut text) = (false, 0, "");
    for part in wire::fields(bytes) {
        match part? {
            (1, data) => is_string = integer(data)? == 1,
            (2, data) => number = integer(data)?,
            (3, Data::Bytes(bytes)) => text = wire::text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_string { text.into() } else { number.into() })
}
