//! Validation of adapter documents.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A point of Ed25519 of small order: the neutral one.
const OF_SMALL_ORDER: &str = "0100000000000000000000000000000000000000000000000000000000000000";
/// 2, which is the `y` of no point of Ed25519.
const OFF_THE_CURVE: &str = "0200000000000000000000000000000000000000000000000000000000000000";
/// The public key of RFC 7515, A.3.
const P256_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const P256_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

fn fault(document: Json) -> AdapterError {
    validate_adapter(document).map(drop).unwrap_err()
}

fn jwk() -> Json {
    json!({ "kid": "k-1", "kty": "OKP", "crv": "Ed25519", "x": X })
}

fn p256(x: &str, y: &str) -> Json {
    json!({ "kid": "k-2", "kty": "EC", "crv": "P-256", "x": x, "y": y })
}

/// A document with signed answers, whose time of issue is signed, too.
fn signed(keys: Json) -> Json {
    with([
        ("/signature", json!({ "method": "jws", "keys": keys })),
        ("/issued_at", json!({ "path": "meta.issued" })),
        ("/max_issue_age_seconds", json!(300)),
    ])
}

#[test]
fn document_is_read_strictly_and_round_trips() {
    let mut document = signed(json!([jwk()]));
    let adapter: Adapter = serde_json::from_value(document.clone()).unwrap();
    let written = serde_json::to_value(&adapter).unwrap();
    assert_eq!(serde_json::from_value::<Adapter>(written).unwrap(), adapter);
    assert_eq!(adapter.keep_seconds, 30 * 86_400);
    document["timeout"] = json!(1);
    assert!(serde_json::from_value::<Adapter>(document).unwrap_err().to_string().contains("`timeout`"));
    let mut private = jwk();
    private["d"] = json!("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
    let refused = serde_json::from_value::<Adapter>(signed(json!([private]))).unwrap_err().to_string();
    assert!(refused.contains("`d`") && !refused.contains("nWGxne"), "{refused}");
}

#[test]
fn digest_ignores_written_defaults_only() {
    let digest = |document: Json| {
        domain_base::digest::digest_of_json(&serde_json::from_value::<Adapter>(document).unwrap())
    };
    assert_eq!(digest(plain()), digest(with([("/keep_seconds", json!(2_592_000))])));
    assert_ne!(digest(plain()), digest(with([("/keep_seconds", json!(1))])));
}

#[test]
fn adapter_works_without_the_names_of_its_normalization() {
    let mut short = plain();
    for name in ["normalizer_id", "source_schema_id", "target_ontology_id"] {
        short["normalization"].as_object_mut().unwrap().remove(name);
    }
    let ready = validate_adapter(short).unwrap();
    assert_eq!(ready.adapter().normalization.normalizer_id.as_deref(), Some("bank"), "the source's id");
}

/// Documents whose normalization does not fit the source or the ontology.
fn documents_with_a_foreign_name() -> Vec<Json> {
    vec![
        with([("/normalization/target_ontology_id", json!("other"))]),
        with([("/required_fields", json!(["$.a[*]"]))]),
        with([("/schema_id", json!("none"))]),
        with([("/normalization/axis_mappings/5/target_axis", json!("nothing"))]),
        with([("/normalization/axis_mappings/1/target_axis", json!("note"))]),
    ]
}

#[test]
fn document_must_match_its_source_and_ontology() {
    let (named, given) = ("other".parse().unwrap(), "bank".parse().unwrap());
    assert_eq!(fault(with([("/oracle_id", json!("other"))])), AdapterError::OtherSource { named, given });
    for document in documents_with_a_foreign_name() {
        let fault = fault(document);
        assert!(matches!(fault, AdapterError::Definition(_)), "{fault:?}");
    }
}

/// Documents whose answers could not be compared on an identity axis, with this axis.
fn documents_with_an_unclear_identity() -> [(Json, &'static str); 3] {
    let area = "/normalization/axis_mappings/0";
    let defaulted =
        with([(&format!("{area}/default_value"), json!("AB")), (&format!("{area}/required"), json!(false))]);
    let open = with([("/endpoint", json!("https://bank.example/{area}"))]);
    let asked_by_all = with([("/endpoint", json!("https://bank.example/{area}/{day}/{scheme}"))]);
    [(defaulted, "area"), (open, "day"), (asked_by_all, "scheme")]
}

#[test]
fn answer_must_name_the_requested_identity_axes() {
    for (document, unclear) in documents_with_an_unclear_identity() {
        let fault = fault(document);
        assert!(matches!(&fault, AdapterError::Identity { axis, .. } if axis == unclear), "{fault:?}");
    }
}

/// Documents with an invalid location of metadata, and its field.
fn documents_with_an_invalid_location() -> Vec<(Json, &'static str)> {
    let locations = [
        ("version", json!({ "path": "a[" })),
        ("version", json!({ "path": "a.*" })),
        ("observed_at", json!({ "header": "x y" })),
        ("observed_at", json!({ "header": "" })),
    ];
    locations.into_iter().map(|(field, place)| (with([(&format!("/{field}"), place)]), field)).collect()
}

#[test]
fn metadata_locations_are_valid_and_covered_by_a_signature() {
    for (document, at) in documents_with_an_invalid_location() {
        let fault = fault(document);
        assert!(matches!(fault, AdapterError::Place { field, .. } if field == at), "{fault:?}");
    }
    for field in ["version", "observed_at", "issued_at"] {
        let mut document = signed(json!([jwk()]));
        document[field] = json!({ "header": "x-said" });
        assert_eq!(fault(document), AdapterError::Unsigned { field });
    }
}

#[test]
fn signed_adapter_without_replay_check_is_rejected() {
    let keys = json!([jwk()]);
    let signature = ("/signature", json!({ "method": "ed25519", "header": "x-signature", "keys": keys }));
    assert_eq!(fault(with([signature.clone()])), AdapterError::Replayable);
    let nonce = ("/nonce", json!({ "path": "nonce" }));
    let endpoint = ("/endpoint", json!("https://bank.example/{area}/{day}?n={nonce}"));
    assert!(validate_adapter(with([signature.clone(), nonce.clone(), endpoint.clone()])).is_ok());
    assert_eq!(fault(with([signature, nonce.clone()])), AdapterError::Nonce);
    assert_eq!(fault(with([nonce])), AdapterError::Nonce);
    assert_eq!(fault(with([endpoint])), AdapterError::Nonce);
    assert!(validate_adapter(signed(json!([jwk()]))).is_ok());
    for document in documents_with_half_an_issue_age() {
        let fault = fault(document);
        assert!(matches!(fault, AdapterError::IssueAge(_)), "{fault:?}");
    }
}

fn documents_with_half_an_issue_age() -> [Json; 2] {
    [with([("/issued_at", json!({ "path": "issued" }))]), with([("/max_issue_age_seconds", json!(1))])]
}

#[test]
fn signed_adapter_must_prove_the_requested_time() {
    let endpoint = |more: &str| {
        let mut document = signed(json!([jwk()]));
        document["endpoint"] =
            json!(format!("https://bank.example/{{area}}/{{day}}?at={{point_in_time}}{more}"));
        document
    };
    assert_eq!(fault(endpoint("")), AdapterError::AnyTime);
    let mut with_nonce = endpoint("&n={nonce}");
    with_nonce["nonce"] = json!({ "path": "meta.nonce" });
    assert!(validate_adapter(with_nonce).is_ok());
    let mut with_time = endpoint("");
    with_time["normalization"]["valid_time"] = json!({ "from_field": "from" });
    assert!(validate_adapter(with_time).is_ok());
    let mut unsigned = endpoint("");
    unsigned.as_object_mut().unwrap().remove("signature");
    assert!(validate_adapter(unsigned).is_ok());
}

/// The fault of a time span that is not within 1 s and `max_s`.
fn bound(field: &'static str, seconds: u64, max_s: u64) -> AdapterError {
    AdapterError::Bound { field, seconds, min_s: 1, max_s }
}

/// The fault of a time span that is longer than the axis `rate` allows.
fn ttl(field: &'static str, seconds: u64) -> AdapterError {
    AdapterError::Ttl { field, seconds, axis: "rate".into(), limit_s: 3600 }
}

#[test]
fn time_spans_are_limited_by_range_and_ontology() {
    for (document, expected) in [
        (with([("/ttl_seconds", json!(0))]), bound("ttl_seconds", 0, 2_592_000)),
        (with([("/ttl_seconds", json!(3601))]), ttl("ttl_seconds", 3601)),
        (with([("/keep_seconds", json!(0))]), bound("keep_seconds", 0, 31_622_400)),
        (with([("/keep_seconds", json!(31_622_401))]), bound("keep_seconds", 31_622_401, 31_622_400)),
        (with([("/keep_seconds", json!(60)), ("/ttl_seconds", json!(61))]), bound("ttl_seconds", 61, 60)),
    ] {
        assert_eq!(fault(document), expected);
    }
    assert!(validate_adapter(with([("/ttl_seconds", json!(3600))])).is_ok());
    let issued = |age_s: u32| {
        with([("/issued_at", json!({ "path": "meta.issued" })), ("/max_issue_age_seconds", json!(age_s))])
    };
    assert_eq!(fault(issued(3601)), ttl("max_issue_age_seconds", 3601));
    assert!(validate_adapter(issued(3600)).is_ok());
}

fn rsa(n: &str, e: &str) -> Json {
    json!([{ "kid": "r", "kty": "RSA", "n": n, "e": e }])
}

/// An adapter whose raw signatures have a key of another type.
fn document_with_a_key_of_another_type() -> Json {
    let mut document = signed(json!([]));
    document["signature"] =
        json!({ "method": "ed25519", "header": "x-signature", "keys": [jwk(), p256(P256_X, P256_Y)] });
    document
}

/// Documents that are valid except for their keys.
fn documents_with_invalid_keys() -> Vec<Json> {
    let changed = |name: &str, value: Json| {
        let mut key = jwk();
        key[name] = value;
        json!([key])
    };
    let keys = [
        json!([]),
        Json::Array(vec![jwk(); 9]),
        json!([jwk(), jwk()]),
        changed("kid", json!("")),
        changed("x", json!("AAAA")),
        changed("x", json!(format!("{X}="))),
        changed("crv", json!("P-256")),
        changed("kty", json!("EC")),
        changed("y", json!(X)),
        changed("alg", json!("ES256")),
        rsa("AQAB", "AQAB"),
        rsa(&"A".repeat(342), "AQAB"),
        rsa(&"w".repeat(342), "Aw"),
    ];
    keys.into_iter().map(signed).chain([document_with_a_key_of_another_type()]).collect()
}

#[test]
fn invalid_signature_keys_are_rejected() {
    for document in documents_with_invalid_keys() {
        let fault = fault(document);
        assert!(matches!(fault, AdapterError::Keys(_)), "{fault:?}");
    }
    let mut p256 = p256(P256_X, P256_Y);
    (p256["alg"], p256["use"]) = (json!("ES256"), json!("sig"));
    let all = json!([jwk(), p256, rsa(&"w".repeat(342), "AQAB")[0]]);
    let ready = validate_adapter(signed(all)).unwrap();
    let algorithms: Vec<_> =
        ready.signature().unwrap().1.iter().map(|key| key.algorithm().into_str()).collect();
    assert_eq!(algorithms, ["EdDSA", "ES256", "RS256"]);
}

#[test]
fn fault_of_a_document_is_worded_as_in_the_snapshot() {
    let of_identity = documents_with_an_unclear_identity().map(|(document, _)| document);
    let of_location = documents_with_an_invalid_location().into_iter().map(|(document, _)| document);
    let found = documents_with_a_foreign_name().into_iter().chain(of_identity).chain(of_location);
    let found =
        found.chain(documents_with_half_an_issue_age()).chain(documents_with_invalid_keys()).map(fault);
    let made = [
        AdapterError::OtherSource { named: "other".parse().unwrap(), given: "bank".parse().unwrap() },
        AdapterError::Unsigned { field: "version" },
        AdapterError::Replayable,
        AdapterError::AnyTime,
        AdapterError::Nonce,
        bound("ttl_seconds", 0, 60),
        ttl("ttl_seconds", 3601),
    ];
    let keys = [OF_SMALL_ORDER, OFF_THE_CURVE].map(|hex| fault_of_ed25519(hex).unwrap());
    let found = found.chain(keys).chain([fault(signed(json!([p256(P256_Y, P256_X)])))]);
    let lines: Vec<_> = made.into_iter().chain(found).map(|fault| fault.to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// The fault of an Ed25519 key with these bytes, in hexadecimal digits.
fn fault_of_ed25519(hex: &str) -> Option<AdapterError> {
    let byte = |pointer| u8::from_str_radix(&hex[pointer..pointer + 2], 16).unwrap();
    let mut key = jwk();
    key["x"] = json!(URL_SAFE_NO_PAD.encode((0..64).step_by(2).map(byte).collect::<Vec<_>>()));
    validate_adapter(signed(json!([key]))).err()
}

#[test]
fn ed25519_key_of_small_order_is_rejected() {
    // the eight points of small order: 8 times such a point is the neutral one
    let of_small_order = [
        OF_SMALL_ORDER,
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        // with the sign bit of an `x` that is zero
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ];
    for hex in of_small_order {
        assert_eq!(fault_of_ed25519(hex).expect(hex), fault_of_ed25519(OF_SMALL_ORDER).unwrap(), "{hex}");
    }
}

#[test]
fn key_must_be_a_point_on_its_curve() {
    for hex in [
        // numbers from 2^255 - 19 on, which are not reduced: 0, 1 and 18 again
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        // 2, 7 and 8, which are the `y` of no point on the curve
        OFF_THE_CURVE,
        "0700000000000000000000000000000000000000000000000000000000000080",
        "0800000000000000000000000000000000000000000000000000000000000000",
    ] {
        assert_eq!(fault_of_ed25519(hex).expect(hex), fault_of_ed25519(OFF_THE_CURVE).unwrap(), "{hex}");
    }
    for hex in [
        // RFC 8032, 7.1, tests 1 to 3
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        // 3 and 10, which are the `y` of a point
        "0300000000000000000000000000000000000000000000000000000000000000",
        "0a00000000000000000000000000000000000000000000000000000000000080",
    ] {
        assert_eq!(fault_of_ed25519(hex), None, "{hex}");
    }

    // zero is the `x` of a point; the prime is zero, not reduced
    let (zero, prime) = ("A".repeat(43), "_____wAAAAEAAAAAAAAAAAAAAAD_______________8");
    let y_of_zero = "ZkhceA4vg9ckM71dhKBrtlQcKvMdrocXKL-FahdPk_Q";
    for (x, y) in [(P256_Y, P256_X), (P256_X, P256_X), (&zero, &zero), (prime, y_of_zero)] {
        assert_eq!(fault(signed(json!([p256(x, y)]))), fault(signed(json!([p256(P256_Y, P256_X)]))), "{x}");
    }
    for (x, y) in [(P256_X, P256_Y), (&zero, y_of_zero)] {
        assert!(validate_adapter(signed(json!([p256(x, y)]))).is_ok(), "{x}");
    }
}
