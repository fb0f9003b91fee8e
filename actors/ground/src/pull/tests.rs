mod credentials;
use super::*;
use actors_testing::server::{ScriptedServer, ServerStep, complete_reply, send_text, status};
use actors_upstream::web::WebAddressError;
use actors_upstream::{RequestFailure, RequestFailureKind};
use proptest::prelude::*;
use tokio::net::TcpListener;

fn id() -> PipelineId {
    "wb".parse().expect("a valid id")
}

fn now() -> Timestamp {
    "2026-11-20T10:00:00Z".parse().expect("a valid time")
}

fn settings(allowed: &[&str]) -> PullSettings {
    PullSettings {
        allow_local: allowed.iter().map(|net| net.parse().expect("a range")).collect(),
        allow_cleartext: false,
        max_payload_bytes: 1000,
        connect: Duration::from_secs(2),
        idle: Duration::from_millis(400),
        whole: Duration::from_secs(5),
    }
}

fn puller_with(settings: PullSettings, credential: Option<BoundCredential>) -> PayloadPuller {
    let credentials = credential.into_iter().map(|credential| (id(), credential)).collect();
    PayloadPuller::new(settings, credentials, Clock::fixed(now()))
}

fn puller() -> PayloadPuller {
    puller_with(settings(&["127.0.0.1/32"]), None)
}

fn request(endpoint: &str) -> PullRequest {
    let (endpoint, known) = (endpoint.to_owned(), HttpValidators::default());
    PullRequest { pipeline_id: id(), endpoint, authentication: SourceAuthentication::None, known }
}

/// The outcome of a request, and the received part of the payload.
async fn pull(
    puller: &PayloadPuller,
    request: &PullRequest,
) -> (Result<PayloadFetchOutcome, PullError>, String) {
    let mut stored = Vec::new();
    let keep = async |piece: Bytes| {
        stored.extend_from_slice(&piece);
        Ok(())
    };
    let outcome = puller.pull(request, keep).await;
    (outcome, String::from_utf8(stored).expect("the tests' payloads are text"))
}

/// The error for a server that answers by `script`, and the number of requests.
async fn pull_error_of(script: Vec<ServerStep>) -> (PullError, usize) {
    let server = ScriptedServer::start("127.0.0.1", vec![script]).await;
    let (outcome, _) = pull(&puller(), &request(&server.url("127.0.0.1", "/x?sig=s3cret"))).await;
    let error = outcome.expect_err("the call is rejected");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    (error, server.heads().len())
}

/// How a request failed, if it did.
fn failure_of(error: &PullError) -> Option<RequestFailureKind> {
    match error {
        PullError::Web(WebError::Failed { failure, .. }) => Some(failure.kind),
        _ => None,
    }
}

#[tokio::test]
async fn payload_is_received_with_its_validators() {
    let headers = "ETag: \"v1\"\r\nLast-Modified: Fri, 20 Nov 2026 09:00:00 GMT\r\n\
                   Date: Fri, 20 Nov 2026 09:00:01 GMT\r\n";
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply(headers, "a,b\n1,2\n")]).await;
    let url = server.url("127.0.0.1", "/data.csv?year=2026");
    let (puller, pull_request) = (puller(), request(&url));
    let (outcome, body) = pull(&puller, &pull_request).await;
    let validators = HttpValidators {
        etag: Some("\"v1\"".into()),
        last_modified: Some("Fri, 20 Nov 2026 09:00:00 GMT".into()),
    };
    let modified = Some("2026-11-20T09:00:00Z".parse().expect("a valid time"));
    let pulled = FetchedPayload { url, validators, modified, size_bytes: 8, retrieved_at: now() };
    assert_eq!(
        (outcome.expect("the call succeeds"), body.as_str()),
        (PayloadFetchOutcome::Payload(pulled), "a,b\n1,2\n")
    );
    let heads = server.heads();
    let head = heads.first().expect("a request was received");
    assert!(head.starts_with("get /data.csv?year=2026 http/1.1\r\n"), "{head}");
    assert!(
        head.contains("accept-encoding: identity\r\n") && head.contains("user-agent: oracled/"),
        "{head}"
    );
    assert!(!head.contains("if-none-match") && !head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn validators_that_can_miss_a_change_are_not_sent_back() {
    let modified = "Fri, 20 Nov 2026 09:00:00 GMT";
    for (etag, last_modified, date, kept) in [
        ("", modified, "Fri, 20 Nov 2026 09:00:01 GMT", (false, true)),
        // the file may change within the same second
        ("", modified, modified, (false, false)),
        ("\"v1\"", modified, modified, (false, false)),
        ("\"v1\"", modified, "Fri, 20 Nov 2026 08:59:59 GMT", (false, false)),
        ("\"v1\"", modified, "Fri, 20 Nov 2026 09:00:01 GMT", (true, true)),
        // without a date, only the `ETag` shows that nothing changed
        ("\"v1\"", modified, "", (true, false)),
        ("\"v1\"", modified, "today", (true, false)),
        ("\"v1\"", "yesterday", modified, (true, false)),
        ("\"v1\"", "", "", (true, false)),
        ("W/\"v1\"", "", modified, (false, false)),
        ("W/\"v1\"", modified, modified, (false, false)),
        ("W/\"v1\"", modified, "Fri, 20 Nov 2026 09:00:02 GMT", (true, true)),
    ] {
        let header = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("{name}: {value}\r\n"),
        };
        let headers = header("ETag", etag) + &header("Last-Modified", last_modified) + &header("Date", date);
        let server = ScriptedServer::start("127.0.0.1", vec![complete_reply(&headers, "a")]).await;
        let (outcome, _) = pull(&puller(), &request(&server.url("127.0.0.1", "/"))).await;
        let Ok(PayloadFetchOutcome::Payload(pulled)) = outcome else { panic!("{outcome:?}") };
        let found = (pulled.validators.etag.is_some(), pulled.validators.last_modified.is_some());
        assert_eq!(found, kept, "{headers}");
    }
}

#[tokio::test]
async fn chunked_and_empty_payloads_are_received() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let server = ScriptedServer::start("127.0.0.1", vec![send_text(chunks), complete_reply("", "")]).await;
    let pull_request = request(&server.url("127.0.0.1", "/"));
    for payload in ["abcde", ""] {
        let (outcome, body) = pull(&puller(), &pull_request).await;
        let Ok(PayloadFetchOutcome::Payload(pulled)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((body.as_str(), pulled.size_bytes), (payload, payload.len() as u64));
    }
}

#[tokio::test]
async fn incomplete_payload_error_has_received_and_announced_length() {
    let ok = "HTTP/1.1 200 OK\r\n";
    for (answer, received, announced) in [
        ("Content-Length: 10\r\n\r\nabc", 3, Some(10)),
        ("Content-Length: 10\r\n\r\n", 0, Some(10)),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 3, None),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\nabc", 3, None),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n", 3, None),
    ] {
        let (error, requests) = pull_error_of(send_text(&format!("{ok}{answer}"))).await;
        let PullError::Cut { received_bytes, announced_bytes, .. } = error else {
            panic!("{answer}: {error}")
        };
        assert_eq!((received_bytes, announced_bytes), (received, announced), "{answer}");
        assert_eq!(requests, 1, "a payload that has begun is not requested again");
    }
}

#[tokio::test]
async fn bytes_beyond_the_announced_length_are_not_read() {
    let answer =
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let server =
        ScriptedServer::start("127.0.0.1", vec![send_text(answer), complete_reply("", "next")]).await;
    let (puller, pull_request) = (puller(), request(&server.url("127.0.0.1", "/")));
    assert_eq!(pull(&puller, &pull_request).await.1, "abc");
    assert_eq!(pull(&puller, &pull_request).await.1, "next", "extra bytes are not part of the next answer");
    for lengths in ["Content-Length: 3\r\nContent-Length: 4\r\n", "Content-Length: -1\r\n"] {
        let (error, _) = pull_error_of(send_text(&format!("HTTP/1.1 200 OK\r\n{lengths}\r\nabcd"))).await;
        assert_eq!(failure_of(&error), Some(RequestFailureKind::Broken), "{error}");
    }
}

#[tokio::test]
async fn payload_without_a_certain_end_is_rejected() {
    for answer in ["HTTP/1.1 200 OK\r\n\r\nabc", "HTTP/1.0 200 OK\r\n\r\nabc"] {
        let (error, requests) = pull_error_of(send_text(answer)).await;
        assert!(matches!(error, PullError::Web(WebError::Endless { .. })), "{error}");
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn unrequested_content_encoding_is_rejected_by_name() {
    for (headers, named) in [
        ("Content-Encoding: gzip\r\n", Some("gzip")),
        ("Content-Encoding: identity, BR\r\n", Some("br")),
        ("Content-Encoding: identity\r\nContent-Encoding: x\r\n", Some("x")),
        ("Content-Encoding: \u{e9}\r\n", None),
    ] {
        let (error, requests) = pull_error_of(complete_reply(headers, "abc")).await;
        let PullError::Web(WebError::Coded { header, coding, .. }) = error else { panic!("{error}") };
        assert_eq!((header, named.unwrap_or(&coding)), ("Content-Encoding", coding.as_str()));
        assert_eq!(requests, 1);
    }
    let both = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (error, _) = pull_error_of(send_text(both)).await;
    let PullError::Web(WebError::Coded { header, coding, .. }) = error else { panic!("{error}") };
    assert_eq!((header, coding.as_str()), ("Transfer-Encoding", "gzip"));
    let server =
        ScriptedServer::start("127.0.0.1", vec![complete_reply("Content-Encoding: Identity\r\n", "abc")])
            .await;
    assert_eq!(pull(&puller(), &request(&server.url("127.0.0.1", "/"))).await.1, "abc");
}

#[tokio::test]
async fn payload_longer_than_the_limit_is_rejected() {
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", &"x".repeat(1000))]).await;
    assert_eq!(pull(&puller(), &request(&server.url("127.0.0.1", "/"))).await.1.len(), 1000);
    let (error, _) = pull_error_of(complete_reply("", &"x".repeat(1001))).await;
    assert!(matches!(error, PullError::TooLarge { announced_bytes: Some(1001), max_bytes: 1000 }), "{error}");
    let chunks = "3e9\r\n".to_owned() + &"x".repeat(1001) + "\r\n0\r\n\r\n";
    let (error, _) =
        pull_error_of(send_text(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")))
            .await;
    assert!(matches!(error, PullError::TooLarge { announced_bytes: None, max_bytes: 1000 }), "{error}");
}

#[tokio::test]
async fn stalled_or_endless_payload_is_given_up() {
    let mut stops = complete_reply("", "");
    stops[0] = ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".into());
    stops.push(ServerStep::Wait(Duration::from_secs(60)));
    let (error, _) = pull_error_of(stops).await;
    assert!(
        matches!(
            &error,
            PullError::Cut { received_bytes: 3, announced_bytes: Some(10), why } if why.contains("`ingestion.idle_s`")
        ),
        "{error}"
    );

    let mut drips = send_text("HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n");
    for _ in 0..600 {
        drips.extend([ServerStep::Wait(Duration::from_millis(100)), ServerStep::Send(b"x".into())]);
    }
    let server = ScriptedServer::start("127.0.0.1", vec![drips]).await;
    let whole = Duration::from_secs(1);
    let puller = puller_with(PullSettings { whole, ..settings(&["127.0.0.0/8"]) }, None);
    let (outcome, stored) = pull(&puller, &request(&server.url("127.0.0.1", "/"))).await;
    let error = outcome.expect_err("it takes too long");
    let PullError::Cut { received_bytes, announced_bytes: Some(600), why } = &error else {
        panic!("{error}")
    };
    assert!(why.contains("`ingestion.pull_s`"), "{error}");
    assert!(*received_bytes == stored.len() as u64 && (5..12).contains(received_bytes), "{error}");
}

#[tokio::test]
async fn unanswered_request_is_retried() {
    let silent = || vec![ServerStep::Wait(Duration::from_secs(60))];
    let server = ScriptedServer::start(
        "127.0.0.1",
        vec![status(503, ""), send_text(""), status(502, ""), complete_reply("", "abc")],
    );
    let server = server.await;
    let (outcome, stored) = pull(&puller(), &request(&server.url("127.0.0.1", "/"))).await;
    assert!(outcome.is_ok() && stored == "abc", "{outcome:?}");
    assert_eq!(server.heads().len(), 4);

    let (error, query) = pull_error_of(send_text("")).await;
    assert_eq!(failure_of(&error), Some(RequestFailureKind::Broken), "{error}");
    assert_eq!(query, 4);

    let short = PullSettings { connect: Duration::from_millis(1), ..settings(&["127.0.0.1/32"]) };
    let short = PullSettings { idle: Duration::from_millis(100), ..short };
    let server = ScriptedServer::start("127.0.0.1", vec![silent()]).await;
    let (outcome, _) = pull(&puller_with(short, None), &request(&server.url("127.0.0.1", "/"))).await;
    let error = outcome.expect_err("the pull fails");
    assert_eq!(failure_of(&error), Some(RequestFailureKind::Timeout), "{error}");
    assert!(error.to_string().contains("101 ms"), "{error}");

    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", gone.local_addr().expect("the listener has an address"));
    drop(gone);
    let error = pull(&puller(), &request(&url)).await.0.expect_err("no server listens");
    assert_eq!(failure_of(&error), Some(RequestFailureKind::Connect), "{error}");
}

#[tokio::test]
async fn other_status_is_an_error_without_text_of_the_server() {
    for (code, request) in
        [(201, 1), (204, 1), (206, 1), (300, 1), (302, 1), (304, 1), (401, 1), (404, 1), (500, 4)]
    {
        let (error, times) = pull_error_of(status(code, "")).await;
        assert_eq!(failure_of(&error), Some(RequestFailureKind::Status(code)), "{error}");
        assert_eq!(times, request, "{code}");
    }
}

#[tokio::test]
async fn retry_after_is_respected_or_reported() {
    for code in [429, 503] {
        let server = ScriptedServer::start("127.0.0.1", vec![status(code, "Retry-After: 60\r\n")]).await;
        let error = pull(&puller(), &request(&server.url("127.0.0.1", "/"))).await.0.expect_err("not now");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
        assert_eq!(server.heads().len(), 1, "it is not asked again");
    }
    let server = ScriptedServer::start(
        "127.0.0.1",
        vec![status(429, "Retry-After: 1\r\n"), complete_reply("", "abc")],
    )
    .await;
    let began = monotonic();
    assert_eq!(pull(&puller(), &request(&server.url("127.0.0.1", "/"))).await.1, "abc");
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn unchanged_payload_is_not_sent_again() {
    let server =
        ScriptedServer::start("127.0.0.1", vec![send_text("HTTP/1.1 304 Not Modified\r\n\r\n")]).await;
    let mut query = request(&server.url("127.0.0.1", "/"));
    query.known = HttpValidators { etag: Some("\"v1\"".into()), last_modified: Some("then".into()) };
    let (outcome, stored) = pull(&puller(), &query).await;
    assert_eq!(outcome.expect("it is an answer"), PayloadFetchOutcome::Unchanged { retrieved_at: now() });
    assert_eq!(stored, "");
    let heads = server.heads();
    let head = heads.first().expect("a request was received");
    assert!(
        head.contains("if-none-match: \"v1\"\r\n") && head.contains("if-modified-since: then\r\n"),
        "{head}"
    );
    // a damaged validator is not sent
    query.known = HttpValidators { etag: Some("a\r\nX-Evil: 1".into()), last_modified: None };
    drop(pull(&puller(), &query).await);
    assert!(!server.heads().iter().any(|head| head.contains("evil")));
}

#[tokio::test]
async fn redirect_is_followed_and_the_final_url_has_no_signature() {
    let far = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
    let to = far.url("127.0.0.1", "/there?sig=s3cret#part");
    for code in [301, 302, 303, 307, 308] {
        let near = ScriptedServer::start(
            "127.0.0.1",
            vec![status(code, "Location: /here?a=b\r\n"), status(code, &format!("Location: {to}\r\n"))],
        );
        let near = near.await;
        let (outcome, stored) = pull(&puller(), &request(&near.url("127.0.0.1", "/"))).await;
        let Ok(PayloadFetchOutcome::Payload(pulled)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((stored.as_str(), pulled.url), ("abc", far.url("127.0.0.1", "/there")));
        assert!(near.heads().iter().any(|head| head.starts_with("get /here?a=b ")));
    }
    assert!(far.heads().iter().all(|head| head.starts_with("get /there?sig=s3cret ")));
}

#[tokio::test]
async fn redirect_to_a_forbidden_address_is_rejected() {
    // only the server's own address is allowed
    let mut refused = Vec::new();
    for to in [
        "http://127.0.0.2:80/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.2]/",
        "http://169.254.169.254/latest/meta-data",
        "http://2130706434/",
        "http://u:p@127.0.0.1/",
        "file:///etc/passwd",
    ] {
        let (error, request) = pull_error_of(status(302, &format!("Location: {to}\r\n"))).await;
        let PullError::Web(WebError::Redirect { to, .. }) = error else { panic!("{error}") };
        refused.push(to.to_string());
        assert_eq!(request, 1);
    }
    insta::assert_snapshot!(refused.join("\n"));
}

#[tokio::test]
async fn name_that_resolves_to_a_private_network_is_refused_unless_allowed() {
    // `localhost` is 127.0.0.1, and the server has another address
    let server =
        ScriptedServer::start("127.0.0.2", vec![status(302, "Location: http://localhost:1/\r\n")]).await;
    let puller = puller_with(settings(&["127.0.0.2/32"]), None);
    let (outcome, _) = pull(&puller, &request(&server.url("127.0.0.2", "/"))).await;
    let error = outcome.expect_err("the call is rejected");
    let PullError::Web(WebError::Name { url, why: WebAddressError::NotPublic { host, .. } }) = error else {
        panic!("{error}")
    };
    assert_eq!((url.as_str(), host.as_str()), ("http://localhost:1/", "localhost"));
    assert_eq!(server.heads().len(), 1, "there is no retry");

    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
    let url = server.url("localhost", "/");
    let allowing = puller_with(settings(&["127.0.0.0/8"]), None);
    assert_eq!(pull(&allowing, &request(&url)).await.1, "abc");
    let error = pull(&puller_with(settings(&[]), None), &request(&url)).await.0.expect_err("it is not");
    assert!(
        matches!(error, PullError::Web(WebError::Name { why: WebAddressError::NotPublic { .. }, .. })),
        "{error}"
    );
    assert_eq!(server.heads().len(), 1, "no connection was made");
}

#[tokio::test]
async fn private_endpoint_is_refused_before_any_connection() {
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
    let refusing = puller_with(settings(&["10.0.0.0/8"]), None);
    let query = request(&server.url("127.0.0.1", "/"));
    let pulled = pull(&refusing, &query).await.0.expect_err("the call is rejected");
    let checked = refusing.check(&query).expect_err("the call is rejected");
    for error in [pulled, checked] {
        let PullError::Web(WebError::Endpoint(fault)) = &error else { panic!("{error}") };
        let (host, ip) = ("127.0.0.1".to_owned(), "127.0.0.1".parse().expect("an address"));
        assert_eq!(*fault, WebAddressError::NotPublic { host, ip, kind: "loopback" });
    }
    assert!(server.heads().is_empty());
}

#[tokio::test]
async fn endless_redirects_are_given_up() {
    let (error, request) = pull_error_of(status(302, "Location: /x\r\n")).await;
    assert!(matches!(error, PullError::Web(WebError::Redirects { .. })), "{error}");
    assert_eq!(request, 6);
}

#[tokio::test]
async fn pull_ends_if_a_piece_cannot_be_stored() {
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", "abc")]).await;
    let keep = async |_: Bytes| Err(io::Error::other("the disk is full"));
    let outcome = puller().pull(&request(&server.url("127.0.0.1", "/")), keep).await;
    let error = outcome.expect_err("an error");
    assert!(matches!(&error, PullError::Keep(cause) if cause.to_string() == "the disk is full"), "{error}");
}

#[test]
fn error_of_a_pull_is_worded_as_in_the_snapshot() {
    let url = || "https://example.org/x".to_owned();
    let failed =
        |kind| WebError::Failed { url: url(), failure: RequestFailure::new(kind, "the cause".into()) };
    let private = || WebAddressError::NotPublic {
        host: "localhost".into(),
        ip: "127.0.0.1".parse().expect("an address"),
        kind: "loopback",
    };
    let of_web = [
        WebError::Name { url: url(), why: private() },
        WebError::Redirect { from: url(), to: private() },
        WebError::Redirects { last: url() },
        WebError::Endless { url: url() },
        WebError::Coded {
            url: url(),
            header: "Content-Encoding",
            coding: "gzip".into(),
            allowed: "identity",
        },
        failed(RequestFailureKind::Broken),
        failed(RequestFailureKind::Connect),
        failed(RequestFailureKind::Timeout),
        failed(RequestFailureKind::Status(404)),
    ];
    let cut =
        |announced_bytes| PullError::Cut { received_bytes: 3, announced_bytes, why: "the cause".into() };
    let too_large = |announced_bytes| PullError::TooLarge { announced_bytes, max_bytes: 1000 };
    let of_payload = [cut(Some(10)), cut(None), too_large(Some(1001)), too_large(None)];
    let errors = of_payload.into_iter().chain(of_web.into_iter().map(PullError::Web));
    insta::assert_snapshot!(errors.map(|error| error.to_string()).collect::<Vec<_>>().join("\n"));
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a valid time")
}

fn refused(text: &str) -> PullScheduleError {
    PullSchedule::parse(text).expect_err("the schedule is invalid")
}

/// The first `count` times at which `schedule` fires after `after`.
fn times(schedule: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = PullSchedule::parse(schedule).expect("a valid schedule");
    let next = |at: &Timestamp| schedule.next_after(*at);
    std::iter::successors(next(&time(after)), next).take(count).map(|at| at.to_string()).collect()
}

#[test]
fn schedule_fires_in_its_time_zone_or_in_utc() {
    let now = "2026-11-20T10:00:00Z";
    for (schedule, fires) in [
        ("30 4 * * *", ["2026-11-21T04:30:00Z", "2026-11-22T04:30:00Z"]),
        ("30 4 * * * UTC", ["2026-11-21T04:30:00Z", "2026-11-22T04:30:00Z"]),
        (" 30\t4 * * *  Europe/Vienna ", ["2026-11-21T03:30:00Z", "2026-11-22T03:30:00Z"]),
        ("0 0 1 * * Asia/Kolkata", ["2026-11-30T18:30:00Z", "2026-12-31T18:30:00Z"]),
        ("*/15 * * * *", ["2026-11-20T10:15:00Z", "2026-11-20T10:30:00Z"]),
        ("* * * * *", ["2026-11-20T10:01:00Z", "2026-11-20T10:02:00Z"]),
        ("0 12 * * sun", ["2026-11-22T12:00:00Z", "2026-11-29T12:00:00Z"]),
        ("0 12 * * 0", ["2026-11-22T12:00:00Z", "2026-11-29T12:00:00Z"]),
        ("0 12 31 DEC *", ["2026-12-31T12:00:00Z", "2027-12-31T12:00:00Z"]),
        ("0 12 29 2 *", ["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"]),
        ("0 12 1 * 1", ["2026-11-23T12:00:00Z", "2026-11-30T12:00:00Z"]),
        ("5,10-12 9 * * 1-5", ["2026-11-23T09:05:00Z", "2026-11-23T09:10:00Z"]),
    ] {
        assert_eq!(times(schedule, now, 2), fires, "{schedule}");
    }
    assert_eq!(times("0 10 * * *", "2026-11-20T09:59:59.999999Z", 1), ["2026-11-20T10:00:00Z"]);
}

#[test]
fn skipped_local_time_does_not_fire_and_a_repeated_one_fires_twice() {
    let schedule = "30 2 * * * Europe/Vienna";
    let spring = times(schedule, "2026-03-28T00:00:00Z", 2);
    assert_eq!(spring, ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]);
    let autumn = times(schedule, "2026-10-24T12:00:00Z", 3);
    assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]);
    // an hourly schedule fires every hour
    let hourly = times("0 * * * * Europe/Vienna", "2026-10-24T23:30:00Z", 4);
    assert_eq!(
        hourly,
        ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"]
    );
}

#[test]
fn rare_date_is_found_decades_ahead() {
    assert_eq!(times("0 12 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29T12:00:00Z"]);
    let sunday = times("0 0 29 2 */7", "2004-03-01T00:00:00Z", 2);
    assert_eq!(sunday, ["2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"]);
    assert_eq!(times("0 0 29 2 */7", "2088-03-01T00:00:00Z", 1), ["2128-02-29T00:00:00Z"]);
}

#[test]
fn schedule_does_not_fire_near_the_end_of_all_timestamps() {
    let schedule = PullSchedule::parse("* * * * * Asia/Kolkata").expect("a valid schedule");
    assert_eq!(schedule.next_after(Timestamp::MAX), None);
    assert!(schedule.next_after(Timestamp::MIN).is_some());
    let rare = PullSchedule::parse("0 0 29 2 */7").expect("a valid schedule");
    for year in (9900..10_000).step_by(3) {
        let found = rare.next_after(time(&format!("{year:04}-01-01T00:00:00Z")));
        assert!(found.is_none_or(|at| at.to_string().contains("-02-29T")), "{found:?}");
    }
}

#[test]
fn invalid_schedule_error_names_the_fault_and_what_is_allowed() {
    let zone = |given: &str| PullScheduleError::Zone { given: given.to_owned() };
    let form = |field, given: &str| PullScheduleError::Form { field, given: given.to_owned() };
    for (text, expected) in [
        ("", PullScheduleError::Fields { found: 0 }),
        ("* * * *", PullScheduleError::Fields { found: 4 }),
        ("0 0 * * * * UTC", PullScheduleError::Fields { found: 7 }),
        ("@daily", PullScheduleError::Fields { found: 1 }),
        ("* * * * * Mars/Olympus", zone("Mars/Olympus")),
        ("* * * * * ../../etc/passwd", zone("../../etc/passwd")),
        ("* * L * *", form("day of the month", "L")),
        ("* * 15W * *", form("day of the month", "15W")),
        ("* * * * 5#3", form("day of the week", "5#3")),
        ("H * * * *", form("minute", "H")),
        ("é * * * *", form("minute", "é")),
        ("1,,2 * * * *", form("minute", "1,,2")),
        ("0 0 30 2 *", PullScheduleError::Never),
        ("0 0 31 4,6,9,11 *", PullScheduleError::Never),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    for (text, found) in [
        ("60 * * * *", "0..=59; found 60"),
        ("* 24 * * *", "0..=23; found 24"),
        ("* * 0 * *", "1..=31; found 0"),
        ("* * * 13 *", "1..=12; found 13"),
        ("* * * * 8", "0..=7; found 8"),
        ("99999999999999999999 * * * *", ""),
        ("*/0 * * * *", ""),
        ("10-5 * * * *", "found 10-5"),
        ("* * * foo *", ""),
    ] {
        let error = refused(text);
        assert!(
            matches!(&error, PullScheduleError::Value { why } if why.contains(found) && !why.contains('\n')),
            "{text}: {error}"
        );
    }
    let long = format!("0{} * * * *", ",0".repeat(200));
    assert_eq!(refused(&long), PullScheduleError::TooLong { size_bytes: 409 });
    let texts = ["", &long, "H * * * *", "* * * * * Mars/Olympus", "0 0 30 2 *"];
    insta::assert_snapshot!("faults_of_schedules", texts.map(|text| refused(text).to_string()).join("\n"));
}

proptest! {
    #[test]
    fn parse_does_not_panic_for_any_text(text in "[0-9*,/LWH# a-zA-Z-]{0,40}|.{0,40}") {
        drop(PullSchedule::parse(&text));
    }

    #[test]
    fn next_time_is_a_later_whole_minute_that_matches_the_fields(
        minute in 0..60_i8, hour in 0..24_i8, day in 1..=28_i8, after_s in 0..4_000_000_000_i64,
    ) {
        let schedule = PullSchedule::parse(&format!("{minute} {hour} {day} * *")).expect("a valid schedule");
        let after = Timestamp::from_second(after_s).expect("a valid time");
        let next = schedule.next_after(after).expect("the schedule fires");
        let civil = next.to_zoned(TimeZone::UTC);
        prop_assert_eq!((civil.minute(), civil.hour(), civil.day(), civil.second()), (minute, hour, day, 0));
        prop_assert!(next > after && next.duration_since(after) <= SignedDuration::from_hours(32 * 24));
    }
}
