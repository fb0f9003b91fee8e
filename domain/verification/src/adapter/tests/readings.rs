//! Reading and rejection of answers.

use super::*;
use crate::oracle_call::AnswerFault;

fn record() -> Json {
    json!({ "area": "AB", "day": "2026-01-31", "rate": 7.10, "note": "n", "parts": { "a": { "value": 1 } } })
}

struct AdapterReadCase {
    document: Json,
    body: String,
    headers: BTreeMap<String, String>,
    cached_answer: Option<CachedAnswer>,
    point_in_time: Option<Timestamp>,
}

fn case(document: Json, body: impl ToString) -> AdapterReadCase {
    AdapterReadCase {
        document,
        body: body.to_string(),
        headers: BTreeMap::new(),
        cached_answer: None,
        point_in_time: None,
    }
}

impl AdapterReadCase {
    fn read(self) -> AnswerReadOutcome {
        let ready = validate_adapter(self.document).unwrap();
        let subject = sample_subject();
        let question = SourceQuestion {
            subject: &subject,
            point_in_time: self.point_in_time,
            nonce: "n-1",
            asked_at: now(),
            kept: self.cached_answer.as_ref(),
        };
        let body = self.body.as_bytes();
        ready.read(&ReceivedAnswer { body, headers: &self.headers, at: now() }, &question)
    }

    fn expect_answer(self) -> AnswerContent {
        match self.read() {
            AnswerReadOutcome::Said(content) => *content,
            other => panic!("{other:?}"),
        }
    }

    fn expect_rejection(self) -> (AnswerFault, String) {
        match self.read() {
            AnswerReadOutcome::Refused { refusal, cause } => (refusal, cause),
            other => panic!("{other:?}"),
        }
    }
}

fn plain_case(body: impl ToString) -> AdapterReadCase {
    case(plain(), body)
}

#[test]
fn answer_keeps_the_digits_of_the_source() {
    let body =
        r#"{"data":{"area":"AB","day":"2026-01-31","rate":0.1000000000000000055511151231257827,"note":"n"}}"#;
    let content = plain_case(body).expect_answer();
    assert_eq!(content.subject, sample_subject());
    let rate = content.values.get("rate").unwrap();
    assert_eq!(rate.value, AxisValue::Text("0.1000000000000000055511151231257827".into()));
    assert_eq!(rate.definition.as_deref(), Some("mid"));
    assert_eq!(content.values.keys().collect::<Vec<_>>(), ["note", "rate"], "identity axes are not values");
    assert_eq!((content.observed_at, content.issued_at, content.version), (now(), None, None));
    let list = plain_case(json!({ "data": [record(), record()] })).expect_answer();
    assert_eq!(list.values.get("rate").unwrap().value, AxisValue::Text("7.1".into()));
    assert_eq!(list.values.get("parts.a.amount").unwrap().value, AxisValue::Text("1".into()));
}

#[test]
fn answer_without_or_with_several_records_is_reported() {
    for body in [json!({ "data": [] }), json!({ "data": null })] {
        assert_eq!(plain_case(body).read(), AnswerReadOutcome::NoRecord);
    }
    let mut other = record();
    other["rate"] = json!(8);
    assert_eq!(
        plain_case(json!({ "data": [record(), other] })).read(),
        AnswerReadOutcome::Several { records: 2 }
    );
}

#[test]
fn answer_about_another_entity_is_rejected() {
    for (axis, value) in [("area", json!("AC")), ("day", json!("2026-01-30")), ("scheme", json!("two"))] {
        let mut other = record();
        other[axis] = value;
        let both = plain_case(json!({ "data": [record(), other.clone()] })).expect_rejection();
        let (refusal, cause) = plain_case(json!({ "data": other })).expect_rejection();
        assert_eq!((refusal, both.0), (AnswerFault::Identity, AnswerFault::Identity));
        assert!(!cause.contains("AC"), "{cause}");
    }
    let mut silent = record();
    silent.as_object_mut().unwrap().remove("area");
    assert_eq!(plain_case(json!({ "data": silent })).expect_rejection().0, AnswerFault::Schema);
}

#[test]
fn malformed_answer_is_rejected_without_quoting_it() {
    let mut wrong = record();
    wrong["rate"] = json!("s3cret");
    let mut keyed = record();
    keyed["parts"] = json!({ "s3cret": { "value": "s3cret" } });
    for (body, message) in [
        ("<html>s3cret</html>".to_owned(), "it is not JSON: "),
        (r#"{"data":{"s3cret":1,"s3cret":2}}"#.to_owned(), "a name occurs twice"),
        (r#"{"data":{"s3cret":"\ud800"}}"#.to_owned(), "not a JSON document"),
        (format!("{}{}", "[".repeat(100), "]".repeat(100)), "too deep"),
        (String::new(), "it is not JSON: "),
        (json!({ "s3cret": 1 }).to_string(), "it has nothing at `records` (/data)"),
        (json!({ "data": "s3cret" }).to_string(), "it has a text at `records`"),
        (json!({ "data": ["s3cret"] }).to_string(), "it has a list at `records`"),
        (json!({ "data": wrong }).to_string(), "`axis_type` on `rate`"),
        (json!({ "data": keyed }).to_string(), "it violates `axis_type` on `parts.*.amount`"),
        (json!({ "data": [record(), {}] }).to_string(), "`mapping` on `area`"),
    ] {
        let (refusal, cause) = plain_case(&body).expect_rejection();
        assert_eq!(refusal, AnswerFault::Schema, "{body}");
        assert!(cause.contains(message) && !cause.contains("s3cret"), "{body}: {cause}");
    }
}

#[test]
fn answer_must_match_schema_and_required_fields() {
    let mut document = with([("/required_fields", json!(["note"])), ("/schema_id", json!("answer"))]);
    document["schemas"] = json!({ "answer": { "properties": { "rate": { "maximum": 100 } } } });
    let mut record = record();
    assert!(matches!(case(document.clone(), json!({ "data": record })).read(), AnswerReadOutcome::Said(_)));
    record["rate"] = json!(101);
    let (refusal, cause) = case(document.clone(), json!({ "data": record })).expect_rejection();
    let message = "it violates `schema`: it breaks `/properties/rate/maximum` of the schema";
    assert_eq!((refusal, cause.as_str()), (AnswerFault::Schema, message));
    record["rate"] = json!(1);
    record["note"] = json!(" ");
    let cause = case(document, json!({ "data": record })).expect_rejection().1;
    assert!(cause.contains("`required_field`") && cause.contains("`note`"), "{cause}");
}

#[test]
fn failed_check_is_reported_with_its_bound_without_the_value() {
    let read = |axis: &str, kind: &str, constraint: Json, on_failure: &str, record: Json| {
        let check =
            json!([{ "axis": axis, "check_type": kind, "constraint": constraint, "on_failure": on_failure }]);
        let document = with([("/normalization/post_normalization_checks", check)]);
        case(document, json!({ "data": record }))
    };
    let mut record = record();
    (record["rate"], record["note"]) = (json!(777), json!("s3cret"));
    record["parts"] = json!({ "s3cret": { "value": 777 } });
    for (axis, kind, constraint, message) in [
        ("rate", "range", json!({ "max": 100 }), "`check` on `rate`: it is above 100"),
        ("rate", "range", json!({ "min": 1000 }), "`check` on `rate`: it is below 1000"),
        ("rate", "enum", json!([1, 2]), "`check` on `rate`: it is not one of the allowed values: 1, 2"),
        ("note", "regex", json!("[a-z]+"), "`check` on `note`: it does not match ^(?:[a-z]+)$"),
        ("rate", "custom", json!("value < 3.0"), "`check` on `rate`: `value < 3.0` does not hold"),
        (
            "rate",
            "custom",
            json!("parts[string(rate)].amount > 1.0"),
            "on `rate`: `parts[string(rate)].amount > 1.0` cannot be evaluated",
        ),
        ("parts.*.amount", "range", json!({ "max": 100 }), "`check` on `parts.*.amount`: it is above 100"),
    ] {
        let (refusal, cause) =
            read(axis, kind, constraint.clone(), "reject", record.clone()).expect_rejection();
        assert_eq!((refusal, cause.ends_with(message)), (AnswerFault::Schema, true), "{cause}");
        let noted = read(axis, kind, constraint, "nullify", record.clone()).expect_answer().warnings;
        assert!(noted.len() == 1 && noted[0].ends_with(message), "{noted:?}");
        assert!(
            ["s3cret", "777"].iter().all(|value| !format!("{cause}{noted:?}").contains(value)),
            "{cause}: {noted:?}"
        );
    }
}

#[test]
fn record_counts_only_if_valid_at_the_requested_time() {
    let valid_time = ("/normalization/valid_time", json!({ "from_field": "from", "until_field": "until" }));
    let dated = |rate: u32, from: &str, until: Option<&str>| {
        let mut record = record();
        (record["rate"], record["from"], record["until"]) = (json!(rate), json!(from), json!(until));
        record
    };
    let data = json!({ "data": [dated(1, "2020-01-01", Some("2026-01-01")), dated(2, "2026-01-01", None)] });
    let rate_at = |point_in_time: Option<&str>| {
        let mut case = case(with([valid_time.clone()]), &data);
        case.point_in_time = point_in_time.map(at);
        match case.read() {
            AnswerReadOutcome::Said(content) => {
                content.values.get("rate").map(|content| content.value.to_string())
            }
            AnswerReadOutcome::NoRecord => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rate_at(None).as_deref(), Some("2"));
    assert_eq!(rate_at(Some("2025-12-31T23:59:59Z")).as_deref(), Some("1"));
    assert_eq!(rate_at(Some("2026-01-01T00:00:00Z")).as_deref(), Some("2"));
    assert_eq!(rate_at(Some("2019-12-31T23:59:59Z")), None);
}

/// An adapter with a location for each kind of metadata.
fn guarded() -> Json {
    with([
        ("/version", json!({ "header": "X-Data-Version" })),
        ("/observed_at", json!({ "path": "meta.as_of" })),
        ("/issued_at", json!({ "path": "meta.issued" })),
        ("/max_issue_age_seconds", json!(300)),
        ("/nonce", json!({ "path": "meta.nonce" })),
        ("/endpoint", json!("https://bank.example/{area}/{day}?n={nonce}")),
    ])
}

fn guarded_case(meta: Json) -> AdapterReadCase {
    let mut case = case(guarded(), json!({ "data": record(), "meta": meta }));
    case.headers = BTreeMap::from([("x-data-version".into(), "v7".into())]);
    case
}

fn meta(name: &str, value: Json) -> Json {
    let mut meta = json!({ "as_of": "2026-11-01", "issued": "2026-11-20T11:59:00Z", "nonce": "n-1" });
    meta[name] = value;
    meta
}

#[test]
fn metadata_is_read_at_its_locations() {
    let content = guarded_case(meta("nonce", json!("n-1"))).expect_answer();
    assert_eq!(content.version.as_deref(), Some("v7"));
    assert_eq!(content.observed_at, at("2026-11-01T00:00:00Z"));
    assert_eq!(content.issued_at, Some(at("2026-11-20T11:59:00Z")));
    for issued in
        [json!("Fri, 20 Nov 2026 11:59:00 GMT"), json!(1_795_175_940), json!("2026-11-20T12:59:00+01:00")]
    {
        let content = guarded_case(meta("issued", issued)).expect_answer();
        assert_eq!(content.issued_at, Some(at("2026-11-20T11:59:00Z")));
    }
    for (name, value) in [
        ("as_of", json!(null)),
        ("as_of", json!("s3cret")),
        ("as_of", json!("2026-11-20T12:01:01Z")),
        ("issued", json!("s3cret")),
        ("issued", json!(true)),
        ("nonce", json!(["s3cret"])),
    ] {
        let (refusal, cause) = guarded_case(meta(name, value)).expect_rejection();
        assert_eq!(refusal, AnswerFault::Schema);
        assert!(!cause.contains("s3cret"), "{cause}");
    }
    let mut unversioned = guarded_case(meta("nonce", json!("n-1")));
    unversioned.headers.clear();
    assert_eq!(
        unversioned.expect_rejection(),
        (AnswerFault::Schema, "the value at `version` is missing".to_owned())
    );
}

#[test]
fn answer_without_observed_at_holds_no_later_than_its_issue() {
    let observed_at = |issued: &str| {
        let mut document = guarded();
        document.as_object_mut().unwrap().remove("observed_at");
        let meta = json!({ "issued": issued, "nonce": "n-1" });
        let mut case = case(document, json!({ "data": record(), "meta": meta }));
        case.headers = BTreeMap::from([("x-data-version".into(), "v7".into())]);
        case.expect_answer().observed_at
    };
    assert_eq!(observed_at("2026-11-20T11:56:00Z"), at("2026-11-20T11:56:00Z"));
    assert_eq!(
        observed_at("2026-11-20T12:00:30Z"),
        now(),
        "a time of issue after the request does not count"
    );
}

#[test]
fn signed_answer_without_a_record_requires_a_nonce() {
    let none = |has_nonce: bool, data: Json| {
        let mut document = guarded();
        document.as_object_mut().unwrap().remove("version");
        if !has_nonce {
            document.as_object_mut().unwrap().remove("nonce");
            document["endpoint"] = json!("https://bank.example/{area}/{day}");
        }
        let keys = json!([{ "kid": "k-1", "kty": "OKP", "crv": "Ed25519", "x": X }]);
        document["signature"] = json!({ "method": "jws", "keys": keys });
        case(document, json!({ "data": data, "meta": meta("nonce", json!("n-1")) }))
    };
    for data in [json!([]), json!(null)] {
        assert_eq!(none(true, data.clone()).read(), AnswerReadOutcome::NoRecord);
        let (refusal, cause) = none(false, data).expect_rejection();
        assert!(refusal == AnswerFault::Identity, "{cause}");
        insta::assert_snapshot!("rejection_of_a_signed_answer_without_a_record", cause);
    }
    // an answer that names its subject needs no nonce
    assert!(matches!(none(false, json!([record()])).read(), AnswerReadOutcome::Said(_)));
}

#[test]
fn answer_that_was_given_before_is_a_replay() {
    for (name, value, message) in [
        ("nonce", json!("n-2"), "the nonce that was sent"),
        ("nonce", json!(null), "the nonce that was sent"),
        ("issued", json!(null), "its time of issue is missing"),
        ("issued", json!("2026-11-20T11:54:59Z"), "over 5 minutes ago"),
        ("issued", json!("2026-11-20T12:01:01Z"), "in the future"),
    ] {
        let (refusal, cause) = guarded_case(meta(name, value)).expect_rejection();
        assert!(refusal == AnswerFault::Replay && cause.contains(message), "{cause}");
    }
    for issued in ["2026-11-20T11:55:00Z", "2026-11-20T12:01:00Z"] {
        assert!(
            matches!(guarded_case(meta("issued", json!(issued))).read(), AnswerReadOutcome::Said(_)),
            "{issued}"
        );
    }
    for (last, is_replay) in [
        ("2026-11-20T11:59:00.000000001Z", true),
        ("2026-11-20T11:59:00Z", false),
        ("2026-11-20T11:58:00Z", false),
    ] {
        let mut case = guarded_case(meta("nonce", json!("n-1")));
        // it does not matter which adapter read it
        let other = validate_adapter(plain()).unwrap();
        case.cached_answer =
            Some(CachedAnswer { issued_at: Some(at(last)), ..sample_cached_answer("7", &other) });
        let reading = case.read();
        let refused = matches!(&reading, AnswerReadOutcome::Refused { refusal: AnswerFault::Replay, .. });
        assert_eq!(refused, is_replay, "{last}: {reading:?}");
    }
}

#[test]
fn cached_answer_is_used_only_within_its_ttl() {
    let hour = json!(3600);
    let ready = validate_adapter(with([("/ttl_seconds", hour.clone())])).unwrap();
    let cached = sample_cached_answer("7", &ready);
    assert!(ready.is_fresh(&cached, now()) && ready.is_usable(&cached, now()));
    assert!(!ready.is_fresh(&cached, at("2026-11-20T12:00:00.001Z")));
    let clock_set_back = at("2026-11-20T10:59:59Z");
    assert!(!ready.is_fresh(&cached, clock_set_back) && !ready.is_usable(&cached, clock_set_back));
    let another = validate_adapter(with([("/ttl_seconds", hour), ("/keep_seconds", json!(86_400))])).unwrap();
    assert!(
        !another.is_fresh(&cached, now()) && !another.is_usable(&cached, now()),
        "another adapter read it"
    );
    assert!(!ready.is_usable(&cached, at("2026-12-20T11:00:01Z")));
}

#[test]
fn unchanged_is_allowed_only_without_proofs() {
    assert!(validate_adapter(plain()).unwrap().may_be_unchanged());
    assert!(!validate_adapter(guarded()).unwrap().may_be_unchanged());
}
