//! Which servers get a credential.

use super::*;
use jiff::SignedDuration;
use std::sync::{Arc, Mutex};

fn authenticating(endpoint: &str, authentication: SourceAuthentication) -> PullRequest {
    PullRequest { authentication, ..request(endpoint) }
}

fn api_key() -> UpstreamCredential {
    UpstreamCredential::api_key("X-Api-Key", "s3cret".into()).expect("a key")
}

fn client_of(server: &ScriptedServer, scope: Option<&str>) -> UpstreamCredential {
    let token_url = server.url("127.0.0.1", "/token");
    UpstreamCredential::client(token_url, "me:1".into(), "s3 cret".into(), scope.map(str::to_owned))
}

fn token(word: &str, life_s: u32) -> Vec<ServerStep> {
    let token = serde_json::json!({"access_token": word, "token_type": "Bearer", "expires_in": life_s});
    complete_reply("Content-Type: application/json\r\n", &token.to_string())
}

/// A credential for the origin of `endpoint`.
fn bound(credential: UpstreamCredential, endpoint: &str) -> BoundCredential {
    let origin = Url::parse(endpoint).expect("a valid URL").origin().ascii_serialization();
    BoundCredential { origin: origin.parse().expect("a valid value"), credential }
}

fn puller_with_credential(credential: UpstreamCredential, endpoint: &str) -> PayloadPuller {
    puller_with(settings(&["127.0.0.1/32", "127.0.0.2/32"]), Some(bound(credential, endpoint)))
}

#[tokio::test]
async fn key_or_token_is_sent_in_its_header() {
    let bearer = || UpstreamCredential::token("s3cret".into()).expect("a token");
    for (credential, authentication, line) in [
        (api_key(), SourceAuthentication::ApiKey, "x-api-key: s3cret\r\n"),
        (bearer(), SourceAuthentication::Oauth, "authorization: bearer s3cret\r\n"),
    ] {
        let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
        let url = server.url("127.0.0.1", "/");
        let puller = puller_with_credential(credential, &url);
        assert!(!format!("{puller:?}").contains("s3cret"), "{puller:?}");
        pull(&puller, &authenticating(&url, authentication)).await.0.expect("the call succeeds");
        assert!(server.heads().iter().all(|head| head.contains(line)), "{:?}", server.heads());
        pull(&puller, &authenticating(&url, SourceAuthentication::None)).await.0.expect("the call succeeds");
        assert!(server.heads().last().is_some_and(|head| !head.contains("s3cret")));
    }
}

#[tokio::test]
async fn credential_is_sent_only_to_the_origin_of_the_endpoint() {
    let far_port = TcpListener::bind("127.0.0.2:0").await.expect("a port");
    let far_at = far_port.local_addr().expect("the listener has an address");
    let near = ScriptedServer::start(
        "127.0.0.1",
        vec![
            status(302, "Location: /same\r\n"),
            status(302, &format!("Location: http://{far_at}/far\r\n")),
            complete_reply("", "abc"),
        ],
    );
    let near = near.await;
    let back = format!("Location: {}\r\n", near.url("127.0.0.1", "/back"));
    let far = ScriptedServer::serve(far_port, far_at.port(), vec![status(302, &back)]);
    let request = authenticating(&near.url("127.0.0.1", "/"), SourceAuthentication::ApiKey);
    assert_eq!(pull(&puller_with_credential(api_key(), &request.endpoint), &request).await.1, "abc");
    let shown: Vec<bool> = near.heads().iter().map(|head| head.contains("s3cret")).collect();
    assert_eq!(shown, [true, true, false]);
    assert_eq!(far.heads().iter().filter(|head| head.contains("s3cret")).count(), 0);
    assert_eq!(far.heads().len(), 1);
}

#[tokio::test]
async fn credential_is_sent_only_to_its_configured_origin() {
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
    let own = server.url("127.0.0.1", "/");
    for (origin, authentication) in [
        ("http://127.0.0.1:1", SourceAuthentication::ApiKey),
        ("https://127.0.0.1", SourceAuthentication::ApiKey),
    ] {
        let puller = puller_with_credential(api_key(), origin);
        let request = authenticating(&own, authentication);
        let error = puller.check(&request).expect_err("it is for another origin");
        let PullError::Web(WebError::OtherOrigin { holder, origin: of, url }) = &error else {
            panic!("{error}")
        };
        assert_eq!((holder, of.as_str(), url), (&CredentialHolder::Pipeline(id()), origin, &own));
        assert!(!error.to_string().contains("s3cret"), "{error}");
        let pulled = pull(&puller, &request).await.0.expect_err("likewise");
        assert_eq!(pulled.to_string(), error.to_string());
    }
    assert!(server.heads().is_empty());
    pull(&puller_with_credential(api_key(), &own), &authenticating(&own, SourceAuthentication::ApiKey))
        .await
        .0
        .expect("the call succeeds");
}

#[tokio::test]
async fn missing_credential_error_names_the_keys_to_set() {
    let held = || [None, Some(UpstreamCredential::token("t".into()).expect("a token")), Some(api_key())];
    for (authentication, kinds, named, keys_to_set) in [
        (SourceAuthentication::ApiKey, 2, "api_key", &["`header`", "`key_file`", "`key_env`"][..]),
        (SourceAuthentication::Mtls, 3, "mtls", &["`certificate_file`", "`key_file`"]),
        (SourceAuthentication::Oauth, 1, "oauth", &["`token_file`", "`token_env`", "`token_url`"]),
    ] {
        for credential in held().into_iter().take(kinds) {
            let request = authenticating("https://example.org/", authentication);
            let credential = credential.map(|credential| bound(credential, &request.endpoint));
            let puller = puller_with(settings(&[]), credential);
            let error = puller.check(&request).expect_err("the call fails");
            let PullError::Web(WebError::NoCredential { holder, authentication, keys }) = &error else {
                panic!("{error}")
            };
            assert_eq!((holder, *authentication), (&CredentialHolder::Pipeline(id()), named));
            assert!(keys_to_set.iter().all(|key| keys.contains(key)), "{error}");
            let error = error.to_string();
            assert!(error.contains("`ingestion.credentials.wb`"), "{error}");
            assert_eq!(pull(&puller, &request).await.0.expect_err("the call fails").to_string(), error);
        }
    }
}

#[tokio::test]
async fn credential_is_not_sent_unencrypted_to_public_addresses() {
    for (endpoint, fits) in [
        ("https://example.org/", true),
        ("http://127.0.0.1/", true),
        ("http://example.org/", false),
        ("http://localhost/", false),
        ("http://1.1.1.1/", false),
    ] {
        let checked = puller_with_credential(api_key(), endpoint)
            .check(&authenticating(endpoint, SourceAuthentication::ApiKey));
        assert_eq!(checked.is_ok(), fits, "{checked:?}");
        if let Err(error) = checked {
            let PullError::Web(WebError::Exposed { allowed, .. }) = &error else { panic!("{error}") };
            assert!(
                allowed.contains("`ingestion.allow_local`") && allowed.contains("--allow-cleartext"),
                "{error}"
            );
        }
    }
    let errors = ["http://example.org/s3cret", "https://10.0.0.1/token", "token"].map(|token_url| {
        let client = UpstreamCredential::client(token_url.into(), "me".into(), "s3cret".into(), None);
        let request = authenticating("https://example.org/", SourceAuthentication::Oauth);
        let checked = puller_with_credential(client, &request.endpoint).check(&request);
        let error = checked.expect_err("the call is rejected");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        error
    });
    let [
        PullError::Web(WebError::Exposed { url, .. }),
        PullError::Web(WebError::TokenUrl(WebAddressError::NotPublic { host, kind: "private", .. })),
        PullError::Web(WebError::TokenUrl(WebAddressError::NotUrl { .. })),
    ] = &errors
    else {
        panic!("{errors:?}")
    };
    assert_eq!((url.as_str(), host.as_str()), ("http://example.org", "10.0.0.1"));
}

#[tokio::test]
async fn endpoint_with_a_key_or_an_authentication_needs_https() {
    let checked = |endpoint: &str, authentication, allow_cleartext| {
        let settings = PullSettings { allow_cleartext, ..settings(&["127.0.0.1/32"]) };
        let request = PullRequest { authentication, ..request(endpoint) };
        puller_with(settings, None).check(&request)
    };
    for (endpoint, authentication, is_exposed) in [
        ("http://example.org/x?country=MDA", SourceAuthentication::None, false),
        ("http://example.org/x?api_key=s3cret", SourceAuthentication::None, true),
        ("http://127.0.0.1/x?api_key=s3cret", SourceAuthentication::None, false),
        ("https://example.org/x?api_key=s3cret", SourceAuthentication::None, false),
        ("http://example.org/x", SourceAuthentication::ApiKey, true),
        ("http://example.org/x", SourceAuthentication::Mtls, true),
        ("https://example.org/x", SourceAuthentication::ApiKey, false),
    ] {
        let is_refused = |allow_cleartext| {
            let error = checked(endpoint, authentication, allow_cleartext).err();
            matches!(error, Some(PullError::Web(WebError::Exposed { .. })))
        };
        assert_eq!(is_refused(false), is_exposed, "{endpoint} {authentication:?}");
        assert!(!is_refused(true), "{endpoint} {authentication:?}");
    }
}

#[tokio::test]
async fn token_is_requested_once_and_used_until_it_expires() {
    let tokens = ScriptedServer::start("127.0.0.1", vec![token("one", 100), token("two", 100)]).await;
    let data = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
    let at = Arc::new(Mutex::new(now()));
    let query = authenticating(&data.url("127.0.0.1", "/"), SourceAuthentication::Oauth);
    let credentials = [(id(), bound(client_of(&tokens, Some("read all")), &query.endpoint))].into();
    let puller = PayloadPuller::new(
        settings(&["127.0.0.1/32"]),
        credentials,
        Clock::settable(Arc::clone(&at), Arc::default()),
    );
    for (s, word) in [(0, "one"), (69, "one"), (70, "two"), (139, "two")] {
        *at.lock().expect("the lock is not poisoned") = now() + SignedDuration::from_secs(s);
        pull(&puller, &query).await.0.expect("the call succeeds");
        let line = format!("authorization: bearer {word}\r\n");
        assert!(data.heads().last().is_some_and(|head| head.contains(&line)), "{s}");
    }
    let requests = tokens.heads();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(request.starts_with("post /token http/1.1\r\n"), "{request}");
        // "me%3A1:s3+cret"
        assert!(request.contains("authorization: basic bwulm0exonmzk2nyzxq=\r\n"), "{request}");
        assert!(request.contains("content-type: application/x-www-form-urlencoded\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\ngrant_type=client_credentials&scope=read+all"), "{request}");
    }
}

#[tokio::test]
async fn rejected_token_is_replaced_once() {
    let tokens = ScriptedServer::start("127.0.0.1", vec![token("old", 100), token("new", 100)]).await;
    let data = ScriptedServer::start(
        "127.0.0.1",
        vec![complete_reply("", "abc"), status(401, ""), complete_reply("", "abc"), status(401, "")],
    );
    let data = data.await;
    let request = authenticating(&data.url("127.0.0.1", "/"), SourceAuthentication::Oauth);
    let puller = puller_with_credential(client_of(&tokens, None), &request.endpoint);
    pull(&puller, &request).await.0.expect("the call succeeds");
    pull(&puller, &request).await.0.expect("the new token is accepted");
    assert!(data.heads().last().is_some_and(|head| head.contains("bearer new")));
    let error = pull(&puller, &request).await.0.expect_err("the pull fails");
    assert_eq!(failure_of(&error), Some(RequestFailureKind::Status(401)), "{error}");
    assert_eq!((data.heads().len(), tokens.heads().len()), (5, 3));
}

#[tokio::test]
async fn token_error_does_not_quote_the_answer() {
    let redirect = "Location: http://127.0.0.1:1/\r\n";
    let unreadable = RequestFailureKind::Unreadable;
    let mut details = Vec::new();
    for (answer, kind) in [
        (status(401, ""), RequestFailureKind::Status(401)),
        (status(302, redirect), RequestFailureKind::Status(302)),
        (complete_reply("", "{\"token\": \"s3cret\"}"), unreadable),
        (complete_reply("", r#"{"access_token": "s3cret", "token_type": "mac"}"#), unreadable),
        (complete_reply("", r#"{"access_token": "s3cret x", "token_type": "bearer"}"#), unreadable),
        (complete_reply("", &"x".repeat(100_000)), RequestFailureKind::TooLarge),
    ] {
        let tokens = ScriptedServer::start("127.0.0.1", vec![answer]).await;
        let data = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
        let request = authenticating(&data.url("127.0.0.1", "/"), SourceAuthentication::Oauth);
        let error = pull(&puller_with_credential(client_of(&tokens, None), &request.endpoint), &request)
            .await
            .0
            .expect_err("the token is missing");
        let PullError::Web(WebError::Failed { failure, .. }) = &error else { panic!("{error}") };
        assert_eq!(failure.kind, kind, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        match kind {
            RequestFailureKind::Unreadable => details.push(failure.detail.clone()),
            RequestFailureKind::TooLarge => assert!(failure.detail.contains("65536"), "{error}"),
            _ => {}
        }
        assert_eq!((data.heads().len(), tokens.heads().len()), (0, 1));
    }
    insta::assert_snapshot!("details_of_unreadable_token_responses", details.join("\n"));
}
