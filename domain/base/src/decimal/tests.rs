use super::*;
use num::rational::Ratio;
use proptest::prelude::*;

fn number(text: &str) -> Decimal {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The number's value, computed from its text without `Decimal`.
fn value(number: &Decimal) -> Ratio<BigInt> {
    let text = number.to_string();
    let places = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits: BigInt = text.replace('.', "").parse().expect("digits");
    Ratio::new(digits, ten_to(places as i64))
}

/// Numbers of all sizes, many of them close to each other.
fn numbers() -> impl Strategy<Value = Decimal> {
    let parts = prop_oneof![
        ("-?[0-9]{1,3}", -3..=3_i64),
        ("-?[0-9]{1,20}", -60..=40_i64),
        ("-?[0-9]{60,64}", -64..=0_i64),
    ];
    parts.prop_map(|(digits, power)| number(&format!("{digits}e{power}")))
}

proptest! {
    #[test]
    fn decimal_text_round_trips_and_equal_numbers_have_equal_texts(a in numbers(), b in numbers()) {
        prop_assert_eq!(&number(&a.to_string()), &a);
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
        prop_assert_eq!(a == b, value(&a) == value(&b));
    }

    #[test]
    fn rounded_quotient_is_the_exact_quotient_rounded_once(a in numbers(), b in numbers(), places in -3..=9_i32) {
        match (a.div_rounded(&b, places, Rounding::HalfEven), a.div_exact(&b)) {
            (rounded, Ok(exact)) => prop_assert_eq!(rounded, exact.round(places, Rounding::HalfEven)),
            (Ok(rounded), Err(_)) => {
                let off = value(&rounded) - value(&a) / value(&b);
                let half = value(&number(&format!("5e{}", -places - 1)));
                prop_assert!(off <= half && -half <= off);
            }
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn decimals_and_their_sort_keys_sort_by_value(a in numbers(), b in numbers(), extra in 1..4_i64) {
        // the same digits, and one more
        let longer = Decimal::from_parts(&(a.coefficient() * ten_to(extra) + 1), a.exponent() - extra);
        for b in [Ok(b), longer].into_iter().flatten() {
            let order = value(&a).cmp(&value(&b));
            prop_assert_eq!(a.cmp(&b), order);
            prop_assert_eq!(a.sort_key().cmp(&b.sort_key()), order);
            prop_assert!(a == b || !b.sort_key().starts_with(&a.sort_key()), "no key is a prefix of another");
        }
    }

    #[test]
    fn sum_difference_and_product_are_exact_or_an_error(a in numbers(), b in numbers()) {
        for (result, expected) in [
            (a.checked_add(&b), value(&a) + value(&b)),
            (a.checked_sub(&b), value(&a) - value(&b)),
            (a.checked_mul(&b), value(&a) * value(&b)),
        ] {
            match result {
                Ok(result) => prop_assert_eq!(value(&result), expected),
                Err(DecimalError::Digits { digits }) => prop_assert!(digits > DIGITS_MAX),
                Err(DecimalError::Magnitude { magnitude }) => prop_assert!(magnitude.abs() > MAGNITUDE_MAX),
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    #[test]
    fn exact_division_inverts_multiplication(a in numbers(), b in numbers()) {
        prop_assume!(b != Decimal::from(0));
        if let Ok(product) = a.checked_mul(&b) {
            prop_assert_eq!(product.div_exact(&b), Ok(a.clone()));
        }
        if let Ok(quotient) = a.div_exact(&b) {
            prop_assert_eq!(value(&quotient), value(&a) / value(&b));
        }
    }

    #[test]
    fn round_returns_the_nearest_number_with_the_places(a in numbers(), places in -6..=70_i32) {
        let unit = Ratio::new(BigInt::from(1), ten_to(70)) * ten_to(70 - i64::from(places));
        for rounding in [Rounding::HalfEven, Rounding::HalfUp, Rounding::Truncate] {
            let rounded = value(&a.round(places, rounding).expect("far from the bounds"));
            prop_assert!((&rounded / &unit).is_integer());
            let error = Ratio::from(BigInt::from(2)) * (rounded - value(&a));
            let bound = if rounding == Rounding::Truncate { &unit * BigInt::from(2) } else { unit.clone() };
            prop_assert!(-bound.clone() <= error && error <= bound);
        }
    }

    #[test]
    fn parse_accepts_or_rejects_any_text(text in "[-+.0-9eE ]{0,12}|.{0,300}") {
        if let Ok(number) = text.parse::<Decimal>() {
            prop_assert_eq!(number.to_string().parse(), Ok(number));
        }
    }
}

#[test]
fn all_spellings_of_a_number_have_the_same_text() {
    for (canonical, spellings) in [
        ("0", &["0", "-0", "+0.000", "0e999999999", ".0", "0.", "-0E-9999999999999999999999"][..]),
        ("7.5", &["7.5", "007.50", "+7.5", "75e-1", "0.75E+1", "7.50000"]),
        ("0.5", &[".5", "0.5", "5e-1", "00.5"]),
        ("5", &["5.", "5", "5.e0", "5.0"]),
        ("-12500", &["-12.5e3", "-12500", "-125E+2", "-12500.0"]),
        ("0.00001", &["1e-05", "0.00001", ".1e-4"]),
        ("17179869184.5", &["17179869184.5", "171798691845e-1"]),
    ] {
        for text in spellings {
            assert_eq!(number(text).to_string(), canonical, "{text}");
        }
    }
}

#[test]
fn parse_rejects_and_quotes_an_invalid_number() {
    for text in [
        "", ".", "-", "+", "e5", "1e", "1e+", "--1", "+-1", "1.2.3", "1,5", "1 000", " 1", "1 ", "1\n",
        "0x1", "1_0", "NaN", "inf", "−1", "٣", "1e1.5", "1e1e1", "½", ".e1",
    ] {
        assert_eq!(text.parse::<Decimal>(), Err(DecimalError::Syntax { text: text.to_owned() }), "{text:?}");
    }
    let long = "x".repeat(200);
    assert_eq!(
        long.parse::<Decimal>(),
        Err(DecimalError::Syntax { text: "x".repeat(crate::wording::QUOTED_MAX_CHARS) })
    );
    let error = "12a".parse::<Decimal>().expect_err("a letter");
    assert_eq!(
        error.to_string(),
        "\"12a\" is not a decimal number: digits with an optional sign, point and exponent, like -12.5e3"
    );
}

#[test]
fn parse_rejects_numbers_beyond_the_limits() {
    let nines = |count: usize| "9".repeat(count);
    let digits = |digits| Err(DecimalError::Digits { digits });
    let magnitude = |magnitude| Err(DecimalError::Magnitude { magnitude });
    for (text, error) in [
        (nines(400), Err(DecimalError::Length { size_bytes: 400 })),
        ("0".repeat(1_000_000), Err(DecimalError::Length { size_bytes: 1_000_000 })),
        (nines(65), digits(65)),
        (format!("0.{}", nines(65)), digits(65)),
        ("1e65".to_owned(), magnitude(65)),
        ("0.1e66".to_owned(), magnitude(65)),
        ("1e-65".to_owned(), magnitude(-65)),
        ("1e999999999".to_owned(), magnitude(999_999_999)),
        ("-1e-999999999".to_owned(), magnitude(-999_999_999)),
        (format!("10e{}", nines(100)), magnitude(i64::MAX)),
    ] {
        assert_eq!(text.parse::<Decimal>(), error, "{text:.80}");
    }
    for text in [nines(64), format!("1{}", "0".repeat(64)), format!("-0.{}{}", "0".repeat(63), nines(64))] {
        assert_eq!(number(&text).to_string(), text);
    }
    assert_eq!(number("9e64").checked_add(&number("9e64")), magnitude(65));
    assert_eq!(number("1e64").checked_add(&number("1e-64")), digits(129));
    assert_eq!(number("1e-64").checked_mul(&number("0.1")), magnitude(-65));
    assert_eq!(number("9.5e64").round(-64, Rounding::HalfUp), magnitude(65));
}

#[test]
fn exact_division_rejects_repeating_decimals_and_zero() {
    assert_eq!(number("1").div_exact(&number("3")), Err(DecimalError::Endless));
    assert_eq!(number("1").div_exact(&number("0")), Err(DecimalError::DivisionByZero));
    assert_eq!(number("-1").div_exact(&number("8")), Ok(number("-0.125")));
    assert_eq!(number("0").div_exact(&number("7")), Ok(number("0")));
    // the largest power of two that fits
    let two_to = |power: u32| Decimal::from_parts(&BigInt::from(2).pow(power), 0).expect("64 digits");
    assert_eq!(number("1").div_exact(&two_to(212)), Err(DecimalError::Digits { digits: 149 }));
    assert_eq!(two_to(210).div_exact(&two_to(212)), Ok(number("0.25")));
}

#[test]
fn round_follows_its_mode() {
    use Rounding::{HalfEven, HalfUp, Truncate};
    for (text, places, even, up, cut) in [
        ("2.5", 0, "2", "3", "2"),
        ("3.5", 0, "4", "4", "3"),
        ("-2.5", 0, "-2", "-3", "-2"),
        ("-3.5", 0, "-4", "-4", "-3"),
        ("0.5", 0, "0", "1", "0"),
        ("-0.5", 0, "0", "-1", "0"),
        ("2.51", 0, "3", "3", "2"),
        ("2.49", 0, "2", "2", "2"),
        ("0.125", 2, "0.12", "0.13", "0.12"),
        ("0.135", 2, "0.14", "0.14", "0.13"),
        ("9.99", 1, "10", "10", "9.9"),
        ("1250", -2, "1200", "1300", "1200"),
        ("-1350", -2, "-1400", "-1400", "-1300"),
        ("50", -2, "0", "100", "0"),
        ("49", -2, "0", "0", "0"),
        ("5", -64, "0", "0", "0"),
        ("1.25", 2, "1.25", "1.25", "1.25"),
        ("1.25", 127, "1.25", "1.25", "1.25"),
    ] {
        for (rounding, expected) in [(HalfEven, even), (HalfUp, up), (Truncate, cut)] {
            assert_eq!(
                number(text).round(places, rounding),
                Ok(number(expected)),
                "{text} {places} {rounding:?}"
            );
        }
    }
    for places in [i32::MIN, -65, 128, i32::MAX] {
        assert_eq!(number("1.5").round(places, HalfUp), Err(DecimalError::Places { places }));
    }
}

#[test]
fn integer_is_detected_and_converted_if_it_fits_64_bits() {
    for (text, is_integer, integer) in [
        ("0", true, Some(0)),
        ("-1500", true, Some(-1500)),
        ("1.5e1", true, Some(15)),
        ("1.5", false, None),
        ("0.001", false, None),
        ("9223372036854775807", true, Some(i64::MAX)),
        ("-9223372036854775808", true, Some(i64::MIN)),
        ("9223372036854775808", true, None),
        ("1e64", true, None),
    ] {
        assert_eq!((number(text).is_integer(), number(text).to_i64()), (is_integer, integer), "{text}");
        if let Some(integer) = integer {
            assert_eq!(Decimal::from(integer), number(text));
        }
    }
}

#[test]
fn decimal_is_a_string_in_json() {
    let json = serde_json::to_string(&number("1.50e2")).expect("plain data");
    assert_eq!(json, "\"150\"");
    assert_eq!(serde_json::from_str::<Decimal>(&json).ok(), Some(number("150")));
    for refused in ["150", "\"1,5\"", "null", "\"1e65\""] {
        assert!(serde_json::from_str::<Decimal>(refused).is_err(), "{refused}");
    }
}

/// Keys are stored in files, so their bytes must not change.
#[test]
fn sort_key_bytes_are_stable() {
    for (text, key) in [
        ("0", &[2][..]),
        ("7", &[3, 64, 71, 0]),
        ("12.5", &[3, 65, 13, 51, 0]),
        ("1e64", &[3, 128, 11, 0]),
        ("1e-64", &[3, 0, 11, 0]),
        ("-12.5", &[1, 190, 242, 204, 255]),
    ] {
        assert_eq!(number(text).sort_key(), key, "{text}");
    }
}
