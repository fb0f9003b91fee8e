//! Keys of live sources end to end: accepted algorithms, valid keys, and the removal of a key (RFC-0002, Part II,
//! "Oracle Integrity Requirements").

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oracled_tests::ground::put_document;
use oracled_tests::live::{
    HONEST, LOCAL, POISON, ScriptedSource, adapt, adapter_of, authoritative_value, check_refusal,
    complete_answer, empty, register_census, source, verify_census,
};
use oracled_tests::signing::{by_header, issued_at, key, seconds_ago, signed, signed_by, token};
use oracled_tests::{DaemonWorld, problem};
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

/// The key of RFC 7515, A.3.
const EC_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const EC_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const EC_D: &str = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI";
/// The key of RFC 7515, A.2, whose exponent is 65537.
const RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm\
                     4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5\
                     rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGh\
                     yxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RSA_D: &str = "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NX\
                     OoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V\
                     51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jT\
                     j3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ";
const RSA_P: &str = "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5\
                     PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc";
const RSA_Q: &str = "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQe\
                     ZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc";
const RSA_DP: &str = "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu\
                      1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0";
const RSA_DQ: &str = "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0a\
                      jaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU";
const RSA_QI: &str = "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY\
                      7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U";

/// Returns the signature of its argument.
type SignFn = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

fn bytes(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).expect("valid base64url")
}

/// The P-256 key as a JWK, and its signing function.
fn ec() -> (Value, SignFn) {
    let random = SystemRandom::new();
    let point = [vec![4], bytes(EC_X), bytes(EC_Y)].concat();
    let pair = EcdsaKeyPair::from_private_key_and_public_key(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &bytes(EC_D),
        &point,
        &random,
    );
    let pair = pair.expect("the regular expression matches");
    let sign = move |input: &[u8]| pair.sign(&random, input).expect("the key signs").as_ref().to_vec();
    (json!({"kid": "key", "kty": "EC", "crv": "P-256", "x": EC_X, "y": EC_Y}), Box::new(sign))
}

/// The RSA key as a JWK, and its signing function.
fn rsa() -> (Value, SignFn) {
    let components = KeyPairComponents {
        public_key: PublicKeyComponents { n: bytes(RSA_N), e: bytes("AQAB") },
        d: bytes(RSA_D),
        p: bytes(RSA_P),
        q: bytes(RSA_Q),
        dP: bytes(RSA_DP),
        dQ: bytes(RSA_DQ),
        qInv: bytes(RSA_QI),
    };
    let pair = RsaKeyPair::from_components(&components).expect("the regular expression matches");
    let sign = move |input: &[u8]| {
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), input, &mut signature).expect("the key signs");
        signature
    };
    (json!({"kid": "key", "kty": "RSA", "n": RSA_N, "e": "AQAB"}), Box::new(sign))
}

#[tokio::test]
async fn p256_and_rsa_signatures_count_and_altered_bytes_do_not() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    register_census(&daemon, &["office"], json!({})).await;
    for (alg, (public, sign)) in [("ES256", ec()), ("RS256", rsa())] {
        let policy = signed_by(json!({"method": "jws", "keys": [public]}));
        adapt(&daemon, "office", &office.endpoint(), policy).await;
        let token = |number: &str| {
            let body = issued_at(number, seconds_ago(1));
            token(&json!({"alg": alg, "kid": "key"}), &body, &sign)
        };
        let good = token(HONEST);
        office.set_answer(complete_answer("", &good));
        let envelope = verify_census(&daemon).await;
        assert_eq!(authoritative_value(&envelope), HONEST);
        let signature = &envelope["axes"]["population"]["evidence"][0]["record"]["signature_info"];
        assert_eq!(
            (&signature["signed_by"], &signature["signature_alg"], &signature["signature_valid"]),
            (&json!("key"), &json!(alg), &json!(true))
        );
        let number = |body: &[u8]| body.windows(HONEST.len()).position(|at| at == HONEST.as_bytes());
        for part in [1, 2] {
            let mut parts: Vec<_> = good.split('.').map(bytes).collect();
            // a digit of the number, or the middle of the signature
            let middle = parts[2].len() / 2;
            let place = if part == 1 { number(&parts[1]).expect("the body has the number") } else { middle };
            parts[part][place] ^= 1;
            let altered: Vec<_> = parts.iter().map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
            office.set_answer(complete_answer("", &altered.join(".")));
            check_refusal(&daemon, &world, "signature").await;
        }
        office.set_answer(complete_answer("", &token(HONEST)));
        assert_eq!(
            authoritative_value(&verify_census(&daemon).await),
            HONEST,
            "{alg}: an unaltered answer is accepted again"
        );
    }
}

#[tokio::test]
async fn adapter_with_an_unusable_public_key_is_not_registered() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(LOCAL);
    let daemon = world.serve().await;
    let (_, good) = key(7, "good");
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&good])).await;
    let (mut ed25519, mut p256) = (good.clone(), ec().0);
    (ed25519["kid"], ed25519["x"]) = (json!("neutral"), json!(format!("AQ{}", "A".repeat(41))));
    (p256["kid"], p256["y"]) = (json!("off"), json!(EC_X));
    for (bad, key_id) in [(ed25519, "`neutral`"), (p256, "`off`")] {
        let policy = signed_by(json!({"method": "jws", "keys": [good, bad]}));
        let document = adapter_of("office", &office.endpoint(), policy);
        let answer =
            put_document(&mut daemon.control().await, "/v1/documents/adapter/office", &document).await;
        let detail = problem(&answer, 400, "invalid_document")["detail"].to_string();
        assert!(detail.contains("`signature.keys`") && detail.contains(key_id), "{detail}");
    }
    // the source continues with its previous keys
    register_census(&daemon, &["office"], json!({})).await;
    let (pair, _) = key(7, "good");
    office.set_answer(signed(&pair, "good", HONEST, seconds_ago(1)));
    assert_eq!(authoritative_value(&verify_census(&daemon).await), HONEST);
}

#[tokio::test]
async fn added_key_counts_with_the_old_one_until_the_old_one_is_removed() {
    let office = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(&format!("{LOCAL}[health]\ncircuit_breaker_enabled = false\n"));
    let daemon = world.serve().await;
    let ((old, old_key), (new, new_key)) = (key(7, "2025"), key(8, "2026"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&old_key])).await;
    let stale = json!({"oracle_latency": {"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 3600}});
    register_census(&daemon, &["office"], stale).await;
    let taken = async |pair, kid, seconds| {
        office.set_answer(signed(pair, kid, HONEST, seconds_ago(seconds)));
        let envelope = verify_census(&daemon).await;
        let evidence = &envelope["axes"]["population"]["evidence"][0];
        assert_eq!((authoritative_value(&envelope), &evidence["stale"]), (&json!(HONEST), &json!(false)));
        assert_eq!(evidence["record"]["signature_info"]["signed_by"], kid);
    };
    taken(&old, "2025", 60).await;
    // an answer with an unregistered key is rejected, and no cached answer replaces it
    office.set_answer(signed(&new, "2026", POISON, seconds_ago(55)));
    check_refusal(&daemon, &world, "signature").await;
    adapt(&daemon, "office", &office.endpoint(), by_header(&[&old_key, &new_key])).await;
    taken(&new, "2026", 50).await;
    taken(&old, "2025", 45).await;

    // longer than the caller waits, so the source is not called again
    office.set_answer(empty("503 Service Unavailable", "retry-after: 60\r\n"));
    let kept = verify_census(&daemon).await;
    assert_eq!((authoritative_value(&kept), &kept["candidates"][0]["stale"]), (&json!(HONEST), &json!(true)));
    adapt(&daemon, "office", &office.endpoint(), by_header(&[&new_key])).await;
    let dead = verify_census(&daemon).await;
    assert_eq!((&dead["kind"], &dead["reasons"]), (&json!("blocked"), &json!(["oracle_unreachable"])));
    office.set_answer(signed(&old, "2025", POISON, seconds_ago(40)));
    check_refusal(&daemon, &world, "signature").await;
    taken(&new, "2026", 35).await;
}
