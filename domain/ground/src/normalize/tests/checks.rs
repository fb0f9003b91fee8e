//! Tests of checks: their types and their failure handling.

use super::*;

/// Each type with a valid and an invalid value.
fn kinds() -> [(&'static str, &'static str, Json, Json, Json); 4] {
    [
        ("range", "amount", json!({ "min": "0.5", "max": 10 }), json!(10), json!("10.1")),
        ("enum", "count", json!([1, "2"]), json!(2), json!(3)),
        ("regex", "name", json!("[a-z]+|[0-9]"), json!("ab"), json!("a1")),
        ("custom", "amount", json!("value < 3.0 && amount == value"), json!(2), json!(3)),
    ]
}

#[test]
fn failed_check_rejects_warns_or_nullifies() {
    for (kind, axis, constraint, good, bad) in kinds() {
        let (good, bad) = (json!({ "id": "a", axis: good }), json!({ "id": "a", axis: bad }));
        let definition = |on_failure: &str| checked(axis, kind, constraint.clone(), on_failure);
        for on_failure in ["reject", "warn", "nullify"] {
            let taken = normalized(definition(on_failure), good.clone()).unwrap();
            assert!(taken.warnings.is_empty() && taken.content.axes.len() == 2, "{kind}: {taken:?}");
        }
        let rejection = normalized(definition("reject"), bad.clone()).unwrap_err();
        assert_eq!(
            (rejection.rule, rejection.place.as_deref()),
            (RecordRule::Check, Some(axis)),
            "{rejection:?}"
        );
        for (on_failure, left) in [("warn", 2), ("nullify", 1)] {
            let accepted = normalized(definition(on_failure), bad.clone()).unwrap();
            assert_eq!(
                (&accepted.warnings, accepted.content.axes.len()),
                (&vec![rejection.clone()], left),
                "{kind}"
            );
        }
    }
}

#[test]
fn missing_value_passes_every_check() {
    for (kind, axis, constraint, ..) in kinds() {
        assert!(
            normalized(checked(axis, kind, constraint, "reject"), json!({ "id": "a" })).is_ok(),
            "{kind}"
        );
    }
}

#[test]
fn failed_range_check_names_its_limit() {
    for (constraint, value, words) in [
        (json!({ "min": 2 }), "1", "1 is below 2"),
        (json!({ "max": 2 }), "3", "3 is above 2"),
        (json!({ "min": "-0.30" }), "-0.31", "-0.31 is below -0.3"),
    ] {
        let definition = checked("amount", "range", constraint, "reject");
        assert_rejected(
            definition,
            json!({ "id": "a", "amount": value }),
            RecordRule::Check,
            "amount",
            words,
        );
    }
    let days = checked("day", "range", json!({ "min": "2020-01-01" }), "reject");
    assert_rejected(
        days,
        json!({ "id": "a", "day": "2019-12-31" }),
        RecordRule::Check,
        "day",
        "is below 2020-01-01",
    );
}

#[test]
fn check_applies_to_each_value_of_a_group() {
    let record =
        json!({ "id": "a", "parts": { "x": { "value": 1 }, "y": { "value": 9 }, "z": { "value": 8 } } });
    let nullify = checked("parts.*.amount", "range", json!({ "max": 5 }), "nullify");
    let accepted = normalized(nullify, record.clone()).unwrap();
    assert_eq!(accepted.content.axes.keys().collect::<Vec<_>>(), ["id", "parts.x.amount"]);
    assert_eq!(accepted.warnings.len(), 2);
    let reject = checked("parts.*.amount", "range", json!({ "max": 5 }), "reject");
    assert_rejected(reject, record.clone(), RecordRule::Check, "parts.y.amount", "9 is above 5");
    let shares = checked("parts.*.amount", "custom", json!("value <= parts.x.amount * 8.5"), "reject");
    assert_rejected(shares, record, RecordRule::Check, "parts.y.amount", "does not hold");
}

/// Whether `expression` is true for a record; otherwise the reason.
fn evaluate_expression(expression: &str) -> Result<(), String> {
    let record = json!({
        "id": "ab", "count": 7, "amount": "2.5", "flag": true, "parts": { "x-1": { "value": 1 }, "y": { "value": 2 } },
    });
    match normalized(checked("id", "custom", json!(expression), "reject"), record) {
        Ok(_) => Ok(()),
        Err(rejection) => Err(rejection.reason),
    }
}

#[test]
fn expression_can_use_all_axes() {
    for expression in [
        "value == 'ab' && id == value",
        "count == 7 && count > 6.5 && count % 2 == 1 && amount > 2 && amount * 2.0 == 5.0",
        "flag && !(count < 3) && (flag ? count : 0) == 7",
        "parts.y.amount == 2.0 && parts['x-1'].amount < parts.y.amount && size(parts) == 2",
        "has(parts.y.amount) && !has(parts.z) && 'y' in parts",
        "name == null || size(name) > 3",
        "kind == null ? true : kind == 'one'",
        "id.startsWith('a') && id.endsWith('b') && id.contains('ab') && count in [6, 7]",
        "double(count) / 2.0 == 3.5 && int(amount) == 2 && string(count) == '7'",
    ] {
        assert_eq!(evaluate_expression(expression), Ok(()), "{expression}");
    }
}

#[test]
fn expression_without_result_reports_reason() {
    for (expression, words) in [
        ("size(name) > 3", "`name` is missing"),
        ("name.startsWith('x')", "`name` is missing"),
        ("count + 1", "neither true nor false"),
        ("count / 0 == 1", "divides by zero"),
        ("count * 9223372036854775807 > 1", "leaves 64 bits"),
        ("parts.z.amount > 1.0", "no `z`"),
        ("amount * 2 > 1.0", "cannot be evaluated"),
        ("parts + parts == parts", "wrong types"),
        ("size(parts.y.amount) > 1", "cannot be evaluated"),
    ] {
        let reason = evaluate_expression(expression).expect_err(expression);
        assert!(reason.contains(words), "{expression}: {reason}");
        assert_eq!(evaluate_expression(expression), Err(reason), "it is the same each time");
    }
}

#[test]
fn expression_reads_every_number_as_double() {
    for amount in ["2", "2.5"] {
        let definition = checked("amount", "custom", json!("amount * 2.0 >= 4.0"), "reject");
        assert!(normalized(definition, json!({ "id": "a", "amount": amount })).is_ok(), "{amount}");
    }
    let large = checked("count", "custom", json!("count > 9223372036854775807"), "reject");
    assert!(normalized(large, json!({ "id": "a", "count": "1e30" })).is_ok());
}

#[test]
fn expression_limits_are_checked_at_registration() {
    let fault = |expression: &str| {
        compile_normalizer(checked("id", "custom", json!(expression), "reject")).unwrap_err().to_string()
    };
    for (expression, words) in [
        ("weight > 1", "`weight`, which is not an axis"),
        ("parts.all(k, parts[k].amount > 0.0)", "cannot have loops"),
        ("[1, 2].map(x, x)[0] == 1", "cannot have loops"),
        ("id.matches('a')", "unknown function `matches`"),
        ("now() > 1", "unknown function `now`"),
        ("count ==", "Syntax error"),
        ("things{a: 1} == 1", "cannot create objects"),
        ("", "1 to 1024 bytes"),
    ] {
        assert!(fault(expression).contains(words), "{expression}: {}", fault(expression));
    }
    let sum = |parts: usize| vec!["1"; parts].join("+") + " == 1";
    assert!(compile_normalizer(checked("id", "custom", json!(sum(15)), "reject")).is_ok());
    assert!(fault(&sum(200)).contains("256"));
    assert_eq!(fault(&sum(510)), fault(&sum(200)));
    assert_eq!(fault(&format!("count in [{}]", vec!["1"; 300].join(","))), fault(&sum(200)));
    insta::assert_snapshot!("fault_of_a_long_expression", fault(&sum(200)));
    let compile_expression =
        |expression: &str| drop(compile_normalizer(checked("id", "custom", json!(expression), "reject")));
    // any result is fine here, but it must come at once and on a small stack
    for (open, close) in [("(", ")"), ("[", "]"), ("!", ""), ("-", ""), ("{1:", "}"), ("size(", ")")] {
        for depth in [20, 100, 170, 1000] {
            compile_expression(&format!("{}true{} == 1", open.repeat(depth), close.repeat(depth)));
        }
    }
    compile_expression(&format!("id{}", ".a".repeat(500)));
    compile_expression(&format!("id{}", "[0]".repeat(330)));
    compile_expression(&"true?1:".repeat(140));
}
