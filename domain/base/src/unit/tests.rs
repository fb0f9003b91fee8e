use super::*;
use crate::decimal::{DecimalError, Rounding};
use crate::unit::parser::{ATOMS, PREFIXES, UnitDefinition};
use num::BigInt;
use num::rational::Ratio;
use proptest::prelude::*;

fn unit(code: &str) -> UcumUnit {
    code.parse().unwrap_or_else(|error| panic!("{code}: {error}"))
}

fn number(text: &str) -> Decimal {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn factor(from: &str, to: &str) -> ConversionFactor {
    UcumUnit::conversion(&unit(from), &unit(to)).unwrap_or_else(|error| panic!("{error}"))
}

/// One of `from` in terms of `to`.
fn one(from: &str, to: &str) -> Result<String, DecimalError> {
    factor(from, to).apply(&Decimal::from(1)).map(|number| number.to_string())
}

/// Codes that convert to `g/L`, most of them by a finite factor.
fn densities() -> impl Strategy<Value = String> {
    let mass = prop::sample::select(vec!["g", "mg", "ug", "kg", "t", "[lb_av]", "[oz_av]", "[gr]", "10*3.g"]);
    let volume = prop::sample::select(vec![
        "L", "mL", "dl", "m3", "[gal_us]", "[in_i]3", "(m.dm2)", "[tsp_us]", "5.l",
    ]);
    (mass, volume).prop_map(|(mass, volume)| format!("{mass}/({volume})"))
}

proptest! {
    #[test]
    fn conversion_there_and_back_is_exact(
        from in densities(),
        to in densities(),
        digits in "-?[0-9]{1,12}",
        power in -6..6_i32,
    ) {
        let number = number(&format!("{digits}e{power}"));
        match factor(&from, &to).apply(&number) {
            Ok(there) => prop_assert_eq!(factor(&to, &from).apply(&there), Ok(number)),
            Err(error) => prop_assert!(matches!(error, DecimalError::Endless | DecimalError::Digits { .. }), "{error}"),
        }
    }

    #[test]
    fn conversion_via_a_third_unit_has_the_same_factor(from in densities(), via in densities(), to in densities()) {
        let by_way = unit(&from).measure.over(&unit(&via).measure).times(&unit(&via).measure.over(&unit(&to).measure));
        let by_way = by_way.number().map(ConversionFactor::new);
        prop_assert_eq!(by_way, UcumUnit::conversion(&unit(&from), &unit(&to)).ok());
    }

    #[test]
    fn rounded_result_is_the_exact_result_rounded(from in densities(), to in densities(), n in -9999..9999_i64) {
        let number = Decimal::from(n);
        for rounding in [Rounding::HalfEven, Rounding::HalfUp, Rounding::Truncate] {
            let rounded = factor(&from, &to).apply_rounded(&number, 3, rounding);
            if let Ok(exact) = factor(&from, &to).apply(&number) {
                prop_assert_eq!(rounded, exact.round(3, rounding));
            } else {
                prop_assert!(rounded.is_ok_and(|rounded| rounded.round(3, Rounding::Truncate).as_ref() == Ok(&rounded)));
            }
        }
    }

    #[test]
    fn parse_accepts_or_rejects_any_text(text in "[a-zA-Z0-9*.(){}\\[\\]/+%^-]{0,40}|.{0,40}") {
        for unit in [text.parse::<UcumUnit>(), UcumUnit::from_spelling(&text)].into_iter().flatten() {
            prop_assert_eq!(UcumUnit::conversion(&unit, &unit).and_then(|same| UcumUnit::conversion_by(&unit, &unit, &vitamin_d()).map(|by| by == same)), Ok(true));
        }
    }
}

fn vitamin_d() -> SubstanceEquivalence {
    SubstanceEquivalence::new(&unit("[IU]"), &number("0.025"), &unit("ug")).expect("a factor")
}

/// Pairs of units, with the value of the first in terms of the second.
const PUBLISHED: &[(&str, &str, &str)] = &[
    ("g", "mg", "1000"),
    ("mg", "g", "0.001"),
    ("ug", "g", "0.000001"),
    ("kg", "g", "1000"),
    ("kcal", "kJ", "4.184"),
    ("kcal_IT", "kJ", "4.1868"),
    ("[Cal]", "kcal", "1"),
    ("[Btu_IT]", "J", "1055.05585262"),
    ("[in_i]", "cm", "2.54"),
    ("[ft_i]", "m", "0.3048"),
    ("[yd_i]", "m", "0.9144"),
    ("[mi_i]", "m", "1609.344"),
    ("[nmi_i]", "m", "1852"),
    ("[sft_i]", "m2", "0.09290304"),
    ("[lb_av]", "g", "453.59237"),
    ("[oz_av]", "g", "28.349523125"),
    ("[oz_tr]", "g", "31.1034768"),
    ("[ston_av]", "kg", "907.18474"),
    ("[lton_av]", "kg", "1016.0469088"),
    ("[stone_av]", "[lb_av]", "14"),
    ("L", "m3", "0.001"),
    ("l", "L", "1"),
    ("[gal_us]", "L", "3.785411784"),
    ("[foz_us]", "mL", "29.5735295625"),
    ("[gal_br]", "L", "4.54609"),
    ("[bbl_us]", "L", "158.987294928"),
    ("[tbs_us]", "[tsp_us]", "3"),
    ("h", "s", "3600"),
    ("wk", "h", "168"),
    ("a", "d", "365.25"),
    ("a_g", "d", "365.2425"),
    ("mo", "d", "30.4375"),
    ("km/h", "m/min", "1000/60"),
    ("[mi_i]/h", "km/h", "1.609344"),
    ("bar", "Pa", "100000"),
    ("atm", "Pa", "101325"),
    ("mm[Hg]", "Pa", "133.322"),
    ("gf", "N", "0.00980665"),
    ("[lbf_av]", "N", "4.4482216152605"),
    ("N", "kg.m/s2", "1"),
    ("W", "J/s", "1"),
    ("kW.h", "MJ", "3.6"),
    ("V.A", "W", "1"),
    ("Ohm", "V/A", "1"),
    ("F", "C2/J", "1"),
    ("lx", "cd.sr/m2", "1"),
    ("T", "G", "10000"),
    ("Ci", "Bq", "37000000000"),
    ("RAD", "Gy", "0.01"),
    ("kat", "U", "60000000"),
    ("%", "1", "0.01"),
    ("[ppm]", "%", "0.0001"),
    ("10*3", "1", "1000"),
    ("10*3.{person}", "{person}", "1000"),
    ("10^-2", "%", "1"),
    ("mol", "1", "602214076000000000000000"),
    ("kg/m2", "g/cm2", "0.1"),
    ("mmol/L", "umol/mL", "1"),
    ("/min", "Hz", "1/60"),
    ("s-1", "Hz", "1"),
    ("m+2", "m2", "1"),
    ("KiBy", "bit", "8192"),
    ("k[IU]/mL", "[iU]/L", "1000000"),
    ("Cel", "Cel", "1"),
    ("[pH]", "[pH]", "1"),
    ("[degR]", "K", "5/9"),
    ("[ft_us]", "m", "1200/3937"),
];

#[test]
fn conversion_matches_published_factors() {
    for (from, to, expected) in PUBLISHED {
        let (above, below) = expected.split_once('/').unwrap_or((expected, "1"));
        let parts = [above, below].map(|digits| digits.replace('.', "").parse::<BigInt>().expect("digits"));
        let digits = above.split_once('.').map_or(0, |(_, digits)| digits.len());
        let [above, below] = parts;
        let ratio = Ratio::new(above, below * BigInt::from(10).pow(digits as u32));
        assert_eq!(factor(from, to), ConversionFactor::new(&ratio), "{from} in {to}");
        assert_eq!(factor(to, from), ConversionFactor::new(&ratio.recip()), "{to} in {from}");
    }
}

#[test]
fn infinite_factor_applies_if_the_result_is_finite_or_rounded() {
    assert_eq!(one("min", "h"), Err(DecimalError::Endless));
    assert_eq!(factor("min", "h").apply(&number("90")), Ok(number("1.5")));
    assert_eq!(factor("min", "h").apply(&number("0")), Ok(number("0")));
    for (rounding, expected) in [("half_even", "0.6667"), ("half_up", "0.6667"), ("truncate", "0.6666")] {
        let rounding: Rounding = serde_json::from_value(rounding.into()).expect("a mode");
        assert_eq!(factor("min", "h").apply_rounded(&number("40"), 4, rounding), Ok(number(expected)));
        assert_eq!(
            factor("min", "h").apply_rounded(&number("1"), 200, rounding),
            Err(DecimalError::Places { places: 200 })
        );
    }
    assert_eq!(factor("Ym3", "Zm3").apply(&number("1e-9")), Ok(number("1")));
    assert_eq!(factor("kg", "g").apply_rounded(&number("1.25"), -2, Rounding::HalfEven), Ok(number("1200")));
    assert_eq!(factor("Ym", "ym").apply(&number("1e60")), Err(DecimalError::Magnitude { magnitude: 108 }));
}

#[test]
fn units_of_different_quantities_do_not_convert_and_the_error_names_both() {
    for (from, to, words) in [
        ("g", "L", "the dimensions g and m3 differ"),
        ("[IU]", "ug", "the dimensions [iU] and g differ"),
        ("[IU]", "1", "the dimensions [iU] and 1 differ"),
        ("[IU]", "[arb'U]", "the dimensions [iU] and [arb'U] differ"),
        ("J", "{person}", "the dimensions g.m2.s-2 and {person} differ"),
        ("J", "/{person}", "the dimensions g.m2.s-2 and {person}-1 differ"),
        ("Cel", "K", "a scale only converts to itself"),
        ("Cel", "[degF]", "a scale only converts to itself"),
        ("dB", "B", "a scale only converts to itself"),
        ("1", "[pH]", "a scale only converts to itself"),
    ] {
        let error = UcumUnit::conversion(&unit(from), &unit(to)).expect_err(from).to_string();
        assert!(error.starts_with(&format!("`{from}` does not convert to `{to}`: ")), "{error}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn units_with_different_annotations_do_not_convert() {
    for (from, to) in [
        ("{USD}", "{EUR}"),
        ("{USD}/kg", "{EUR}/kg"),
        ("g{dry}", "g{wet}"),
        ("g{dry}", "g"),
        ("1", "{person}"),
        ("{person}", "{household}"),
        ("[pH]{urine}", "[pH]"),
        ("m2{floor}", "m2{land}"),
        ("kg{fat}/kg{food}", "kg{food}/kg{fat}"),
    ] {
        for (from, to) in [(from, to), (to, from)] {
            assert!(UcumUnit::conversion(&unit(from), &unit(to)).is_err(), "{from} in {to}");
        }
    }
    let error = UcumUnit::conversion(&unit("{USD}/kg"), &unit("{EUR}/kg")).expect_err("two currencies");
    assert!(
        matches!(&error, UnitError::Dimension { from_dimension, .. } if from_dimension == "g-1.{USD}"),
        "{error:?}"
    );
}

#[test]
fn units_with_equal_annotations_convert_by_their_factor() {
    for (from, to, expected) in [
        ("{USD}/{EUR}", "{USD}/{EUR}", "1"),
        ("{USD}/(10*2.{EUR})", "{USD}/{EUR}", "0.01"),
        ("{EUR}.{USD}/{EUR}", "{USD}", "1"),
        ("kg{dry}", "g{dry}", "1000"),
        ("g.{dry}", "g{dry}", "1"),
        ("{person}/km2", "{person}/(10*6.m2)", "1"),
        ("[pH]{urine}", "[pH]{urine}", "1"),
    ] {
        assert_eq!(one(from, to).as_deref(), Ok(expected), "{from} in {to}");
    }
}

#[test]
fn unit_and_its_inverse_do_not_convert() {
    for (from, to) in [
        ("{EUR}/{USD}", "{USD}/{EUR}"),
        ("s", "Hz"),
        ("mg", "/mg"),
        ("mol", "/mol"),
        ("%", "/%"),
        ("[mi_i]/[gal_us]", "L/(100.km)"),
    ] {
        for (from, to) in [(from, to), (to, from)] {
            let error = UcumUnit::conversion(&unit(from), &unit(to));
            assert!(matches!(error, Err(UnitError::Inverse { .. })), "{from} in {to}: {error:?}");
        }
    }
}

#[test]
fn equivalence_converts_its_units_both_ways_and_no_others() {
    let by = |from: &str, to: &str, equivalence: &SubstanceEquivalence| {
        let factor = UcumUnit::conversion_by(&unit(from), &unit(to), equivalence)?;
        Ok(factor.apply(&Decimal::from(1)).map(|number| number.to_string()))
    };
    let is = |text: &str| Ok::<_, UnitError>(Ok(text.to_owned()));
    assert_eq!(by("[IU]", "ug", &vitamin_d()), is("0.025"));
    assert_eq!(by("[IU]", "g", &vitamin_d()), is("0.000000025"));
    assert_eq!(by("ug", "[IU]", &vitamin_d()), is("40"));
    assert_eq!(by("k[IU]/L", "mg/m3", &vitamin_d()), is("25"));
    assert_eq!(by("mg", "g", &vitamin_d()), is("0.001"));
    assert!(matches!(by("[IU]", "L", &vitamin_d()), Err(UnitError::Dimension { .. })));
    assert!(matches!(by("[IU]2", "ug2", &vitamin_d()), Err(UnitError::Dimension { .. })));
    let inhabitant =
        SubstanceEquivalence::new(&unit("{inhabitant}"), &number("1"), &unit("{person}")).expect("a factor");
    assert_eq!(by("10*3.{inhabitant}", "{person}", &inhabitant), is("1000"));
    let glucose = SubstanceEquivalence::new(&unit("mol"), &number("180.156"), &unit("g")).expect("a factor");
    assert_eq!(by("mmol/L", "mg/dL", &glucose), is("18.0156"));
    for amount in ["0", "-1"] {
        let error = SubstanceEquivalence::new(&unit("[IU]"), &number(amount), &unit("ug"));
        assert_eq!(error, Err(UnitError::Amount { amount: number(amount) }));
    }
    let error = SubstanceEquivalence::new(&unit("Cel"), &number("1"), &unit("K"));
    assert_eq!(error, Err(UnitError::Scale { from: "Cel".to_owned(), to: "K".to_owned() }));
}

#[test]
fn parse_rejects_an_invalid_code_with_its_offset() {
    let missing = |code: &str, at, expected| UnitError::Syntax { code: code.to_owned(), at, expected };
    for (code, at, expected) in [
        ("m//s", 2, "a unit"),
        ("m/", 2, "a unit"),
        (".m", 0, "a unit"),
        (" m", 0, "a unit"),
        ("m s", 1, "`.`, `/` or the end"),
        ("µg", 0, "a unit"),
        ("(m", 2, "`.`, `/` or `)`"),
        ("m)", 1, "`.`, `/` or the end"),
        ("m.(/s)", 3, "a unit"),
        ("(m)2", 3, "`.`, `/` or the end"),
        ("m-", 2, "a digit"),
        ("m2-1", 2, "`.`, `/` or the end"),
        ("10+3", 2, "`.`, `/` or the end"),
        ("{}", 1, "an annotation's text"),
        ("{a b}", 2, "`}`"),
        ("{a", 2, "`}`"),
        ("{a{b}}", 2, "`}`"),
        ("m{a}{b}", 4, "`.`, `/` or the end"),
        ("[in_i", 5, "`]`"),
        ("mm[", 3, "`]`"),
        ("]", 0, "a unit"),
        ("€", 0, "a unit"),
    ] {
        assert_eq!(code.parse::<UcumUnit>(), Err(missing(code, at, expected)), "{code}");
    }
    let unknown =
        |code: &str, unit: &str| UnitError::Unknown { code: code.to_owned(), unit: unit.to_owned() };
    for (code, unit) in [
        ("KG", "KG"),
        ("mg/ML2/furlong", "furlong"),
        ("[PI]", "[PI]"),
        ("k", "k"),
        ("2m", "2m"),
        ("IU", "IU"),
    ] {
        assert_eq!(code.parse::<UcumUnit>(), Err(unknown(code, unit)), "{code}");
    }
    for code in ["kmin", "m[in_i]", "k%", "m10*3"] {
        assert!(matches!(code.parse::<UcumUnit>(), Err(UnitError::Prefix { .. })), "{code}");
    }
    for code in ["Cel/s", "Cel2", "2.Cel", "/[pH]", "m.(Cel)", "Cel-1"] {
        assert!(matches!(code.parse::<UcumUnit>(), Err(UnitError::ScaleInTerm { .. })), "{code}");
    }
    let error = "mg/dl/furlong".parse::<UcumUnit>().expect_err("a unit that is not in the table");
    let expected = "\"furlong\" in \"mg/dl/furlong\" is not a known unit; UCUM codes are case-sensitive, such as m, kg and Cel";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn parse_rejects_codes_beyond_the_limits() {
    let owned = str::to_owned;
    for size_bytes in [0, CODE_MAX_BYTES + 1, 1_000_000] {
        assert_eq!("m".repeat(size_bytes).parse::<UcumUnit>(), Err(UnitError::Length { size_bytes }));
    }
    let nested = |depth: usize| format!("{}m{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(UcumUnit::conversion(&unit(&nested(NESTING_MAX)), &unit("m")), Ok(factor("m", "m")));
    let code = nested(NESTING_MAX + 1);
    assert_eq!(code.parse::<UcumUnit>(), Err(UnitError::Nesting { code }));
    for code in ["m65", "m-65", "10*999999999", "10*99999999999999999999", "m+65"] {
        assert_eq!(code.parse::<UcumUnit>(), Err(UnitError::Exponent { code: owned(code) }));
    }
    let products = "Ym64.".repeat(25) + "m";
    for code in ["0", "0.m", "Ym64", "10*64.10*64.10*64", "10*-64/10*64/10*64", &"9".repeat(127), &products] {
        let is_refused = code.parse::<UcumUnit>() == Err(UnitError::Range { code: owned(code) });
        assert_eq!(is_refused, code.len() != 127, "{code}");
    }
}

#[test]
fn every_unit_in_the_table_has_exactly_one_meaning() {
    let mut codes = std::collections::BTreeSet::new();
    for atom in ATOMS {
        let measure = unit(atom.code).measure;
        assert_eq!(
            measure.scale().is_some(),
            matches!(atom.definition, UnitDefinition::Scale),
            "{}",
            atom.code
        );
        assert!(codes.insert(atom.code.to_owned()), "{} is listed twice", atom.code);
        for (prefix, _) in PREFIXES {
            let code = format!("{prefix}{}", atom.code);
            assert_eq!(
                code.parse::<UcumUnit>().is_ok(),
                atom.is_metric || ATOMS.iter().any(|atom| atom.code == code),
                "{code}"
            );
            assert!(!atom.is_metric || codes.insert(code.clone()), "{code} can be read in two ways");
        }
    }
}

#[test]
fn from_spelling_reads_aliases_before_ucum_codes() {
    for (spelling, code) in [
        ("G", "g"),
        ("MG", "mg"),
        ("UG", "ug"),
        ("µg", "ug"),
        ("μg", "ug"),
        ("mcg", "ug"),
        ("KCAL", "kcal"),
        ("IU", "[IU]"),
        ("iu", "[IU]"),
        ("gram", "g"),
        ("litre", "L"),
        ("ft", "[ft_i]"),
        ("kcal", "kcal"),
        ("mg/dL", "mg/dL"),
        ("10*3.{person}", "10*3.{person}"),
    ] {
        assert_eq!(UcumUnit::from_spelling(spelling), Ok(unit(code)), "{spelling}");
    }
    for (spelling, code) in spellings() {
        assert_eq!(UcumUnit::from_spelling(spelling), Ok(unit(code)), "{spelling}");
        assert_ne!(spelling, code);
        assert_eq!(spellings().iter().filter(|(known, _)| known == spelling).count(), 1, "{spelling}");
    }
    assert_eq!(unit("G").measure, unit("10*-4.T").measure);
    for spelling in ["", "g ", "Grams", "calories", "Cal", "cups", "µ"] {
        assert_eq!(
            UcumUnit::from_spelling(spelling),
            Err(UnitError::Spelling { spelling: spelling.to_owned() })
        );
    }
    let long = "é".repeat(1000);
    let spelling = "é".repeat(CODE_MAX_BYTES);
    assert_eq!(UcumUnit::from_spelling(&long), Err(UnitError::Spelling { spelling }));
}

#[test]
fn unit_is_its_code_in_json() {
    let json = serde_json::to_string(&unit("10*3.{person}")).expect("plain data");
    assert_eq!(json, "\"10*3.{person}\"");
    assert_eq!(serde_json::from_str::<UcumUnit>(&json).ok(), Some(unit("10*3.{person}")));
    assert!(serde_json::from_str::<UcumUnit>("\"IU\"").is_err());
}
