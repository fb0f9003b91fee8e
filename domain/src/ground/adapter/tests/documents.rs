//! Which documents are taken.

use super::*;

fn fault(document: Json) -> String {
    made(document).map(drop).unwrap_err().to_string()
}

fn jwk() -> Json {
    json!({ "kid": "k-1", "kty": "OKP", "crv": "Ed25519", "x": X })
}

/// Signed, and issued at a time that is signed too.
fn signed(keys: Json) -> Json {
    with([
        ("/signature", json!({ "method": "jws", "keys": keys })),
        ("/issued_at", json!({ "path": "meta.issued" })),
        ("/max_issue_age_seconds", json!(300)),
    ])
}

#[test]
fn a_document_is_read_strictly_and_written_as_it_was_read() {
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
fn documents_that_differ_have_different_digests_and_others_the_same() {
    let digest = |document: Json| serde_json::from_value::<Adapter>(document).unwrap().digest();
    assert_eq!(digest(plain()), digest(with([("/keep_seconds", json!(2_592_000))])));
    assert_ne!(digest(plain()), digest(with([("/keep_seconds", json!(1))])));
}

#[test]
fn what_a_document_says_of_its_source_and_ontology_must_hold() {
    for (document, told) in [
        (with([("/oracle_id", json!("other"))]), "`oracle_id` is other, and not bank"),
        (with([("/normalization/target_ontology_id", json!("other"))]), "normalization.target_ontology_id: "),
        (with([("/required_fields", json!(["$.a[*]"]))]), "required_fields: "),
        (with([("/schema_id", json!("none"))]), "schema_id: "),
        (with([("/normalization/axis_mappings/5/target_axis", json!("nothing"))]), "no axis of the source"),
        (with([("/normalization/axis_mappings/1/target_axis", json!("note"))]), "nothing is mapped to `day`"),
    ] {
        let fault = fault(document);
        assert!(fault.contains(told), "{fault}");
    }
}

#[test]
fn what_is_asked_for_must_be_said_by_the_answer_itself() {
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
fn places_can_be_found_and_are_signed_where_anything_is() {
    for (field, place, told) in [
        ("version", json!({ "path": "a[" }), "`version`: `a[` is not a path"),
        ("version", json!({ "path": "a.*" }), "leads to a group"),
        ("observed_at", json!({ "header": "x y" }), "`observed_at`: no header is called so"),
        ("observed_at", json!({ "header": "" }), "no header is called so"),
    ] {
        let fault = fault(with([(&format!("/{field}"), place)]));
        assert!(fault.contains(told), "{fault}");
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
fn a_signed_source_without_a_guard_against_replays_is_refused() {
    let keys = json!([jwk()]);
    let signature = ("/signature", json!({ "method": "ed25519", "header": "x-signature", "keys": keys }));
    assert!(fault(with([signature.clone()])).contains("whatever the source ever signed"));
    let nonce = ("/nonce", json!({ "path": "nonce" }));
    let endpoint = ("/endpoint", json!("https://bank.example/{area}/{day}?n={nonce}"));
    assert!(made(with([signature.clone(), nonce.clone(), endpoint.clone()])).is_ok());
    assert!(fault(with([signature, nonce.clone()])).contains("belong together"));
    assert!(fault(with([nonce])).contains("belong together"));
    assert!(fault(with([endpoint])).contains("belong together"));
    assert!(made(signed(json!([jwk()]))).is_ok());
    let issued_at = ("/issued_at", json!({ "path": "issued" }));
    assert!(fault(with([issued_at])).contains("`max_issue_age_seconds` belong together"));
    assert!(fault(with([("/max_issue_age_seconds", json!(1))])).contains("nothing says when"));
}

#[test]
fn a_signed_source_that_is_asked_about_a_time_proves_which_one_it_speaks_of() {
    let endpoint = |more: &str| {
        let mut document = signed(json!([jwk()]));
        document["endpoint"] =
            json!(format!("https://bank.example/{{area}}/{{day}}?at={{point_in_time}}{more}"));
        document
    };
    assert!(fault(endpoint("")).contains("`signature` with `{point_in_time}` in `endpoint`"));
    let mut with_nonce = endpoint("&n={nonce}");
    with_nonce["nonce"] = json!({ "path": "meta.nonce" });
    assert!(made(with_nonce).is_ok());
    let mut with_time = endpoint("");
    with_time["normalization"]["valid_time"] = json!({ "from_field": "from" });
    assert!(made(with_time).is_ok());
    let mut unsigned = endpoint("");
    unsigned.as_object_mut().unwrap().remove("signature");
    assert!(made(unsigned).is_ok());
}

#[test]
fn bounds_are_within_their_range_and_within_the_ontologys() {
    for (document, told) in [
        (with([("/ttl_seconds", json!(0))]), "`ttl_seconds` is 0; allowed: 1 to 2592000 seconds"),
        (with([("/ttl_seconds", json!(3601))]), "by the ontology `rate` may be 3600 s old"),
        (with([("/keep_seconds", json!(0))]), "`keep_seconds` is 0; allowed: 1 to 31622400"),
        (with([("/keep_seconds", json!(31_622_401))]), "`keep_seconds` is 31622401"),
        (with([("/keep_seconds", json!(60)), ("/ttl_seconds", json!(61))]), "allowed: 1 to 60 seconds"),
    ] {
        let fault = fault(document);
        assert!(fault.contains(told), "{fault}");
    }
    assert!(made(with([("/ttl_seconds", json!(3600))])).is_ok());
    let issued = |age_s: u32| {
        with([("/issued_at", json!({ "path": "meta.issued" })), ("/max_issue_age_seconds", json!(age_s))])
    };
    assert!(
        fault(issued(3601)).contains("`max_issue_age_seconds` is 3601; by the ontology `rate` may be 3600 s")
    );
    assert!(made(issued(3600)).is_ok());
}

#[test]
fn keys_are_public_whole_and_told_apart() {
    let changed = |name: &str, value: Json| {
        let mut key = jwk();
        key[name] = value;
        json!([key])
    };
    let p256 =
        json!({ "kid": "e", "kty": "EC", "crv": "P-256", "x": X, "y": X, "alg": "ES256", "use": "sig" });
    let rsa = |n: &str, e: &str| json!([{ "kid": "r", "kty": "RSA", "n": n, "e": e }]);
    let modulus = "w".repeat(342);
    for (keys, told) in [
        (json!([]), "there are 0 keys; 1 to 8"),
        (Json::Array(vec![jwk(); 9]), "there are 9 keys"),
        (json!([jwk(), jwk()]), "another one of this `kid`"),
        (changed("kid", json!("")), "a `kid` has"),
        (changed("x", json!("AAAA")), "32 bytes"),
        (changed("x", json!(format!("{X}="))), "base64url"),
        (changed("crv", json!("P-256")), "allowed: `OKP`"),
        (changed("kty", json!("EC")), "allowed: `OKP`"),
        (changed("y", json!(X)), "allowed: `OKP`"),
        (changed("alg", json!("ES256")), "not that of its type, EdDSA"),
        (rsa("AQAB", "AQAB"), "2048 to 8192 bits"),
        (rsa(&"A".repeat(342), "AQAB"), "no zeros in front"),
        (rsa(&modulus, "Aw"), "`AQAB`"),
    ] {
        let fault = fault(signed(keys));
        assert!(fault.contains("`signature.keys`: ") && fault.contains(told), "{fault}");
    }
    let all = json!([jwk(), p256, rsa(&modulus, "AQAB")[0]]);
    let ready = made(signed(all.clone())).unwrap();
    let algorithms: Vec<_> =
        ready.signature().unwrap().1.iter().map(|key| key.algorithm().as_str()).collect();
    assert_eq!(algorithms, ["EdDSA", "ES256", "RS256"]);
    let mut raw = signed(json!([]));
    raw["signature"] = json!({ "method": "ed25519", "header": "x-signature", "keys": all });
    assert!(fault(raw).contains("by `ed25519` a key is of `OKP`"));
}
