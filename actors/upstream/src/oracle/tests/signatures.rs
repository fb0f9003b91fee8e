//! Valid signatures, and each kind of invalid one.

use super::*;
use crate::oracle::{SignedContent, verify};
use domain_verification::adapter::{KeyMaterial, PublicKey, SignatureAlgorithm, SignaturePolicy};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

/// The payload of RFC 7515's examples.
const CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

/// A policy and its keys, as a validated adapter has them.
fn ready(policy: Json) -> (SignaturePolicy, Vec<PublicKey>) {
    let adapter = adapter("http://127.0.0.1/{area}", &signed_by(policy));
    let (policy, keys) = adapter.signature().expect("the signature succeeds");
    (policy.clone(), keys.to_vec())
}

/// The result of verifying a compact signature in the body.
fn compact(keys: &Json, token: &str) -> Result<(Vec<u8>, String, SignatureAlgorithm), &'static str> {
    let (policy, keys) = ready(json!({ "method": "jws", "keys": keys }));
    let SignedContent { document, kid, algorithm } =
        verify(&policy, &keys, &BTreeMap::new(), token.as_bytes())?;
    Ok((document.into_owned(), kid, algorithm))
}

/// A compact Ed25519 signature with this header.
fn token(pair: &Ed25519KeyPair, header: &Json, payload: &str) -> String {
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(payload));
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

#[test]
fn signature_examples_of_the_rfcs_are_valid() {
    let ed25519 = json!([{ "kid": "a", "kty": "OKP", "crv": "Ed25519",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }]);
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWb\
                 hijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let (document, kid, algorithm) = compact(&ed25519, token).expect("RFC 8037, A.4");
    assert_eq!(document, b"Example of Ed25519 signing");
    assert_eq!((kid.as_str(), algorithm), ("a", SignatureAlgorithm::EdDSA));

    let p256 = json!([{ "kid": "b", "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }]);
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let token = format!("eyJhbGciOiJFUzI1NiJ9.{CLAIMS}.{signature}");
    assert_eq!(compact(&p256, &token).expect("RFC 7515, A.3").2, SignatureAlgorithm::ES256);

    let rsa = json!([{ "kid": "c", "kty": "RSA", "e": "AQAB",
        "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-p\
              CgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg\
              665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FR\
              WyuXpoQ" }]);
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9u\
                     JdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_e\
                     SN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5\
                     AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let token = format!("eyJhbGciOiJSUzI1NiJ9.{CLAIMS}.{signature}");
    assert_eq!(compact(&rsa, &token).expect("RFC 7515, A.2").2, SignatureAlgorithm::RS256);
}

#[test]
fn signature_is_valid_only_by_its_sources_keys_and_algorithms() {
    let (pair, ours) = key(7, "k-1");
    let (other, _) = key(8, "k-1");
    let keys = json!([ours]);
    let good = json!({ "alg": "EdDSA", "kid": "k-1" });
    let (public, kid) = (URL_SAFE_NO_PAD.encode(other.public_key()), "k-1");
    assert!(compact(&keys, &token(&pair, &good, "{}")).is_ok());
    assert!(compact(&keys, &token(&pair, &json!({ "alg": "EdDSA" }), "{}")).is_ok());
    let tokens = [
        token(&other, &good, "{}"),
        token(&pair, &json!({ "alg": "none" }), "{}"),
        token(&pair, &json!({ "alg": "HS256", "kid": kid }), "{}"),
        token(&pair, &json!({ "alg": "eddsa", "kid": kid }), "{}"),
        token(&pair, &json!({ "kid": kid }), "{}"),
        token(&pair, &json!({ "alg": "ES256", "kid": kid }), "{}"),
        token(&pair, &json!({ "alg": "RS256" }), "{}"),
        token(&pair, &json!({ "alg": "EdDSA", "kid": "k-2" }), "{}"),
        token(&pair, &json!({ "alg": "EdDSA", "kid": 1 }), "{}"),
        token(&pair, &json!({ "alg": "EdDSA", "crit": ["exp"], "exp": 1 }), "{}"),
        token(&pair, &json!({ "alg": "EdDSA", "b64": false }), "{}"),
        token(
            &other,
            &json!({ "alg": "EdDSA", "jwk": { "kty": "OKP", "crv": "Ed25519", "x": public } }),
            "{}",
        ),
        format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode("{}")),
        format!("{}.{}.", URL_SAFE_NO_PAD.encode(good.to_string()), URL_SAFE_NO_PAD.encode("{}")),
        format!("{}.x", token(&pair, &good, "{}")),
        body("7"),
        String::new(),
        token(&pair, &good, "{}") + "=",
        // a name twice
        format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","alg":"none"}"#)),
    ];
    let faults = tokens.map(|token| compact(&keys, &token).expect_err(&token));
    insta::assert_snapshot!(faults.join("\n"));
}

#[test]
fn adapter_with_a_neutral_point_as_key_is_rejected() {
    let neutral = [&[1][..], &[0; 31]].concat();
    let (policy, _) = ready(json!({ "method": "ed25519", "header": "x-signature", "keys": [key(7, "k").1] }));
    let keys = [PublicKey { kid: "k".to_owned(), material: KeyMaterial::Ed25519(neutral.clone()) }];
    let signature = STANDARD.encode([neutral.clone(), vec![0; 32]].concat());
    let headers = BTreeMap::from([("x-signature".to_owned(), signature)]);
    for body in ["anything", "at all"] {
        assert!(verify(&policy, &keys, &headers, body.as_bytes()).is_ok(), "{body}");
    }
    let mut public = key(7, "k").1;
    public["x"] = json!(URL_SAFE_NO_PAD.encode(neutral));
    let policy = signed_by(json!({ "method": "jws", "keys": [public] }));
    let fault = prepare_adapter("http://127.0.0.1/{area}", &policy).expect_err("the call is rejected");
    assert!(matches!(fault, AdapterError::Keys(_)), "{fault}");
}

#[test]
fn key_verifies_only_signatures_of_its_own_type() {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).expect("a key");
    let point = pair.public_key().as_ref();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
    let (_, ed25519) = key(7, "ed");
    let keys = json!([ed25519, { "kid": "ec", "kty": "EC", "crv": "P-256", "x": x, "y": y }]);
    let signed = |header: Json| {
        let signed = format!("{}.e30", URL_SAFE_NO_PAD.encode(header.to_string()));
        let signature = pair.sign(&random, signed.as_bytes()).expect("the signature succeeds");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    for header in [json!({ "alg": "ES256" }), json!({ "alg": "ES256", "kid": "ec" })] {
        assert_eq!(compact(&keys, &signed(header)).expect("it holds").1, "ec");
    }
    let of_another = [json!({ "alg": "ES256", "kid": "ed" }), json!({ "alg": "EdDSA" })];
    let faults = of_another.map(|header| compact(&keys, &signed(header)).expect_err("it is another's"));
    insta::assert_snapshot!(faults.join("\n"));
}

/// The answer for a body with these headers, from a source that signs under `policy`.
async fn of_headers(policy: Json, headers: &str, body: &str) -> LiveAnswer {
    query_scripted_server(vec![complete_reply(headers, body)], signed_by(policy)).await.0
}

#[tokio::test]
async fn ed25519_signature_of_the_body_is_verified_and_recorded() {
    let (pair, ours) = key(7, "k-1");
    let (next, theirs) = key(8, "k-2");
    let policy = json!({ "method": "ed25519", "header": "X-Signature", "key_id_header": "X-Key", "keys": [ours, theirs] });
    for (pair, kid) in [(&pair, "k-1"), (&next, "k-2")] {
        let signature = STANDARD.encode(pair.sign(body("7.10").as_bytes()));
        let headers = format!("X-Signature: {signature}\r\nX-Key: {kid}\r\n");
        let candidate = expect_candidate(of_headers(policy.clone(), &headers, &body("7.10")).await);
        let info = candidate.record.signature_info.expect("the response is signed");
        assert_eq!(
            (info.signed_by.as_str(), info.signature_alg.as_str(), info.signature_valid),
            (kid, "EdDSA", true)
        );
    }
    let signature = STANDARD.encode(pair.sign(body("7.10").as_bytes()));
    for (headers, rate) in [
        (format!("X-Signature: {signature}\r\nX-Key: k-1\r\n"), "7.11"),
        (format!("X-Signature: {signature}\r\nX-Key: k-2\r\n"), "7.10"),
        (format!("X-Signature: {signature}\r\nX-Key: k-3\r\n"), "7.10"),
        (format!("X-Signature: {signature}\r\n"), "7.10"),
        (format!("X-Signature: {signature}\r\nX-Signature: {signature}\r\nX-Key: k-1\r\n"), "7.10"),
        ("X-Key: k-1\r\n".to_owned(), "7.10"),
        ("X-Signature: \r\nX-Key: k-1\r\n".to_owned(), "7.10"),
        ("X-Signature: s3cret\r\nX-Key: k-1\r\n".to_owned(), "7.10"),
        (format!("X-Signature: {}\r\nX-Key: k-1\r\n", STANDARD.encode([0; 64])), "7.10"),
    ] {
        let (refusal, cause) = expect_refusal(of_headers(policy.clone(), &headers, &body(rate)).await);
        assert_eq!(refusal, AnswerFault::Signature, "{headers}: {cause}");
    }
}

#[tokio::test]
async fn jws_is_accepted_in_a_header_and_as_the_body() {
    let (pair, ours) = key(7, "k-1");
    let header = json!({ "alg": "EdDSA", "kid": "k-1" });
    let whole_token = token(&pair, &header, &body("7.10"));
    let as_body = json!({ "method": "jws", "keys": [ours] });
    let candidate = expect_candidate(of_headers(as_body.clone(), "", &format!("{whole_token}\n")).await);
    assert_eq!(rate_of(&candidate), "7.1");
    assert_eq!(expect_refusal(of_headers(as_body, "", &body("7.10")).await).0, AnswerFault::Signature);

    let detached = json!({ "method": "jws", "header": "X-JWS-Signature", "keys": [ours] });
    let parts: Vec<_> = whole_token.split('.').collect();
    let line = |payload: &str| format!("X-JWS-Signature: {}.{payload}.{}\r\n", parts[0], parts[2]);
    let candidate = expect_candidate(of_headers(detached.clone(), &line(""), &body("7.10")).await);
    assert_eq!(rate_of(&candidate), "7.1");
    for (headers, rate) in [(line(""), "7.11"), (line(parts[1]), "7.10"), (String::new(), "7.10")] {
        assert_eq!(
            expect_refusal(of_headers(detached.clone(), &headers, &body(rate)).await).0,
            AnswerFault::Signature
        );
    }
}

#[tokio::test]
async fn signed_answer_with_another_subject_or_time_is_refused() {
    let (pair, ours) = key(7, "k-1");
    let policy = json!({ "method": "jws", "keys": [ours] });
    let of = async |payload: &str| {
        expect_refusal(
            of_headers(policy.clone(), "", &token(&pair, &json!({ "alg": "EdDSA" }), payload)).await,
        )
        .0
    };
    let swapped = r#"{"data":{"area":"s3cret","rate":7},"issued":"2026-11-20T11:59:00Z"}"#;
    assert_eq!(of(swapped).await, AnswerFault::Identity);
    for issued in ["2026-11-20T11:54:59Z", "2026-11-20T12:01:01Z"] {
        let replayed = format!(r#"{{"data":{{"area":"AB","rate":7}},"issued":"{issued}"}}"#);
        assert_eq!(of(&replayed).await, AnswerFault::Replay, "{issued}");
    }
    assert_eq!(of(r#"{"data":{"area":"AB","rate":7}}"#).await, AnswerFault::Replay);
}

#[tokio::test]
async fn signing_source_must_sign_each_answer() {
    let (pair, ours) = key(7, "k-1");
    let changes = signed_by(json!({ "method": "jws", "keys": [ours] }));
    let token = token(&pair, &json!({ "alg": "EdDSA" }), &body("7"));
    let scripts = vec![
        complete_reply("ETag: \"v1\"\r\n", &token),
        complete_reply("", r#"{"data":[]}"#),
        status(404, ""),
    ];
    let server = ScriptedServer::start("127.0.0.1", scripts).await;
    let adapter = adapter(&endpoint(&server), &changes);
    let first = oracles().ask(live_query(Arc::clone(&adapter))).await;
    let cached = first.answer_to_cache.clone();
    let newer = cached.clone().map(|mut cached| {
        cached.issued_at = Some(now());
        cached
    });
    let ask = LiveQuery { cached_answer: cached, ..live_query(Arc::clone(&adapter)) };
    assert_eq!(
        expect_refusal(oracles().ask(ask.clone()).await).0,
        AnswerFault::Signature,
        "an empty list is not signed"
    );
    assert!(!server.heads()[1].contains("if-none-match"), "a 304 would prove nothing");
    let answer = oracles().ask(ask).await;
    assert_eq!(answer.outcome, CircuitCallOutcome::Neutral, "who has no record does nothing wrong");
    assert!(
        matches!(answer.reply, OracleReply::Refused { refusal: AnswerFault::Signature, .. }),
        "{answer:?}"
    );

    let again = ScriptedServer::start("127.0.0.1", vec![complete_reply("", &token)]).await;
    let adapter = super::adapter(&endpoint(&again), &changes);
    let answer = oracles().ask(LiveQuery { cached_answer: newer, ..live_query(adapter) }).await;
    assert_eq!(expect_refusal(answer).0, AnswerFault::Replay, "an answer that was given earlier comes late");
}
