//! Validation of adapter documents.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The public key of RFC 7515, A.3.
const P256_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const P256_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

fn fault(document: Json) -> String {
    validate_adapter(document).map(drop).unwrap_err().to_string()
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
    assert!(refused.contains("unknown field `d`") && !refused.contains("nWGxne"), "{refused}");
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

#[test]
fn document_must_match_its_source_and_ontology() {
    for (document, message) in [
        (with([("/oracle_id", json!("other"))]), "`oracle_id` is other, but must be bank"),
        (with([("/normalization/target_ontology_id", json!("other"))]), "normalization.target_ontology_id: "),
        (with([("/required_fields", json!(["$.a[*]"]))]), "required_fields: "),
        (with([("/schema_id", json!("none"))]), "schema_id: "),
        (
            with([("/normalization/axis_mappings/5/target_axis", json!("nothing"))]),
            "not an axis of the source",
        ),
        (
            with([("/normalization/axis_mappings/1/target_axis", json!("note"))]),
            "no field is mapped to the identity axis `day`",
        ),
    ] {
        let fault = fault(document);
        assert!(fault.contains(message), "{fault}");
    }
}

#[test]
fn answer_must_name_the_requested_identity_axes() {
    let area = "/normalization/axis_mappings/0";
    let defaulted =
        with([(&format!("{area}/default_value"), json!("AB")), (&format!("{area}/required"), json!(false))]);
    assert!(fault(defaulted).contains("identity axis `area`: it has a `default_value`"));
    let open = with([("/endpoint", json!("https://bank.example/{area}"))]);
    assert!(fault(open).contains("identity axis `day`: it is not in `endpoint`"));
    let asked_by_all = with([("/endpoint", json!("https://bank.example/{area}/{day}/{scheme}"))]);
    assert!(fault(asked_by_all).contains("identity axis `scheme`: it has a `default_value`"));
}

#[test]
fn metadata_locations_are_valid_and_covered_by_a_signature() {
    for (field, pointer, message) in [
        ("version", json!({ "path": "a[" }), "`version`: `a[` is not a path"),
        ("version", json!({ "path": "a.*" }), "leads to a group"),
        ("observed_at", json!({ "header": "x y" }), "`observed_at`: not a valid header name"),
        ("observed_at", json!({ "header": "" }), "not a valid header name"),
    ] {
        let fault = fault(with([(&format!("/{field}"), pointer)]));
        assert!(fault.contains(message), "{fault}");
    }
    for field in ["version", "observed_at", "issued_at"] {
        let mut document = signed(json!([jwk()]));
        document[field] = json!({ "header": "x-said" });
        let fault = fault(document);
        assert!(
            fault.contains(&format!("`{field}` is a header, which the signature does not cover")),
            "{fault}"
        );
    }
}

#[test]
fn signed_adapter_without_replay_check_is_rejected() {
    let keys = json!([jwk()]);
    let signature = ("/signature", json!({ "method": "ed25519", "header": "x-signature", "keys": keys }));
    assert!(fault(with([signature.clone()])).contains("any answer that the source ever signed"));
    let nonce = ("/nonce", json!({ "path": "nonce" }));
    let endpoint = ("/endpoint", json!("https://bank.example/{area}/{day}?n={nonce}"));
    assert!(validate_adapter(with([signature.clone(), nonce.clone(), endpoint.clone()])).is_ok());
    assert!(fault(with([signature, nonce.clone()])).contains("belong together"));
    assert!(fault(with([nonce])).contains("belong together"));
    assert!(fault(with([endpoint])).contains("belong together"));
    assert!(validate_adapter(signed(json!([jwk()]))).is_ok());
    let issued_at = ("/issued_at", json!({ "path": "issued" }));
    assert!(fault(with([issued_at])).contains("`max_issue_age_seconds` belong together"));
    assert!(
        fault(with([("/max_issue_age_seconds", json!(1))]))
            .contains("the time of issue of an answer is unknown")
    );
}

#[test]
fn signed_adapter_must_prove_the_requested_time() {
    let endpoint = |more: &str| {
        let mut document = signed(json!([jwk()]));
        document["endpoint"] =
            json!(format!("https://bank.example/{{area}}/{{day}}?at={{point_in_time}}{more}"));
        document
    };
    assert!(fault(endpoint("")).contains("`signature` with `{point_in_time}` in `endpoint`"));
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

#[test]
fn time_spans_are_limited_by_range_and_ontology() {
    for (document, message) in [
        (with([("/ttl_seconds", json!(0))]), "`ttl_seconds` is 0; allowed: 1 to 2592000 seconds"),
        (with([("/ttl_seconds", json!(3601))]), "the ontology allows `rate` to be at most 3600 s old"),
        (with([("/keep_seconds", json!(0))]), "`keep_seconds` is 0; allowed: 1 to 31622400"),
        (with([("/keep_seconds", json!(31_622_401))]), "`keep_seconds` is 31622401"),
        (with([("/keep_seconds", json!(60)), ("/ttl_seconds", json!(61))]), "allowed: 1 to 60 seconds"),
    ] {
        let fault = fault(document);
        assert!(fault.contains(message), "{fault}");
    }
    assert!(validate_adapter(with([("/ttl_seconds", json!(3600))])).is_ok());
    let issued = |age_s: u32| {
        with([("/issued_at", json!({ "path": "meta.issued" })), ("/max_issue_age_seconds", json!(age_s))])
    };
    assert!(
        fault(issued(3601))
            .contains("`max_issue_age_seconds` is 3601; the ontology allows `rate` to be at most 3600 s")
    );
    assert!(validate_adapter(issued(3600)).is_ok());
}

#[test]
fn invalid_signature_keys_are_rejected() {
    let changed = |name: &str, value: Json| {
        let mut key = jwk();
        key[name] = value;
        json!([key])
    };
    let mut p256 = p256(P256_X, P256_Y);
    (p256["alg"], p256["use"]) = (json!("ES256"), json!("sig"));
    let rsa = |n: &str, e: &str| json!([{ "kid": "r", "kty": "RSA", "n": n, "e": e }]);
    let modulus = "w".repeat(342);
    for (keys, message) in [
        (json!([]), "there are 0 keys; allowed: 1 to 8"),
        (Json::Array(vec![jwk(); 9]), "there are 9 keys"),
        (json!([jwk(), jwk()]), "another key has the same `kid`"),
        (changed("kid", json!("")), "a `kid` is invalid"),
        (changed("x", json!("AAAA")), "32 bytes"),
        (changed("x", json!(format!("{X}="))), "base64url"),
        (changed("crv", json!("P-256")), "allowed: `OKP`"),
        (changed("kty", json!("EC")), "allowed: `OKP`"),
        (changed("y", json!(X)), "allowed: `OKP`"),
        (changed("alg", json!("ES256")), "not the one of its type, EdDSA"),
        (rsa("AQAB", "AQAB"), "2048 to 8192 bits"),
        (rsa(&"A".repeat(342), "AQAB"), "no leading zeros"),
        (rsa(&modulus, "Aw"), "`AQAB`"),
    ] {
        let fault = fault(signed(keys));
        assert!(fault.contains("`signature.keys`: ") && fault.contains(message), "{fault}");
    }
    let all = json!([jwk(), p256, rsa(&modulus, "AQAB")[0]]);
    let ready = validate_adapter(signed(all.clone())).unwrap();
    let algorithms: Vec<_> =
        ready.signature().unwrap().1.iter().map(|key| key.algorithm().into_str()).collect();
    assert_eq!(algorithms, ["EdDSA", "ES256", "RS256"]);
    let mut raw = signed(json!([]));
    raw["signature"] = json!({ "method": "ed25519", "header": "x-signature", "keys": all });
    assert!(fault(raw).contains("the method `ed25519` requires `kty` `OKP`"));
}

/// The fault of an Ed25519 key with these bytes, in hexadecimal digits.
fn fault_of_ed25519(hex: &str) -> Option<String> {
    let byte = |pointer| u8::from_str_radix(&hex[pointer..pointer + 2], 16).unwrap();
    let mut key = jwk();
    key["x"] = json!(URL_SAFE_NO_PAD.encode((0..64).step_by(2).map(byte).collect::<Vec<_>>()));
    validate_adapter(signed(json!([key]))).err().map(|fault| fault.to_string())
}

#[test]
fn ed25519_key_of_small_order_is_rejected() {
    // the eight points of small order: 8 times such a point is the neutral one
    let of_small_order = [
        "0100000000000000000000000000000000000000000000000000000000000000",
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
        let fault = fault_of_ed25519(hex).expect(hex);
        assert!(
            fault.contains("`signature.keys`: key `k-1`: its `x` is a point of small order"),
            "{hex}: {fault}"
        );
        assert!(fault.contains("; allowed: the public key of a key pair"), "{fault}");
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
        "0200000000000000000000000000000000000000000000000000000000000000",
        "0700000000000000000000000000000000000000000000000000000000000080",
        "0800000000000000000000000000000000000000000000000000000000000000",
    ] {
        let fault = fault_of_ed25519(hex).expect(hex);
        assert!(fault.contains("key `k-1`: its `x` is not a point of Ed25519; allowed: "), "{hex}: {fault}");
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
        let fault = fault(signed(json!([p256(x, y)])));
        assert!(fault.contains("key `k-2`: its `x` and `y` are not a point of P-256; allowed: "), "{fault}");
    }
    for (x, y) in [(P256_X, P256_Y), (&zero, y_of_zero)] {
        assert!(validate_adapter(signed(json!([p256(x, y)]))).is_ok(), "{x}");
    }
}
