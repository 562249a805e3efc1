//! Resource quantities: `500m`, `2`, `128Mi`, `1e3`.

use std::fmt;

use serde_json::Value;

/// Why a text is no quantity, in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a number with an optional suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// A suffix nobody knows.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number is missing or too large.
    #[error("unable to parse numeric part of quantity")]
    Number,
}

/// Which suffixes a quantity is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `12e6`
    Exponent,
    /// `12M`
    Decimal,
    /// `12Mi`
    Binary,
}

/// Billionths in one.
const NANO: i128 = 1_000_000_000;

/// An exact amount, in billionths; finer ones are rounded up.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, notation: Notation::Decimal };

    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::Format);
        }
        let Parts { negative, whole, fraction, suffix } = split(text)?;
        let (base, exponent, notation) = interpret(suffix).ok_or(Error::Suffix)?;
        let digits: i128 = format!("0{whole}{fraction}").parse().map_err(|_| Error::Number)?;
        let places = u32::try_from(fraction.len()).map_err(|_| Error::Number)?;
        // value = digits / 10^places * base^exponent, in billionths
        let mut numerator = digits.checked_mul(NANO).ok_or(Error::Number)?;
        let mut denominator = 10_i128.checked_pow(places).ok_or(Error::Number)?;
        let power = i128::from(base).checked_pow(exponent.unsigned_abs()).ok_or(Error::Number)?;
        if exponent >= 0 {
            numerator = numerator.checked_mul(power).ok_or(Error::Number)?;
        } else {
            denominator = denominator.checked_mul(power).ok_or(Error::Number)?;
        }
        let mut nanos = numerator / denominator + i128::from(numerator % denominator != 0);
        if notation == Notation::Binary {
            nanos = nanos.min(i128::from(i64::MAX) * NANO);
        }
        Ok(Self { nanos: if negative { -nanos } else { nanos }, notation })
    }

    /// Reads a JSON string or number.
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(Error::Format),
        }
    }

    /// The text that the API server would store for `text`: canonical, or as it was if it is good enough.
    pub fn canonical(text: &str) -> Result<String, Error> {
        let quantity = Self::parse(text)?;
        let Parts { whole, fraction, suffix, .. } = split(text)?;
        let (_, exponent, _) = interpret(suffix).ok_or(Error::Suffix)?;
        let digits = format!("{whole}{fraction}");
        let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let keeps = match quantity.notation {
            Notation::Binary => {
                fraction.is_empty() && exponent % 10 == 0 && whole.parse::<i64>().is_ok_and(|number| number & 7 != 0)
            }
            _ => {
                (exponent - places) % 3 == 0
                    && exponent - places >= -9
                    && !digits.ends_with("000")
                    && !digits.starts_with('0')
            }
        };
        Ok(if keeps && digits.len() < 18 { text.to_owned() } else { quantity.to_string() })
    }

    /// The amount in whole units, rounded up.
    pub fn value(&self) -> i64 {
        self.scaled(NANO)
    }

    /// The amount in thousandths, rounded up (`cpu`).
    pub fn milli_value(&self) -> i64 {
        self.scaled(NANO / 1000)
    }

    fn scaled(&self, unit: i128) -> i64 {
        let rounded = self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0);
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Rounded up to thousandths, as resource lists of Pods and Nodes are.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        const MILLI: i128 = NANO / 1000;
        let magnitude = self.nanos.abs();
        let rounded = (magnitude / MILLI + i128::from(magnitude % MILLI != 0)) * MILLI;
        Self { nanos: rounded * self.nanos.signum(), ..self }
    }
}

/// The sum, printed like the first unless that is zero.
impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self { nanos: self.nanos.saturating_add(other.nanos), notation }
    }
}

/// The difference, printed like the first unless that is zero.
impl std::ops::Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self { nanos: -other.nanos, ..other }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let large_and_whole = self.nanos.abs() >= 1024 * NANO && self.nanos % NANO == 0;
        if self.notation == Notation::Binary && large_and_whole {
            let (mut number, mut power) = (self.nanos / NANO, 0);
            while number % 1024 == 0 && power < 6 {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && (exponent < 18 || self.notation == Notation::Exponent) {
            number /= 1000;
            exponent += 3;
        }
        match self.notation {
            Notation::Exponent if exponent != 0 => write!(f, "{number}e{exponent}"),
            _ => {
                let suffix = match exponent {
                    -9 => "n",
                    -6 => "u",
                    -3 => "m",
                    3 => "k",
                    6 => "M",
                    9 => "G",
                    12 => "T",
                    15 => "P",
                    18 => "E",
                    _ => "",
                };
                write!(f, "{number}{suffix}")
            }
        }
    }
}

/// A quantity taken apart. Leading zeros of the number are gone.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, Error> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = unsigned.trim_start_matches('0');
    let end = |text: &str| text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = number.split_at(end(number));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(end(rest)),
        None => ("", rest),
    };
    if unsigned.is_empty() || (unsigned.len() == suffix.len()) {
        return Err(if unsigned.is_empty() { Error::Number } else { Error::Format });
    }
    let letters = suffix.trim_start_matches(|character| "eEinumkKMGTP".contains(character));
    let digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::Format);
    }
    Ok(Parts { negative: text.starts_with('-'), whole, fraction, suffix })
}

/// Base and exponent that a suffix stands for.
fn interpret(suffix: &str) -> Option<(i32, i32, Notation)> {
    let known = match suffix {
        "" => (10, 0, Notation::Decimal),
        "n" => (10, -9, Notation::Decimal),
        "u" => (10, -6, Notation::Decimal),
        "m" => (10, -3, Notation::Decimal),
        "k" => (10, 3, Notation::Decimal),
        "M" => (10, 6, Notation::Decimal),
        "G" => (10, 9, Notation::Decimal),
        "T" => (10, 12, Notation::Decimal),
        "P" => (10, 15, Notation::Decimal),
        "E" => (10, 18, Notation::Decimal),
        "Ki" => (2, 10, Notation::Binary),
        "Mi" => (2, 20, Notation::Binary),
        "Gi" => (2, 30, Notation::Binary),
        "Ti" => (2, 40, Notation::Binary),
        "Pi" => (2, 50, Notation::Binary),
        "Ei" => (2, 60, Notation::Binary),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = digits.strip_prefix('+').unwrap_or(digits).parse().ok()?;
            (10, exponent, Notation::Exponent)
        }
    };
    Some(known)
}
