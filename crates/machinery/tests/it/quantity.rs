use machinery::quantity::{Error, Quantity};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

#[rstest]
#[case("0", "0")]
#[case("1", "1")]
#[case("1000m", "1")]
#[case("1500m", "1500m")]
#[case("0.5", "500m")]
#[case("1.5", "1500m")]
#[case("1000", "1k")]
#[case("1500", "1500")]
#[case("1024", "1024")]
#[case("1Ki", "1Ki")]
#[case("1024Ki", "1Mi")]
#[case("1.5Gi", "1536Mi")]
#[case("0.5Mi", "512Ki")]
#[case("128Mi", "128Mi")]
#[case("512Ki", "512Ki")]
#[case("100M", "100M")]
#[case("1e3", "1e3")]
#[case("12E", "12E")]
#[case("-5Mi", "-5Mi")]
#[case("0.1n", "1n")]
#[case("1000000Ki", "1000000Ki")]
#[case("0.001", "1m")]
#[case("100u", "100u")]
fn canonical(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(Quantity::canonical(text).unwrap(), expected);
}

#[rstest]
#[case("", Error::Format)]
#[case("x", Error::Format)]
#[case("1x", Error::Format)]
#[case("1kk", Error::Suffix)]
#[case("1Zi", Error::Format)]
#[case("1 Gi", Error::Format)]
fn refused(#[case] text: &str, #[case] error: Error) {
    assert_eq!(Quantity::parse(text).unwrap_err(), error);
}

#[test]
fn arithmetic_and_order() {
    let parse = |text| Quantity::parse(text).unwrap();
    assert_eq!((parse("1Gi") + parse("512Mi")).to_string(), "1536Mi");
    assert_eq!((parse("1") - parse("250m")).to_string(), "750m");
    assert!(parse("1Gi") > parse("1G"));
    assert_eq!(parse("1"), parse("1000m"));
    assert_eq!(parse("1500m").value(), 2);
    assert_eq!(parse("1500m").milli_value(), 1500);
    assert_eq!(parse("1500u").round_up_to_milli().to_string(), "2m");
    assert_eq!(Quantity::from_value(&json!(0.5)).unwrap().to_string(), "500m");
}

proptest! {
    #[test]
    fn printing_round_trips(number in 0_i64..1_000_000_000_000, suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e2"])) {
        let text = format!("{number}{suffix}");
        let quantity = Quantity::parse(&text).unwrap();
        let printed = quantity.to_string();
        prop_assert_eq!(Quantity::parse(&printed).unwrap(), quantity);
        prop_assert_eq!(Quantity::parse(&Quantity::canonical(&text).unwrap()).unwrap(), quantity);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+.0-9eEinumkKMGTP]{0,12}|\\PC{0,6}") {
        let _ = Quantity::canonical(&text);
    }
}
