use super::support::*;
use crate::VerifyRequest;
use crate::request::VerificationQuestion;
use serde_json::{Value as Json, json};

fn read(request: Json) -> Result<VerificationQuestion, String> {
    let workflow = workflow(&["dose", "visits", "address", "values.*.amount"], &["lab-a"], json!({}));
    let request: VerifyRequest = serde_json::from_value(request).map_err(|error| error.to_string())?;
    request.read(&workflow, ontology(), now()).map_err(|error| error.to_string())
}

#[test]
fn question_has_the_canonical_form_of_each_value() {
    let question = read(json!({
        "workflow": "intake",
        "where": {"patient": "p-1", "day": "2026-11-20"},
        "axes": ["values.iron.amount", "dose", "visits"],
        "claimed": {"dose": {"value": 10.50, "claimed_by": " p-1 ", "confirmed": true},
                    "visits": {"value": "007", "claimed_by": "p-1"}},
        "point_in_time": "2026-11-19T01:00:00+01:00"
    }));
    assert_eq!(
        serde_json::to_value(question.expect("the value is valid")).expect("the value serializes"),
        json!({
            "where": {"patient": "p-1", "day": "2026-11-20"},
            "axes": ["values.iron.amount", "dose", "visits"],
            "claimed": {"dose": {"value": "10.5", "claimed_by": "p-1", "confirmed": true},
                        "visits": {"value": "7", "claimed_by": "p-1", "confirmed": false}},
            "point_in_time": "2026-11-19T00:00:00Z"
        })
    );
}

#[test]
fn question_without_an_identified_entity_is_valid() {
    let question = read(json!({"workflow": "intake", "where": {}, "axes": ["dose"]}));
    assert!(question.expect("the value is valid").subject.is_empty());
}

#[test]
fn invalid_request_is_rejected_with_field_and_allowed_values() {
    let plain = json!({"workflow": "intake", "where": {"patient": "p-1"}, "axes": ["dose"]});
    let claim = |value: Json, by: &str| json!({"dose": {"value": value, "claimed_by": by}});
    let cases = [
        ("workflow", json!("other"), "`workflow` is other, but must be intake"),
        ("axes", json!([]), "`axes` names 0 axes; allowed: 1 to 64"),
        ("axes", json!(["dose", "dose"]), "`axes` names `dose` twice"),
        (
            "axes",
            json!(["inr"]),
            "`axes`: `inr` is not allowed; allowed: dose, visits, address, values.*.amount",
        ),
        ("axes", json!(["patient"]), "`axes`: `patient` is not allowed"),
        ("axes", json!(["values.*.amount"]), "`values.*.amount` is a group; request one of its values"),
        ("where", json!({"dose": 1}), "`where`: `dose` is not allowed; allowed: patient, day"),
        ("where", json!({"day": "yesterday"}), "`where.day`: `yesterday` is not a date of RFC 3339"),
        ("where", json!({"patient": "p".repeat(65_536)}), " bytes as JSON; allowed: at most 65536"),
        ("where", json!({"patient": null}), "`where.patient`: a value of type string is required"),
        (
            "claimed",
            json!({"visits": {"value": 1, "claimed_by": "x"}}),
            "`claimed`: `visits` is not allowed; allowed: dose",
        ),
        ("claimed", claim(json!("much"), "x"), "`claimed.dose`: `much` is not a number"),
        (
            "claimed",
            claim(json!(1), " "),
            "`claimed.dose.claimed_by` is blank or too long (1 to 256 bytes allowed)",
        ),
        ("claimed", json!({"dose": {"value": 1, "claimed_by": "x", "sure": true}}), "unknown field `sure`"),
        ("wherever", json!({}), "unknown field `wherever`"),
        ("point_in_time", json!("soon"), "point_in_time"),
        (
            "point_in_time",
            json!("2026-11-20T10:01:00.000000001Z"),
            "in the future (now: 2026-11-20T10:00:00Z); at most 60 s ahead are allowed",
        ),
    ];
    for (field, value, message) in cases {
        let mut request = plain.clone();
        request[field] = value.clone();
        let refused = read(request).expect_err(&format!("{field} {value}"));
        // an error of the format need not name its field
        assert!(refused.contains(message) || field == "point_in_time", "{field} {value}: {refused}");
    }
}

#[test]
fn time_one_minute_ahead_is_accepted() {
    let ahead =
        json!({"workflow": "intake", "where": {}, "axes": ["dose"], "point_in_time": "2026-11-20T10:01:00Z"});
    assert!(read(ahead).is_ok());
}

#[test]
fn error_truncates_a_long_name() {
    let long = "x".repeat(100_000);
    let key = format!("values.{long}.amount");
    let claim = |value: &str, by: &str| json!({"value": value, "claimed_by": by});
    for request in [
        json!({"where": {}, "axes": [&long]}),
        json!({"where": {&long: 1}, "axes": ["dose"]}),
        json!({"where": {}, "axes": ["dose"], "claimed": {&long: claim("1", "x")}}),
        json!({"where": {}, "axes": [&key, &key]}),
        json!({"where": {}, "axes": [&key], "claimed": {"dose": claim("1", "x")}}),
        json!({"where": {}, "axes": [&key], "claimed": {&key: claim("much", "x")}}),
        json!({"where": {}, "axes": [&key], "claimed": {&key: claim("1", "")}}),
    ] {
        let mut request = request;
        request["workflow"] = json!("intake");
        let refused = read(request).expect_err("the value is invalid");
        assert!(refused.len() < 400, "{} bytes", refused.len());
    }
}

#[test]
fn number_that_json_would_round_must_be_a_string() {
    let written = |value: &str| {
        let text = format!(
            r#"{{"workflow": "intake", "where": {{"patient": "p-1"}}, "axes": ["dose"],
                "claimed": {{"dose": {{"value": {value}, "claimed_by": "p-1"}}}}}}"#
        );
        let request = serde_json::from_str::<VerifyRequest>(&text).map_err(|error| error.to_string())?;
        read(serde_json::to_value(request).expect("the value serializes"))
    };
    let refused = written("0.12345678901234567890").expect_err("it would be another number");
    assert!(refused.starts_with("the number 0.12345678901234567890 has more digits"), "{refused}");
    let exact = written(r#""0.12345678901234567890""#).expect("a text is exact");
    assert_eq!(
        serde_json::to_value(&exact.claimed["dose"].value).expect("the value serializes"),
        json!("0.1234567890123456789")
    );
    let subject =
        r#"{"workflow": "intake", "where": {"patient": 12345678901234567890123}, "axes": ["dose"]}"#;
    assert!(serde_json::from_str::<VerifyRequest>(subject).is_err());
}
