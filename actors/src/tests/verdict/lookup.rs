use crate::testing::{TestClock, TestServices, TestSystem, id, logged_events, with_services};
use actors_testing::server::{ScriptedServer, ServerStep, complete_reply, send_text, status};
use actors_upstream::lookup::{LookupCallError, LookupClient};
use actors_upstream::oracle::LiveSettings;
use actors_upstream::oracle_health::{MonitoredOracle, PermitError};
use actors_verdict::lookup::*;
use domain_upstream::health::OracleHealthConfig;
use domain_verdict::lookup::{LookupDefinition, LookupOutcome, LookupSettings};
use std::sync::Arc;
use std::time::Duration;

const PAID: &str = r#"{"paid":true,"tier":"quick","query":"Sell honey?","email":"ada@example.org"}"#;

/// Runs `test` with a system that looks sessions up at a server with these answers.
fn with_payments<F: Future<Output = ()>>(
    answers: Vec<Vec<ServerStep>>,
    test: impl FnOnce(TestSystem, LookupService, ScriptedServer) -> F,
) {
    // the port must be known before the system is created
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("the listener is changed");
    let port = listener.local_addr().expect("the listener has an address").port();
    let settings = LookupSettings {
        session_url: format!("http://127.0.0.1:{port}/sessions/{{session_id}}"),
        tier_path: "tier".into(),
        query_paths: vec!["query".into()],
        email_path: Some("email".into()),
        required: Some(("paid".into(), vec!["true".into()])),
        query_max_bytes: 100,
    };
    let web = LiveSettings {
        allow_local: vec!["127.0.0.1/32".parse().expect("a range")],
        allow_cleartext: false,
        connect: Duration::from_secs(5),
        idle: Duration::from_secs(5),
    };
    let definition = LookupDefinition::new(&settings).expect("valid settings");
    let time = TestClock::new();
    let client = LookupClient::new(definition, None, &web, Duration::from_millis(500), time.clock());
    let services = TestServices {
        lookup: Some(client.expect("the URL is allowed")),
        oracles: vec![MonitoredOracle {
            id: LookupClient::oracle_id(),
            config: OracleHealthConfig::default(),
            probe: None,
        }],
        ..TestServices::default()
    };
    with_services(time, services, |test_system| {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let server = ScriptedServer::serve(listener, port, answers);
        let lookup = test_system.system.lookup.clone().expect("a look-up is configured");
        test(test_system, lookup, server)
    });
}

/// The outcome of a look-up that registers nothing.
async fn failed(lookup: &LookupService, session_id: &str) -> Arc<LookupError> {
    lookup.register_unknown(&id(session_id)).await.expect_err("no session is registered")
}

#[test]
fn found_session_is_registered_in_one_commit_with_its_look_up() {
    with_payments(vec![complete_reply("", PAID)], |TestSystem { system, .. }, lookup, server| async move {
        lookup.register_unknown(&id("shop/cs_1:a")).await.expect("the session is registered");
        let (session, _) = system.store.session(&id("shop/cs_1:a")).expect("a read").expect("a session");
        assert_eq!(session.query.as_str(), "Sell honey?");
        assert_eq!(session.customer_email.expect("an address").as_str(), "ada@example.org");
        assert!(session.original.is_none() && session.order.is_none());
        assert_eq!(logged_events(&system.store), ["session_looked_up", "session_registered"]);
        assert!(server.heads().iter().all(|head| head.starts_with("get /sessions/cs_1%3aa ")));
    });
}

#[test]
fn concurrent_reads_of_one_session_share_one_look_up() {
    let slow = vec![ServerStep::Wait(Duration::from_millis(50)), ServerStep::Send(whole(PAID))];
    with_payments(vec![slow], |TestSystem { system, .. }, lookup, server| async move {
        let session_id = id("cs_1");
        let one = || lookup.register_unknown(&session_id);
        let (first, second, third) = tokio::join!(one(), one(), one());
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert_eq!(server.heads().len(), 1);
        assert_eq!(logged_events(&system.store).len(), 2);
    });
}

fn whole(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

#[test]
fn negative_answer_is_kept_for_a_short_time() {
    let unpaid = complete_reply("", &PAID.replace("true", "false"));
    let answers = vec![status(404, ""), unpaid, complete_reply("", PAID)];
    with_payments(answers, |TestSystem { system, time, .. }, lookup, server| async move {
        for (outcome, calls) in [(LookupOutcome::Unknown, 1), (LookupOutcome::NotFulfilled, 2)] {
            for _ in 0..3 {
                let error = failed(&lookup, "cs_1").await;
                assert!(matches!(&*error, LookupError::Call(call) if call.outcome() == outcome), "{error}");
                assert!(error.is_negative());
            }
            assert_eq!(server.heads().len(), calls);
            time.advance(NEGATIVE_KEPT.as_secs());
        }
        lookup.register_unknown(&id("cs_1")).await.expect("the session is registered");
        let events = ["session_looked_up", "session_looked_up", "session_looked_up", "session_registered"];
        assert_eq!(logged_events(&system.store), events);
    });
}

#[test]
fn kept_negative_answers_have_a_limit() {
    with_payments(vec![status(404, "")], |_, lookup, server| async move {
        for number in 0..=NEGATIVE_MAX {
            failed(&lookup, &format!("cs_{number}")).await;
        }
        assert!(lookup.0.lookups.lock().expect("the lock is not poisoned").len() <= NEGATIVE_MAX);
        assert_eq!(server.heads().len(), NEGATIVE_MAX + 1);
    });
}

#[test]
fn failure_of_the_payment_service_is_not_negative_and_not_kept() {
    let answers = vec![
        status(500, "Retry-After: 9\r\n"),
        complete_reply("", "{\"paid\":"),
        complete_reply("Content-Encoding: gzip\r\n", PAID),
    ];
    with_payments(answers, |_, lookup, server| async move {
        for (number, wait_s) in [(1, 9), (2, 5), (3, 5)] {
            let error = failed(&lookup, "cs_1").await;
            assert!(!error.is_negative(), "{error}");
            assert_eq!(error.retry_after().as_secs(), wait_s, "{error}");
            assert_eq!(server.heads().len(), number);
        }
        // the circuit is open now
        let error = failed(&lookup, "cs_1").await;
        assert!(matches!(&*error, LookupError::NotPermitted(PermitError::CircuitOpen { .. })), "{error}");
        assert_eq!(server.heads().len(), 3);
    });
}

#[test]
fn redirect_to_another_origin_is_not_followed() {
    let elsewhere =
        send_text("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n");
    with_payments(vec![elsewhere], |_, lookup, server| async move {
        let error = failed(&lookup, "cs_1").await;
        assert!(
            matches!(&*error, LookupError::Call(call) if call.outcome() == LookupOutcome::Failed),
            "{error}"
        );
        assert_eq!(server.heads().len(), 1);
    });
}

#[test]
fn slow_answer_is_a_timeout() {
    let slow = vec![ServerStep::Wait(Duration::from_secs(5))];
    with_payments(vec![slow], |TestSystem { system, .. }, lookup, _| async move {
        let error = failed(&lookup, "cs_1").await;
        assert!(matches!(&*error, LookupError::Call(LookupCallError::TimedOut(_))), "{error}");
        assert_eq!(logged_events(&system.store).first().map(String::as_str), Some("session_looked_up"));
    });
}

#[test]
fn exhausted_quota_blocks_further_look_ups() {
    let answers = vec![status(429, "Retry-After: 30\r\n"), complete_reply("", PAID)];
    with_payments(answers, |TestSystem { time, .. }, lookup, server| async move {
        assert_eq!(failed(&lookup, "cs_1").await.retry_after().as_secs(), 30);
        let error = failed(&lookup, "cs_2").await;
        assert!(matches!(&*error, LookupError::NotPermitted(PermitError::RequestedWait { .. })), "{error}");
        assert_eq!(server.heads().len(), 1);
        time.advance(30);
        lookup.register_unknown(&id("cs_1")).await.expect("the session is registered");
    });
}
