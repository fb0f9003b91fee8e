use super::*;

fn found(label: &str, values: &[&str]) -> FoundForm {
    let values: Vec<_> = values.iter().map(|value| Some((*value).to_owned())).collect();
    find_form(label, &values, FieldHints::default())
}

/// The form of many values: `count` times those of `values`, and then the others.
fn found_among(count: usize, values: &[&str], others: &[&str]) -> FoundForm {
    let many = values.iter().copied().cycle().take(count * values.len());
    found("n", &many.chain(others.iter().copied()).collect::<Vec<_>>())
}

fn codes(found: &FoundForm) -> Vec<&'static str> {
    found.remarks.iter().map(SourceRemark::code).collect()
}

fn number(is_integer: bool, notation: Option<(char, Option<char>)>) -> ValueForm {
    ValueForm::Number { is_integer, notation, affix: None }
}

fn with_affix(notation: (char, Option<char>), prefix: &str, suffix: &str, accounting: bool) -> ValueForm {
    let affix = CellAffix { prefix: prefix.to_owned(), suffix: suffix.to_owned(), accounting };
    ValueForm::Number { is_integer: false, notation: Some(notation), affix: Some(affix) }
}

fn date(format: &str) -> ValueForm {
    ValueForm::Date { format: Some(format.to_owned()), is_local: format.contains("%H") }
}

fn words(words: &[(&str, bool)]) -> ValueForm {
    ValueForm::Boolean { words: words.iter().map(|(word, value)| ((*word).to_owned(), *value)).collect() }
}

fn date_of(format: &str) -> ValueForm {
    ValueForm::Date { format: Some(format.to_owned()), is_local: true }
}

const fn period(length: PeriodLength, format: Option<&'static str>) -> ValueForm {
    ValueForm::Period { length, format }
}

#[track_caller]
fn assert_forms(cases: &[(&str, &[&str], ValueForm, &[&str])]) {
    for (label, values, form, remarks) in cases {
        let found = found(label, values);
        assert_eq!((&found.form, codes(&found)), (form, remarks.to_vec()), "{label} {values:?}");
    }
}

#[test]
fn numbers_are_recognized_with_their_notation() {
    assert_forms(&[
        ("n", &["1", "-2"], number(true, None), &[]),
        ("n", &["1.5", "2"], number(false, None), &[]),
        ("n", &[".91", "1.25"], number(false, None), &[]),
        ("n", &["1.234", "2.000"], number(false, Some(('.', None))), &["decimal_mark"]),
        ("n", &["1,5", "1234,25"], number(false, Some((',', None))), &[]),
        ("n", &["-12,50", "100,00"], number(false, Some((',', None))), &[]),
        ("n", &["1.234,5", "2"], number(false, Some((',', Some('.')))), &[]),
        ("n", &["1,234.5", "2"], number(false, Some(('.', Some(',')))), &[]),
        ("n", &["1,234", "2"], number(true, Some(('.', Some(',')))), &["decimal_mark"]),
        ("n", &["1 234", "2"], number(true, Some(('.', Some(' ')))), &[]),
        ("n", &["−5", "2"], number(true, Some(('.', None))), &[]),
        ("code", &["007", "123"], ValueForm::Text, &[]),
        ("phone", &["+436601234", "+436605678"], ValueForm::Text, &[]),
        ("change", &["+1.5", "-1.5"], number(false, None), &[]),
        ("sdev", &["-9.99", "0.27", "0.3"], number(false, None), &["sentinel"]),
        ("change", &["-9.99", "-1.5", "0.3"], number(false, None), &[]),
        ("t", &["-9999", "-3.5", "2.1"], number(false, None), &["sentinel"]),
        ("t", &["-99.9", "-3.5", "2.1"], number(false, None), &["sentinel"]),
        ("t", &["9999.9", "55.1"], number(false, None), &["sentinel"]),
        ("t", &["-9999", "-99.9", "3"], number(false, None), &["sentinel"]),
        ("t", &["-9999"], number(true, None), &["sentinel"]),
        ("n", &["999", "1200", "15"], number(true, None), &[]),
        ("code", &["1E5", "205", "3E7"], ValueForm::Text, &["exponent_codes"]),
        ("value", &["1.5E5", "205"], number(true, None), &[]),
        ("value", &["1e300", "2"], ValueForm::Text, &["exponent_codes"]),
        ("value", &["1E+05", "205"], number(true, None), &["exponents"]),
        ("value", &["1e16", "0.5"], number(false, None), &["exponents"]),
        ("tweet", &["1234567890123456789"], number(true, None), &["long_numbers"]),
        ("section", &["1.1", "1.2", "1.10"], ValueForm::Text, &["section_numbers"]),
        ("Version", &["1.1", "1.2"], ValueForm::Text, &["section_numbers"]),
        ("section", &["1", "2"], number(true, None), &[]),
        ("title", &["1.1", "1.2", "1.10"], number(false, None), &["equal_numbers"]),
        ("price", &["1.1", "1.10", "1.1"], number(false, None), &[]),
    ]);
}

#[test]
fn first_group_of_zero_shows_the_decimal_mark() {
    assert_forms(&[
        ("n", &["1.234", "0.500"], number(false, None), &[]),
        ("n", &["1,234", "0,500"], number(false, Some((',', None))), &[]),
        ("n", &["1 234,5", "0,125"], number(false, Some((',', Some(' ')))), &[]),
    ]);
}

#[test]
fn decimal_mark_is_that_of_most_values() {
    let grouped = number(true, Some((',', Some('.'))));
    for (found, form, remarks) in [
        (found_among(200, &["123.456", "875", "12.345"], &["12.34"]), grouped.clone(), &["decimal_mark"][..]),
        (
            found_among(285, &["1.234"], &["800", "912", "850", "871", "999", "930", "12.34"]),
            grouped,
            &["decimal_mark"],
        ),
        // a number below 100 shows nothing
        (found_among(20, &["1.234", "12"], &[]), number(false, Some(('.', None))), &["decimal_mark"]),
        (
            found_among(300, &["1.459", "1.539"], &["1.4"]),
            number(false, Some(('.', None))),
            &["decimal_mark"],
        ),
        (found_among(30, &["1,234", "5000"], &[]), number(false, Some((',', None))), &["decimal_mark"]),
        (found_among(30, &["1,234", "500"], &[]), number(true, Some(('.', Some(',')))), &["decimal_mark"]),
        (found_among(30, &["1.234", "1.5"], &[]), number(false, None), &[]),
        (found_among(30, &["1.234", "0"], &[]), number(false, Some(('.', None))), &["decimal_mark"]),
        (found_among(600, &["12"], &["1.5", "1.234"]), number(false, None), &[]),
    ] {
        assert_eq!((&found.form, codes(&found)), (&form, remarks.to_vec()));
    }
}

#[test]
fn decimal_mark_is_kept_if_a_few_values_have_none() {
    for others in [&["7"][..], &["-999"], &["-999"; 30]] {
        let found = found_among(40, &["7.123"], others);
        let notation = match found.form {
            ValueForm::Number { notation, .. } => notation,
            other => panic!("{other:?}"),
        };
        assert_eq!(notation, Some(('.', None)), "{others:?}");
    }
}

#[test]
fn number_of_json_has_one_notation() {
    let values = ["1.234", "2", "1e-7"].map(|value| Some(value.to_owned()));
    let hints = FieldHints { is_json_number: true, ..FieldHints::default() };
    let found = find_form("n", &values, hints);
    assert_eq!((&found.form, codes(&found), found.known_mark), (&number(false, None), vec![], None));
    let texts = ["1E5", "205"].map(|value| Some(value.to_owned()));
    assert_eq!(find_form("code", &texts, hints).form, number(true, None));
}

#[test]
fn date_is_recognized_if_one_of_a_hundred_values_is_none() {
    let days = found_among(99, &["31.01.2026"], &["31.02.2026"]);
    assert_eq!((&days.form, codes(&days)), (&date("%d.%m.%Y"), vec!["rejected_dates"]));
    let months = found_among(50, &["2024-01", "2024-02"], &["2024-13"]);
    assert_eq!((&months.form, codes(&months)), (&period(PeriodLength::Month, None), vec!["rejected_dates"]));
    let two = found_among(98, &["31.01.2026"], &["31.02.2026", "n. d. 5"]);
    assert_eq!(two.form, ValueForm::Text);
}

#[test]
fn name_of_a_month_has_a_remark_in_any_language() {
    for values in
        [&["Jänner 2020", "Feber 2020"][..], &["1. März 2020"], &["août 2021", "juin 2021"], &["2020 maj"]]
    {
        let found = found("m", values);
        assert_eq!((&found.form, codes(&found)), (&ValueForm::Text, vec!["unread"]), "{values:?}");
    }
    for values in [&["Model 2020", "Room 2021"][..], &["März", "Mai"]] {
        assert_eq!(codes(&found("m", values)), [""; 0], "{values:?}");
    }
}

#[test]
fn signs_and_units_in_cells_are_recognized() {
    assert_forms(&[
        ("p", &["12,00 €", "3,50 €"], with_affix((',', None), "", "€", false), &["affix"]),
        ("p", &["$12.50", "$3.00"], with_affix(('.', None), "$", "", false), &["affix"]),
        ("p", &["EUR 12.50", "EUR 3.00"], with_affix(('.', None), "EUR", "", false), &["affix"]),
        ("p", &["12.5 %", "3 %"], with_affix(('.', None), "", "%", false), &["affix"]),
        ("p", &["12.5 kg", "13 kg"], with_affix(('.', None), "", "kg", false), &["affix"]),
        ("p", &["(12.50)", "3.00"], with_affix(('.', None), "", "", true), &["accounting"]),
        ("p", &["<0.5", "0.7", "1"], ValueForm::Text, &["bounds"]),
        ("p", &["12 kg", "13 g"], ValueForm::Text, &["mixed_affixes"]),
        ("p", &["1", "2", "trace"], ValueForm::Text, &["mostly_numbers"]),
        ("p", &["12,25 €", "13,50 €", "- €"], ValueForm::Text, &["mostly_numbers"]),
        ("p", &["A1", "A2"], ValueForm::Text, &[]),
    ]);
}

#[test]
fn text_of_digits_has_a_remark_if_it_can_be_a_number_or_a_date() {
    let long = "7".repeat(72);
    for values in [
        &["10:30 PM", "9:15 AM"][..],
        &["12.50-", "3.00"],
        &["12.50-", "3.00", "4.00", "5.00"],
        &["1,23,456", "12,34,567"],
        &["2021p", "2022*", "2023"],
        &["1.5", "inf", "-Infinity"],
        &[&long],
        &["2024-01-01 10:00 CET", "2024-07-01 10:00 CEST"],
        &["\u{661}\u{662}\u{663}", "\u{664}"],
        &["\u{ff11}\u{ff12}", "\u{ff13}"],
        &["18-24", "25-34", "65+"],
        &["1:23.45", "2:03.10"],
        &["192.168.0.1"],
    ] {
        let found = found("x", values);
        assert_eq!((&found.form, codes(&found)), (&ValueForm::Text, vec!["unread"]), "{values:?}");
    }
    for values in [
        &["A1", "A2"][..],
        &["AT11", "DE30"],
        &["5A", "6B"],
        &["12 Main Street"],
        &["550e8400-e29b-41d4-a716-446655440000", "7c9e6679-7425-40de-944b-e07fc1f90ae7"],
        &["Vienna", "Graz", "1010"],
        &["SW1A 1AA", "M1 1AE"],
    ] {
        let found = found("x", values);
        assert_eq!((&found.form, codes(&found)), (&ValueForm::Text, vec![]), "{values:?}");
    }
}

#[test]
fn dates_and_periods_are_recognized() {
    use PeriodLength::{Month, Quarter, Year};
    assert_forms(&[
        ("Year", &["1999", "2000"], period(Year, None), &[]),
        ("TIME_PERIOD", &["1999", "2000"], period(Year, None), &[]),
        ("count", &["1999", "2000"], number(true, None), &[]),
        ("m", &["2024-01", "2024-02"], period(Month, None), &[]),
        ("q", &["Q1 2024", "Q4 2024"], period(Quarter, Some("Q%q %Y")), &[]),
        ("season", &["2008-09", "2009-10", "2010-11", "2011-12"], ValueForm::Text, &["season"]),
        ("m", &["2008-09", "2008-10"], period(Month, None), &[]),
        ("day", &["2024-01-31"], ValueForm::Date { format: None, is_local: false }, &[]),
        ("day", &["31.01.2024"], date("%d.%m.%Y"), &[]),
        ("day", &["31/01/2024"], date("%d/%m/%Y"), &[]),
        ("day", &["01/02/2024"], date("%d/%m/%Y"), &["date_order"]),
        ("Tag", &["31.12.24", "02.01.25", "15.01.25"], date("%d.%m.%y"), &["two_digit_years"]),
        ("d", &["31.12.2024", "02.01.25", "03.01.2025"], date("%d.%m.%Y"), &["short_years"]),
        ("at", &["2026-11-26 10:00"], date("%Y-%m-%d %H:%M"), &["local_times"]),
        ("at", &["2026-11-26T10:00:00"], date("%Y-%m-%dT%H:%M:%S"), &["local_times"]),
        ("date", &["20240131", "20240201"], date("%Y%m%d"), &["compact_dates"]),
        ("t", &["20240131", "20240201"], date("%Y%m%d"), &["compact_dates"]),
        ("t", &["202401", "202412"], period(Month, Some("%Y%m")), &["compact_dates"]),
        ("t", &["20240131103000"], date("%Y%m%d%H%M%S"), &["compact_dates", "local_times"]),
        ("t", &["20240131", "20240230", "20240201"], number(true, None), &["compact_dates"]),
        ("amount", &["12345678", "87654321"], number(true, None), &[]),
        ("amount", &["123456", "654321"], number(true, None), &[]),
        ("d", &["24-12-31", "25-01-15"], date("%y-%m-%d"), &["date_order", "two_digit_years"]),
        ("d", &["99-12-31"], date("%y-%m-%d"), &["two_digit_years"]),
        ("d", &["31-12-99"], date("%d-%m-%y"), &["two_digit_years"]),
        ("Year", &["98", "99", "00"], period(Year, Some("%y")), &["two_digit_years"]),
        ("years", &["10", "12"], number(true, None), &[]),
        ("at", &["01/31/2024 10:30 PM"], date_of("%m/%d/%Y %I:%M %p"), &["local_times"]),
        ("d", &["2024-01-31", "31 Jan", "2024-02-01"], ValueForm::Text, &["mixed_dates"]),
        ("d", &["2024-01-31", "31.01.2024"], ValueForm::Text, &["mixed_dates"]),
        ("d", &["31/12/2024", "12/31/2024"], ValueForm::Text, &["mixed_dates"]),
        ("d", &["2024-01-31", "2024-02-30"], ValueForm::Text, &["no_such_date"]),
        ("d", &["31.01.2024", "30.2.2024"], ValueForm::Text, &["no_such_date"]),
        ("at", &["2024-01-31 10:00", "2024-01-31 25:00"], ValueForm::Text, &["no_such_date"]),
        ("m", &["2024-01", "2024-13"], ValueForm::Text, &["no_such_date"]),
    ]);
}

#[test]
fn time_that_does_not_exist_is_text() {
    let found = found("at", &["2020-06-15T12:34:60Z", "2020-06-15T12:35:00Z"]);
    assert_eq!(found.form, ValueForm::Text, "second 60");
    let value = "2020-06-15T12:34:60Z".to_owned();
    assert_eq!(found.remarks, [SourceRemark::NoSuchDate { value }]);
}

#[test]
fn words_for_true_and_false_are_recognized() {
    assert_forms(&[
        ("flag", &["true", "false"], words(&[]), &[]),
        ("flag", &["TRUE", "FALSE"], words(&[("FALSE", false), ("TRUE", true)]), &["boolean_words"]),
        ("flag", &["TRUE"], words(&[("TRUE", true), ("FALSE", false)]), &["boolean_words"]),
        ("flag", &["yes", "No"], words(&[("No", false), ("yes", true)]), &["boolean_words"]),
        ("flag", &["Y"], ValueForm::Text, &[]),
        ("flag", &["yes", "perhaps", "no"], ValueForm::Text, &[]),
        ("name", &["a", "1"], ValueForm::Text, &[]),
    ]);
}

#[test]
fn words_for_missing_values_are_found_in_other_forms_than_text() {
    let of_numbers = found("n", &["1", "n/a", "N/A", "..", "***", "\\N"]);
    assert_eq!(of_numbers.form, number(true, None));
    assert_eq!(of_numbers.missing_values, ["***", "..", "N/A", "\\N", "n/a"]);
    assert_eq!(codes(&of_numbers), ["missing_words"]);
    let of_texts = found("name", &["a", "n/a", "\\N"]);
    assert_eq!(
        (of_texts.form.clone(), of_texts.missing_values.clone()),
        (ValueForm::Text, vec!["\\N".to_owned()])
    );
    assert_eq!(codes(&of_texts), ["missing_words", "kept_words"]);
    assert_eq!(found("name", &["n/a"]).form, ValueForm::Text);
}

#[test]
fn text_beside_numbers_is_found_if_all_cells_have_it() {
    let affix = |prefix: &str, suffix: &str, accounting| {
        Ok(CellAffix { prefix: prefix.to_owned(), suffix: suffix.to_owned(), accounting })
    };
    let different = |texts: &[&str]| Err(texts.iter().map(|text| (*text).to_owned()).collect());
    for (texts, expected) in [
        (&["12,00 €", "-1.234,50 €"][..], affix("", "€", false)),
        (&["$12.50", "-$3.00", "$-3.00"], affix("$", "", false)),
        (&["EUR 12.50"], affix("EUR", "", false)),
        (&["12.5 %", "3%"], affix("", "%", false)),
        (&["12 kg", "13 kg"], affix("", "kg", false)),
        (&["(12.50)", "12.50"], affix("", "", true)),
        (&["($12.50)", "$12.50"], affix("$", "", true)),
        (&["12 kg", "13 g"], different(&["g", "kg"])),
        (&["12 kg", "13"], different(&["", "kg"])),
        (&["1", "2"], different(&[""])),
        (&["A1", "A2"], different(&[])),
        (&["ABC 12"], different(&[])),
        (&["5A", "6A"], different(&[])),
        (&["Room 5"], different(&[])),
        (&["<0.5", "1"], different(&[])),
        (&["12 apples"], different(&[])),
        (&["kg"], different(&[])),
    ] {
        assert_eq!(find_affix(texts), expected, "{texts:?}");
    }
}

#[test]
fn bounds_are_recognized() {
    for (text, expected) in
        [("<0.5", true), ("> 5", true), (">=5", true), ("≤ .5", true), ("0.5", false), ("<a>", false)]
    {
        assert_eq!(is_bound(text), expected, "{text}");
    }
}
