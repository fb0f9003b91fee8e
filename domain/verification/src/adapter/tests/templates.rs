//! URLs of queries.

use super::*;

fn sample_question(subject: &BTreeMap<String, AxisValue>) -> SourceQuestion<'_> {
    SourceQuestion { subject, point_in_time: None, nonce: "n-1", asked_at: now(), kept: None }
}

fn url(endpoint: &str, area: &str) -> Result<String, UnsupportedQuestionError> {
    let mut document = with([("/endpoint", json!(endpoint))]);
    if endpoint.contains("{nonce}") {
        document["nonce"] = json!({ "path": "nonce" });
    }
    let mut subject = sample_subject();
    subject.insert("area".into(), AxisValue::Text(area.into()));
    validate_adapter(document).unwrap().url(&sample_question(&subject))
}

#[test]
fn inserted_values_are_percent_encoded() {
    let endpoint = "https://bank.example/v1/{area}/rates?day={day}&n={nonce}";
    for (area, written) in [
        ("AB", "AB"),
        ("a-b.c_d~e", "a-b.c_d~e"),
        ("a/../b?c=d&e#f", "a%2F..%2Fb%3Fc%3Dd%26e%23f"),
        ("Å 100%", "%C3%85%20100%25"),
        ("{day}", "%7Bday%7D"),
        ("...", "..."),
    ] {
        let expected = format!("https://bank.example/v1/{written}/rates?day=2026-01-31&n=n-1");
        assert_eq!(url(endpoint, area), Ok(expected), "{area}");
    }
}

#[test]
fn value_that_would_change_the_path_is_rejected() {
    let endpoint = "https://bank.example/v1/{area}/rates?day={day}";
    for (area, message) in [
        (".", "would change the path"),
        ("..", "would change the path"),
        ("", "it is empty"),
        ("a\nb", "a control character"),
    ] {
        let fault = url(endpoint, area).unwrap_err();
        assert!(
            matches!(fault, UnsupportedQuestionError::Value { .. }) && fault.to_string().contains(message),
            "{area:?}: {fault}"
        );
    }
    let fault = url("https://bank.example/.{area}/{day}", ".").unwrap_err();
    assert!(matches!(fault, UnsupportedQuestionError::Value { .. }), "{fault}");
    let fault = url(endpoint, &"x".repeat(ENDPOINT_MAX_BYTES)).unwrap_err();
    assert!(matches!(fault, UnsupportedQuestionError::TooLong { .. }), "{fault}");
}

#[test]
fn question_outside_of_the_adapter_is_not_sent() {
    let ready = validate_adapter(plain()).unwrap();
    let mut other = sample_subject();
    other.insert("scheme".into(), AxisValue::Text("two".into()));
    let (axis, value) = ("scheme".to_owned(), "one".to_owned());
    assert_eq!(ready.url(&sample_question(&other)), Err(UnsupportedQuestionError::Elsewhere { axis, value }));
    for axis in ["area", "day", "scheme"] {
        let mut open = sample_subject();
        open.remove(axis);
        assert_eq!(
            ready.url(&sample_question(&open)),
            Err(UnsupportedQuestionError::Open { axis: axis.into() })
        );
    }
}

#[test]
fn past_is_queried_only_if_the_adapter_covers_it() {
    let then = Some(at("2020-01-01T00:00:00+01:00"));
    let subject = sample_subject();
    let question = SourceQuestion { point_in_time: then, ..sample_question(&subject) };
    assert_eq!(validate_adapter(plain()).unwrap().url(&question), Err(UnsupportedQuestionError::Past));
    let endpoint = json!("https://bank.example/{area}/{day}?at={point_in_time}");
    let url = validate_adapter(with([("/endpoint", endpoint)])).unwrap().url(&question).unwrap();
    assert_eq!(url, "https://bank.example/AB/2026-01-31?at=2019-12-31T23%3A00%3A00Z");
    let valid_time = ("/normalization/valid_time", json!({ "from_field": "from", "until_field": "until" }));
    assert!(validate_adapter(with([valid_time])).unwrap().url(&question).is_ok());
}

#[test]
fn invalid_endpoint_is_rejected_with_its_fault() {
    let long = format!("https://bank.example/{}", "x".repeat(ENDPOINT_MAX_BYTES));
    let rejected = |endpoint: &str| validate_adapter(with([("/endpoint", json!(endpoint))])).unwrap_err();
    for (endpoint, expected) in [
        ("bank.example/{area}/{day}", EndpointError::Start),
        ("ftp://bank.example/{area}/{day}", EndpointError::Start),
        ("https://bank.example?{area}/{day}", EndpointError::Start),
        ("https:///{area}/{day}", EndpointError::Start),
        ("https://{area}.example/{day}", EndpointError::Host),
        ("https://{area}@bank.example/{day}", EndpointError::Host),
        ("https://me:s3cret@bank.example/{area}/{day}", EndpointError::Login),
        ("https://bank.example/{area}/{day}#x", EndpointError::Fragment),
        ("https://bank.example/{area}/{day", EndpointError::Braces),
        ("https://bank.example/area}/{day}", EndpointError::Braces),
        ("https://bank.example/{area}/{day}/{}", EndpointError::Braces),
        ("https://bank.example/{{area}}/{day}", EndpointError::Braces),
        ("https://bank.example/../{area}/{day}", EndpointError::Dots),
        ("https://bank.example/%2E%2e/{area}/{day}", EndpointError::Dots),
        ("https://bank.example/{area} /{day}", EndpointError::Letter { found: ' ' }),
        ("https://bank.example\\{area}/{day}", EndpointError::Letter { found: '\\' }),
        ("https://bänk.example/{area}/{day}", EndpointError::Letter { found: 'ä' }),
    ] {
        assert_eq!(rejected(endpoint), AdapterError::Endpoint(expected), "{endpoint}");
    }
    let unknown = rejected("https://bank.example/{area}/{rate}");
    let AdapterError::Endpoint(EndpointError::Unknown { name, allowed }) = &unknown else {
        panic!("{unknown}")
    };
    assert_eq!(name, "rate");
    assert!(["`{area}`", "`{day}`", "`{scheme}`"].iter().all(|name| allowed.contains(name)), "{unknown}");
    let too_long = rejected(&long);
    assert!(matches!(too_long, AdapterError::Endpoint(EndpointError::TooLong { .. })), "{too_long}");
}
