//! Resource amounts that can be added and compared.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Thousandths of a unit, so that `250m` of a CPU is exact; large enough for any memory.
pub type Milli = i128;

/// The amount, rounded up to thousandths; `None` for a text that is no quantity (the API server refuses those).
pub fn milli(quantity: &Quantity) -> Option<Milli> {
    let text = quantity.0.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '+' || c == '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (numerator, denominator) = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let decimals = u32::try_from(fraction.len()).ok()?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10_i128.checked_pow(decimals)?.checked_mul(denominator)?;
    let scaled = digits.checked_mul(numerator)?.checked_mul(1000)?;
    Some(scaled.div_euclid(divisor) + i128::from(scaled.rem_euclid(divisor) != 0))
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    let decimal = |power: u32| Some((10_i128.pow(power), 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "" => Some((1, 1)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => match suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? {
            power @ 0..=18 => decimal(power.unsigned_abs()),
            power @ -9..0 => Some((1, 10_i128.pow(power.unsigned_abs()))),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_in_all_notations() {
        let of = |text: &str| milli(&Quantity(text.into()));
        assert_eq!(of("1"), Some(1000));
        assert_eq!(of("250m"), Some(250));
        assert_eq!(of("0.5"), Some(500));
        assert_eq!(of("1Ki"), Some(1_024_000));
        assert_eq!(of("1.5Gi"), Some(1_610_612_736_000));
        assert_eq!(of("2e3"), Some(2_000_000));
        assert_eq!(of("1n"), Some(1), "rounded up, as Kubernetes does");
        assert_eq!(of("x"), None);
        assert_eq!(of("1é"), None);
    }
}
