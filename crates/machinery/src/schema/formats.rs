//! String formats and patterns.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock, RwLock};

use regex::Regex;

use super::{Schema, Type};

/// Formats that the API server checks on strings. Others are documentation only.
const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// The format of a schema, when it means anything for its type.
pub fn effective(schema: &Schema) -> Option<&str> {
    let format = schema.format.as_deref()?;
    let supported = match schema.value_type {
        Type::Any | Type::String | Type::IntOrString => is_known(format),
        Type::Integer => matches!(format, "int32" | "int64"),
        Type::Number => matches!(format, "float" | "double"),
        Type::Object | Type::Array | Type::Boolean => false,
    };
    supported.then_some(format)
}

/// Whether strings are checked against this format.
pub fn is_known(format: &str) -> bool {
    KNOWN.contains(&format.replace('-', "").as_str())
}

/// Whether `text` has the format. `format` must be a known one.
pub fn is_valid(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => matches_pattern("^[0-9a-fA-F]{24}$", text),
        "byte" => matches_pattern(
            "^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})$",
            text,
        ),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => matches_pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text),
        "hostname" => is_hostname(text),
        "ipv4" => is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => crate::meta::names::dns1123_subdomain(text).is_empty(),
        "k8sshortname" => text.len() <= 63 && matches_pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", text),
        "mac" => is_mac(text),
        "rgbcolor" => matches_pattern(
            r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
            text,
        ),
        "ssn" => matches_pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text),
        "uri" => is_request_uri(text),
        "uuid" => matches_pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$", text),
        "uuid3" => matches_pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$", text),
        "uuid4" => {
            matches_pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$", text)
        }
        "uuid5" => {
            matches_pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$", text)
        }
        _ => true,
    }
}

/// Whether `text` matches a regular expression. Expressions are compiled once and kept.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    compiled(pattern).is_some_and(|regex| regex.is_match(text))
}

/// Whether a regular expression can be compiled, and why not.
pub fn check_pattern(pattern: &str) -> Result<(), regex::Error> {
    // The same few expressions stand in many places of a schema.
    if compiled(pattern).is_some() { Ok(()) } else { Regex::new(pattern).map(|_| ()) }
}

/// Most expressions that are kept; schemas of a whole cluster use far fewer.
const MAX_COMPILED: usize = 4096;

fn compiled(pattern: &str) -> Option<Arc<Regex>> {
    static CACHE: LazyLock<RwLock<HashMap<String, Option<Arc<Regex>>>>> = LazyLock::new(RwLock::default);
    if let Ok(cache) = CACHE.read()
        && let Some(known) = cache.get(pattern)
    {
        return known.clone();
    }
    let regex = Regex::new(pattern).ok().map(Arc::new);
    if let Ok(mut cache) = CACHE.write() {
        if cache.len() >= MAX_COMPILED {
            cache.clear();
        }
        cache.insert(pattern.to_owned(), regex.clone());
    }
    regex
}

/// Leading zeros are tolerated, as the API server does for old objects.
fn is_ipv4(text: &str) -> bool {
    let octets: Vec<&str> = text.split('.').collect();
    octets.len() == 4
        && octets.iter().all(|octet| {
            !octet.is_empty()
                && octet.bytes().all(|byte| byte.is_ascii_digit())
                && octet.trim_start_matches('0').len() <= 3
                && octet.trim_start_matches('0').parse::<u16>().map_or(true, |number| number <= 255)
        })
        || text.contains('.') && text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (is_ipv4(address) && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
        || (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
}

fn is_mac(text: &str) -> bool {
    let group = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        parts.len() > 1
            && [6, 8, 20].contains(&(parts.len() * width / 2))
            && parts.iter().all(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    group(':', 2) || group('-', 2) || group('.', 4)
}

fn is_hostname(text: &str) -> bool {
    const PATTERN: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches_pattern(PATTERN, text)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    date.parse::<jiff::civil::Date>().is_ok()
        && matches_pattern(
            r"^(?i)([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$",
            time,
        )
}

/// Go durations (`1h30m`), and words (`3 days`).
fn is_duration(text: &str) -> bool {
    matches_pattern(
        r"^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$",
        text,
    ) || matches_pattern(
        r"(?i)\d+\s*((ns|us|µs|ms|s|m|h|d|w|hr|wk)([^A-Za-zµ]|$)|nano|micro|milli|sec|min|hour|day|week)",
        text,
    )
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(start), Some(rest)) => &rest[start + 1..],
        _ => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii())
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || local.split('.').all(atom)) && domain.split('.').all(atom)
}

/// An absolute URI or an absolute path, as a request line may carry.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    let percent_ok = text
        .match_indices('%')
        .all(|(at, _)| text.get(at + 1..at + 3).is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())));
    percent_ok && (text.starts_with('/') || matches_pattern("^[a-zA-Z][a-zA-Z0-9+.-]*:", text))
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if !matches_pattern("^(?:[0-9]{9}X|[0-9]{10})$", &bare) {
        return false;
    }
    let sum: u32 = (1..).zip(bare.chars()).map(|(weight, c)| weight * c.to_digit(10).unwrap_or(10)).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if !matches_pattern("^(?:[0-9]{13})$", &bare) {
        return false;
    }
    let sum: u32 =
        digits(&bare).iter().enumerate().map(|(index, digit)| if index % 2 == 0 { *digit } else { 3 * digit }).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    const PATTERN: &str = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14})$";
    let bare: String = text.chars().filter(char::is_ascii_digit).collect();
    let checksum: u32 = digits(&bare)
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            if index % 2 == 0 {
                *digit
            } else {
                let twice = digit * 2;
                twice / 10 + twice % 10
            }
        })
        .sum();
    matches_pattern(PATTERN, &bare) && checksum.is_multiple_of(10)
}
