//! The wire format: numbered fields, one after the other.

use super::Error;

/// What a field holds, as far as the wire tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'a> {
    /// An integer or a truth value.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// Four bytes, which no field of ours has.
    Fixed32,
}

/// The fields of a message, in order. Ends after the first error.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<(u64, Data<'_>), Error>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let mut bytes = rest.take()?;
        if bytes.is_empty() {
            return None;
        }
        let field = field(&mut bytes);
        rest = field.is_ok().then_some(bytes);
        Some(field)
    })
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<(u64, Data<'a>), Error> {
    let tag = varint(rest)?;
    let data = match tag & 7 {
        0 => Data::Varint(varint(rest)?),
        1 => Data::Fixed64(u64::from_le_bytes(take(rest, 8)?.try_into().expect("eight bytes"))),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| Error::Damaged("a length is too large"))?;
            Data::Bytes(take(rest, length)?)
        }
        5 => {
            take(rest, 4)?;
            Data::Fixed32
        }
        _ => return Err(Error::Damaged("a field has an unknown wire type")),
    };
    Ok((tag >> 3, data))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let (taken, left) = rest.split_at_checked(length).ok_or(Error::Damaged("it ends too early"))?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::Damaged("a number is too long"))
}

/// A string.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::Damaged("a string is not UTF-8"))
}
