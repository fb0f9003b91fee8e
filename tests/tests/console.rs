//! `oraclectl console`: its pages, each action on them, and requests that are not from its own pages.

use domain_base::text_form::is_hiding;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use hyper::{Method, StatusCode};
use oracled_tests::console::{ConnectionFlood, ConsoleAnswer, ConsoleProcess};
use oracled_tests::generation::{purge_verdict, request_verdict, wait_for_order};
use oracled_tests::ground::{
    approve, ingest, office_documents, put_document, register_all, register_gated, started_run, wait_for_run,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::verification::{register, register_offices, several_years, workflow};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, at, document, eventually, get, log, post, submission};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// An approved verdict with the flag `short_summary`, which the policy holds.
const FLAGGED: &str = r#"{"verdict":"GREEN","summary":"<i>7</i>\u202e\u200b\u001b\u0007"}"#;
/// An approved verdict of the tier `strategy` with one empty analysis.
const STRATEGY: &str = r#"{"verdict":"GREEN",
"summary":"Open it, if the lease can be ended early. Your first bakery carries the rent of both for two years, the demand is there, and the open points are few and have dates.",
"breakdown":{
"Stability":{"verdict":"GREEN","analysis":"Two years of rent are covered by savings, and the first bakery has been profitable for nine quarters."},
"Turbulence":{"verdict":"AMBER","analysis":"Flour and energy prices in the region moved by up to 18 % within a year. A second oven doubles that exposure."},
"Change Rate":{"verdict":"GREEN","analysis":"Takings rose by 4 to 6 % each quarter. The plan assumes 3 %."},
"Completion":{"verdict":"GREEN","analysis":"Lease, staff and permits are named with dates. One quotation, for the oven, is missing."},
"Curvature":{"verdict":"GREEN","analysis":""}},
"strategy":{"next_step":"Ask for a second quotation for the oven.","alternative":"Supply two cafés from the first bakery for six months.",
"tests":["Sell at the market on eight Saturdays: at least 90 loaves a day.","Run the first shop for two weeks without you.","Ask 40 customers."]}}"#;
const HOLD: &str = "[gate]\nhold = [\"short_summary\"]\n";
const GATED: &str = "world-bank-population";
const HOSTILE: &str = "<i>7</i>";
/// Characters that a terminal obeys, that reorder the text around them, or that show nothing.
const HIDDEN: &str = "\u{202e}\u{200b}\u{1b}[2J\u{1b}]0;title\u{7}\u{feff}";

/// A daemon's model and world with all kinds of work for an operator.
async fn prepare() -> (ModelServer, DaemonWorld) {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let world = model.create_world(HOLD);
    (model, world)
}

/// Holds a verdict of each of these sessions.
async fn hold(daemon: &DaemonProcess<'_>, sessions: &[&str]) {
    for session in sessions {
        let answer =
            post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &submission(FLAGGED)).await;
        assert_eq!(answer.status, 202, "{}", document(&answer));
    }
}

/// Opens a review for each of these years, and returns their ids.
async fn open_reviews<const N: usize>(daemon: &DaemonProcess<'_>, years: [u16; N]) -> [String; N] {
    register_offices(
        daemon,
        &[("national-statistics", "primary", "54208"), ("population-register", "primary", "54608")],
    )
    .await;
    several_years(daemon, &[("national-statistics", "54208"), ("population-register", "54611")], 1961..1980)
        .await;
    let census = workflow("census", &["national-statistics", "population-register"], json!({}));
    register(&mut daemon.control().await, &census).await;
    let mut ids = Vec::new();
    for year in years {
        let question =
            json!({"workflow": "census", "where": {"area": "ABW", "year": year}, "axes": ["population"]});
        let answer = post(&mut daemon.routes().await, "/v1/verify", &question).await;
        ids.push(at(&answer, "/review_id").as_str().expect("a review is open").to_owned());
    }
    ids.try_into().expect("one review for each year")
}

/// Completes a run of a source with gates, and holds two more, which have a reject. Returns their ids.
async fn hold_runs(daemon: &DaemonProcess<'_>) -> [String; 3] {
    let control = &mut daemon.control().await;
    register_gated(control, GATED).await;
    approve(control, GATED).await;
    let payload = |years: std::ops::Range<u32>, further: &str| {
        let rows: String = years.map(|year| format!("Aruba,ABW,{year},{year}00\n")).collect();
        format!("Country Name,Country Code,Year,Value\n{rows}{further}")
    };
    let first = ingest(control, GATED, "2020-01-01", "2020-01-01", payload(1900..2000, "")).await;
    let first = started_run(&first);
    assert_eq!(wait_for_run(control, &first).await["state"], "completed");
    let bad = payload(1900..1950, &format!("<b>Nowhere</b>{HIDDEN},ABW,1951,none\n"));
    let mut runs = vec![first];
    for version in ["2021-01-01", "2022-01-01"] {
        let run = started_run(&ingest(control, GATED, version, version, format!("{bad}\n")).await);
        assert_eq!(wait_for_run(control, &run).await["state"], "held");
        runs.push(run);
    }
    runs.try_into().expect("three runs")
}

async fn start(world: &DaemonWorld) -> ConsoleProcess {
    let mut console = ConsoleProcess::start(world);
    console.log_in().await;
    console
}

fn assert_shows(answer: &ConsoleAnswer, texts: &[&str]) {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(!answer.text.contains("role=\"alert\""), "{}", answer.text);
    assert!(!answer.text.contains(HOSTILE), "foreign text is not escaped: {}", answer.text);
    assert_eq!(answer.text.find(is_hiding), None, "foreign text is not visible: {}", answer.text);
    for text in texts {
        assert!(answer.text.contains(text), "{text} is not in {}", answer.text);
    }
}

#[tokio::test]
async fn console_answers_only_the_browser_that_used_the_link() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let mut console = ConsoleProcess::start(&world);
    for path in ["/", "/log", "/events/log", "/sessions/cs_1", "/orders?state=held"] {
        assert_eq!(console.get(path).await.status, 401, "{path}");
    }
    assert_eq!(console.post("/sessions/cs_1/erase", &[("reason", "x")]).await.status, 401);
    assert_eq!(console.get("/login?secret=guess").await.status, 401);
    assert_eq!(console.get("/login").await.status, 401, "without a secret");
    let link = console.login_path();
    console.log_in().await;
    let first = console.get("/").await;
    assert_shows(&first, &["Overview", "What needs you"]);
    let policy = first.headers[CONTENT_SECURITY_POLICY].to_str().expect("text");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(console.get(&link).await.status, 401, "the link was used");
    console.renew_link();
    assert_eq!(console.get("/").await.status, 401, "a new link ends the login");
    console.log_in().await;
    assert_eq!(console.get("/").await.status, 200);
    assert_eq!(console.post("/logout", &[]).await.status, 200);
    assert_eq!(console.get("/").await.status, 401, "the browser has logged out");
}

/// The time of the last change of an order, as the forms on its page have it.
async fn changed_at(console: &ConsoleProcess, session: &str) -> String {
    let page = console.get(&format!("/sessions/{session}")).await.text;
    let (_, value) = page.split_once(r#"name="changed_at" value=""#).expect("a form of the order");
    value.split('"').next().expect("a value").to_owned()
}

#[tokio::test]
async fn console_refuses_requests_of_other_pages() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let console = start(&world).await;
    let own = console.origin();
    let [by_name, by_ip] = ["localhost", "127.0.0.1"].map(|host| format!("{host}:{}", console.port()));
    let by_name_origin = format!("http://{by_name}");
    let changed_at = changed_at(&console, "cs_1").await.replace(':', "%3A");
    let action = format!("action=release&reason=x&changed_at={changed_at}");
    let path = "/sessions/cs_1/order";
    // other origins, also on this machine; a foreign name that resolves to this address; and a request without an origin
    for headers in [
        vec![("origin", "https://evil.example")],
        vec![("origin", "http://127.0.0.1:3000")],
        vec![("origin", "null")],
        vec![("origin", by_name_origin.as_str())],
        vec![],
        vec![("origin", own.as_str()), ("sec-fetch-site", "same-site")],
        vec![("origin", own.as_str()), ("sec-fetch-site", "cross-site")],
    ] {
        let answer = console.send(Method::POST, path, &headers, action.clone()).await;
        assert_eq!(answer.status, 403, "{headers:?}");
    }
    // addresses and names that other servers have, too, and those of other machines: without a redirect to the console's own name
    for host in [by_ip.as_str(), by_name.as_str(), "127.0.0.1", "evil.example", "evil.example:7627"] {
        for (method, body) in [(Method::GET, String::new()), (Method::POST, action.clone())] {
            let headers = [("host", host), ("origin", own.as_str())];
            let answer = console.send(method, path, &headers, body).await;
            assert_eq!(
                (answer.status, answer.headers.get(LOCATION)),
                (StatusCode::MISDIRECTED_REQUEST, None)
            );
            assert!(!answer.text.contains(".localhost"), "{}", answer.text);
        }
    }
    for headers in [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "http://127.0.0.1:3000")],
        vec![("service-worker", "script")],
    ] {
        let answer = console.send(Method::GET, "/sessions/cs_1", &headers, String::new()).await;
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(!answer.text.contains("short_summary"), "{}", answer.text);
    }
    assert!(log(&mut daemon.control().await, "event=order_released").await.is_empty());
    let answer = console.send(Method::POST, path, &[("origin", &own)], action).await;
    assert_eq!(answer.location(), "/sessions/cs_1?done=released");
}

/// The address of the machine other than the loopback, and the processes of other users, are no clients.
#[tokio::test]
async fn console_accepts_no_connection_of_another_user() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let console = start(&world).await;
    for ip in loopback_addresses() {
        let ask = format!(
            "exec 3<>/dev/tcp/{ip}/{port}; printf 'GET /login HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
            port = console.port(),
            host = console.origin().trim_start_matches("http://")
        );
        let asked = |command: &mut Command| command.args(["-c", &ask]).output().expect("bash starts");
        let own = asked(&mut Command::new("bash"));
        assert!(String::from_utf8_lossy(&own.stdout).starts_with("HTTP/1.1 401"), "{own:?}");
        if nix::unistd::geteuid().is_root() {
            let mut other = Command::new("setpriv");
            other.args(["--reuid", "65534", "--clear-groups", "bash"]);
            let other = asked(&mut other);
            assert!(other.stdout.is_empty(), "{other:?}");
        }
    }
}

/// Those of this machine: it can lack IPv6.
fn loopback_addresses() -> Vec<IpAddr> {
    let all = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    all.into_iter().filter(|ip| TcpListener::bind((*ip, 0)).is_ok()).collect()
}

/// Another user who listens on the port at one of the addresses would get requests of the browser.
#[tokio::test]
async fn console_does_not_start_on_a_port_that_is_taken_at_one_address() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    for ip in loopback_addresses() {
        let other = TcpListener::bind((ip, 0)).expect("a free port");
        let taken = other.local_addr().expect("it listens");
        let refused = world.ctl(&["console", "--port", &taken.port().to_string()]);
        assert_eq!(refused.status.code(), Some(5), "{refused:?}");
        assert!(refused.stdout.is_empty(), "no link is printed: {refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(&taken.to_string()), "{refused:?}");
    }
}

#[tokio::test]
async fn console_has_another_name_at_each_start_and_an_address_only_on_request() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let [first, second] = [(); 2].map(|()| ConsoleProcess::start(&world).origin());
    let label = |origin: &str| {
        let host = origin.strip_prefix("http://").and_then(|host| host.split_once(".localhost:"));
        host.expect("a name below localhost").0.to_owned()
    };
    assert_ne!(label(&first), label(&second));
    let mut by_ip = ConsoleProcess::start_with(&world, &["--ip"]);
    assert_eq!(by_ip.origin(), format!("http://127.0.0.1:{}", by_ip.port()));
    by_ip.log_in().await;
    assert_eq!(by_ip.get("/").await.status, 200);
    let name = format!("localhost:{}", by_ip.port());
    assert_eq!(by_ip.send(Method::GET, "/", &[("host", &name)], String::new()).await.status, 421);
}

/// The HTTP library answers before the console does, and without its headers: such an answer must have nothing to protect.
#[tokio::test]
async fn malformed_request_gets_an_answer_without_a_page() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let console = ConsoleProcess::start(&world);
    let too_long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    for wrong in ["GET / HTTP/9.9\r\n\r\n", &too_long] {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, console.port())).expect("it listens");
        // it may close the connection before it has read all
        drop(stream.write_all(wrong.as_bytes()));
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 4") && body.is_empty(), "{answer}");
    }
}

/// The console must not spend more on a connection of another user the more of them there are.
#[tokio::test(flavor = "multi_thread")]
async fn console_answers_its_user_while_another_opens_connections() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let console = start(&world).await;
    let flood = ConnectionFlood::start(console.port());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let began = Instant::now();
        let answer =
            timeout(Duration::from_secs(20), console.get("/orders")).await.expect("an answer in time");
        assert_eq!(answer.status, StatusCode::OK);
        slowest = slowest.max(began.elapsed());
    }
    let connections = flood.stop();
    println!("{connections} connections; slowest answer: {slowest:?}");
    assert!(connections > 100 && slowest < Duration::from_secs(2), "{connections} {slowest:?}");
}

#[tokio::test]
async fn reviewer_gets_reviews_and_held_orders_and_nothing_else() {
    const REVIEWER: u32 = 65_534;
    let is_executable = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups"]).arg(oracled_tests::program("oraclectl"));
        command.arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if !nix::unistd::geteuid().is_root() || !is_executable() {
        println!("skipped: it needs root, and programs that another user may run");
        return;
    }
    let world = DaemonWorld::for_reviewers(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let [id] = open_reviews(&daemon, [1962]).await;
    let mut console = ConsoleProcess::start_for_reviewer(&world, REVIEWER);
    console.log_in().await;
    assert_shows(&console.get("/reviews").await, &[&id]);
    assert_shows(&console.get("/orders").await, &["cs_1"]);
    let page = console.get(&format!("/reviews/{id}")).await;
    assert_shows(&page, &["54208", "54611", "ABW"]);
    for path in ["/sources", "/log", "/rules", "/sessions/cs_1/erase"] {
        assert_eq!(console.get(path).await.status, 404, "{path}");
    }
    let fields = [
        ("choice:population", r#"{"take":"offered","value":"54611","definition":null}"#),
        ("valid_for", "30d"),
        ("reason", "the census"),
    ];
    let resolved = console.post(&format!("/reviews/{id}/resolve"), &fields).await;
    assert_shows(&console.get(resolved.location()).await, &["population 54,611", "the census"]);
    let seen = changed_at(&console, "cs_1").await;
    let fields = [("action", "release"), ("reason", "read"), ("changed_at", seen.as_str())];
    let released = console.post("/sessions/cs_1/order", &fields).await;
    assert_shows(&console.get(released.location()).await, &["Done: released."]);
    for path in ["/sessions/cs_1", "/sessions/cs_1/held"] {
        assert_shows(&console.get(path).await, &["not held any longer"]);
    }
    let entry = &log(&mut daemon.control().await, "event=review_resolved").await[0];
    assert_eq!(
        (&entry["caller"]["socket"], &entry["caller"]["uid"]),
        (&json!("review"), &json!(REVIEWER)),
        "{entry}"
    );
}

#[tokio::test]
async fn review_socket_in_place_of_the_control_socket_serves_reviewers() {
    let world = DaemonWorld::for_reviewers(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let [id] = open_reviews(&daemon, [1962]).await;
    let mut console = ConsoleProcess::start_on_review_socket(&world);
    console.log_in().await;
    assert_shows(&console.get("/reviews").await, &[&id]);
    assert_shows(&console.get("/orders").await, &["cs_1"]);
    let first = console.get("/").await;
    assert_eq!(first.location(), "/inbox");
    for path in ["/sources", "/log", "/rules"] {
        assert_eq!(console.get(path).await.status, 404, "{path}");
    }
    let seen = changed_at(&console, "cs_1").await;
    let fields = [("action", "release"), ("reason", "read"), ("changed_at", seen.as_str())];
    let released = console.post("/sessions/cs_1/order", &fields).await;
    assert_shows(&console.get(released.location()).await, &["Done: released."]);
}

/// The text that the second press repeats.
fn confirmed(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"confirmed\" value=\"").expect("a question");
    rest.split_once('"').expect("a value").0
}

#[tokio::test]
async fn operator_decides_several_held_orders_at_once() {
    let (_model, world) = prepare().await;
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1", "cs_2", "cs_3"]).await;
    let console = start(&world).await;
    assert_shows(&console.get("/inbox").await, &["href=\"/orders/several\""]);
    let preview = console.get("/orders/several?state=held&cause=policy&since=1h").await;
    assert_shows(&preview, &["changed_at:cs_1", "changed_at:cs_3", "verdicts of 3 orders", "Release them"]);
    assert_shows(&console.get("/orders/several?cause=expired").await, &["none"]);
    assert_shows(&console.get("/orders/several?state=failed").await, &["none"]);
    assert_eq!(console.get("/orders/several?state=delivered").await.status, 400);
    assert_shows(&console.get("/orders/several?application=default").await, &["verdicts of 3 orders"]);
    let other = console.get("/orders/several?application=shop").await;
    assert_eq!(other.status, 400);
    assert!(
        ["<code>shop</code>", "(invalid_request)", "value=\"shop\""]
            .iter()
            .all(|part| other.text.contains(part)),
        "{}",
        other.text
    );
    // the form stays, with what was entered and why it is refused
    let wrong = console.get("/orders/several?since=banana").await;
    assert_eq!(wrong.status, 400);
    for text in ["value=\"banana\"", "<select name=\"state\">", "<code>banana</code>"] {
        assert!(wrong.text.contains(text), "{text} is not in {}", wrong.text);
    }
    let (first, third) = (changed_at(&console, "cs_1").await, changed_at(&console, "cs_3").await);
    let seen = [("changed_at:cs_1", first.as_str()), ("changed_at:cs_3", third.as_str())];
    let refused = console.post("/orders/several", &[&seen[..], &[("action", "release")]].concat()).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("<code>Reason</code>"), "{}", refused.text);
    let fields = [&seen[..], &[("action", "release"), ("reason", "the conflict is explained")]].concat();
    // more than one needs a second press; the orders that were left out stay so
    let asked = console.post("/orders/several", &fields).await;
    assert!(asked.text.contains("name=\"changed_at:cs_2\""), "{}", asked.text);
    assert_eq!(asked.text.matches(" checked aria-label").count(), 2, "{}", asked.text);
    assert!(log(&mut daemon.control().await, "event=order_released").await.is_empty());
    let digest = confirmed(&asked.text);
    let fields = [&fields[..], &[("confirmed", digest)]].concat();
    // another order in place of one of them
    let second = changed_at(&console, "cs_2").await;
    let other = [("changed_at:cs_1", first.as_str()), ("changed_at:cs_2", second.as_str())];
    let swapped = [&other[..], &fields[2..]].concat();
    let asked_again = console.post("/orders/several", &swapped).await;
    assert_ne!(confirmed(&asked_again.text), digest);
    // an order that has changed since is not checked any longer
    let outdated = [&[("changed_at:cs_2", "2026-01-01T00:00:00Z")][..], &fields[..4]].concat();
    let marked = console.post("/orders/several", &outdated).await;
    assert_eq!(marked.text.matches(" checked aria-label").count(), 2, "{}", marked.text);
    let (_, changed_box) = marked.text.split_once("name=\"changed_at:cs_2\"").expect("its row");
    let (changed_box, _) = changed_box.split_once('>').expect("the end of its box");
    assert!(!changed_box.contains(" checked"), "{changed_box}");
    assert!(log(&mut daemon.control().await, "event=order_released").await.is_empty());
    assert_shows(&console.post("/orders/several", &fields).await, &["released 2 of 2 orders"]);
    let again = console.post("/orders/several", &fields).await;
    assert_shows(&again, &["released 0 of 2 orders", "not changed"]);
    let released = log(&mut daemon.control().await, "event=order_released").await;
    assert_eq!(released.len(), 2, "{released:?}");
    let fields = [("changed_at:cs_2", "2026-01-01T00:00:00Z"), ("action", "fail"), ("reason", "late")];
    let late = console.post("/orders/several", &fields).await;
    assert_shows(&late, &["failed 0 of 1 order."]);
    assert_shows(&console.get("/orders/several").await, &["verdicts of 1 order on", "changed_at:cs_2"]);
}

#[tokio::test]
async fn operator_decides_held_orders() {
    let (_model, world) = prepare().await;
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1", "cs_2", "cs_3"]).await;
    let console = start(&world).await;
    let listed = console.get("/orders?state=held").await;
    assert_shows(&listed, &["/sessions/cs_1", "/sessions/cs_3", "held"]);
    for (words, shown) in [("shop%2Fcs_1", "shop/cs_1"), ("Aruba", "Aruba"), ("two%20words", "two words")] {
        let nothing = console.get(&format!("/find?q={words}")).await;
        assert_eq!(nothing.status, 404, "{}", nothing.text);
        assert!(nothing.text.contains(&format!("<b>{shown}</b>")), "{}", nothing.text);
    }
    let unknown = console.get("/sessions/shop%2Fcs_1").await;
    assert!(unknown.status == 404 && unknown.text.contains("shop/cs_1"), "{}", unknown.text);
    assert!(unknown.text.contains("data-count=\"inbox\"><span>3</span>"), "{}", unknown.text);
    let page = console.get("/sessions/cs_1").await;
    assert_shows(
        &page,
        &[
            "short_summary",
            "Release to the customer",
            "Read the held verdict",
            "policy_applied",
            "Erase the session",
        ],
    );
    let held = console.get("/sessions/cs_1/held").await;
    assert_shows(&held, &["&lt;i&gt;7&lt;/i&gt;", "As the customer would see it", "short summary"]);
    assert_eq!(log(&mut daemon.control().await, "event=held_verdict_read").await.len(), 1);
    for (session, action, done) in
        [("cs_1", "release", "released"), ("cs_2", "retry", "retried"), ("cs_3", "fail", "failed")]
    {
        let path = format!("/sessions/{session}/order");
        let changed_at = changed_at(&console, session).await;
        let seen = ("changed_at", changed_at.as_str());
        let without_reason = console.post(&path, &[("action", action), seen]).await;
        assert_eq!(without_reason.status, 400, "{}", without_reason.text);
        // the order has changed since the page was read
        let earlier = ("changed_at", "2026-01-01T00:00:00Z");
        let outdated = console.post(&path, &[("action", action), ("reason", "seen before"), earlier]).await;
        assert_eq!(outdated.status, 409, "{}", outdated.text);
        // the page is shown again, and keeps the reason
        for text in ["Nothing was changed", ">seen before</textarea>", "Decide"] {
            assert!(outdated.text.contains(text), "{text} is not in {}", outdated.text);
        }
        let of_held_page = [("action", action), ("reason", "seen before"), earlier, ("page", "held")];
        let outdated = console.post(&path, &of_held_page).await;
        assert_eq!(outdated.status, 409, "{}", outdated.text);
        for text in ["This order has changed at", ">seen before</textarea>", "As the customer would see it"] {
            assert!(outdated.text.contains(text), "{text} is not in {}", outdated.text);
        }
        let answer = console.post(&path, &[("action", action), ("reason", "read and judged"), seen]).await;
        let shown = console.get(answer.location()).await;
        assert_shows(&shown, &[&format!("Done: {done}."), "read and judged"]);
    }
    let routes = &mut daemon.routes().await;
    for (session, state) in [("cs_1", "delivered"), ("cs_2", "delivered"), ("cs_3", "failed")] {
        wait_for_order(routes, session, state).await;
    }
    let seen = ("changed_at", "2026-01-01T00:00:00Z");
    let again = console.post("/sessions/cs_1/order", &[("action", "release"), ("reason", "x"), seen]).await;
    assert_eq!(again.status, 409, "{}", again.text);
    for text in ["Your reason, which is not stored", ">x</textarea>", "delivered"] {
        assert!(again.text.contains(text), "{text} is not in {}", again.text);
    }
    // the page of a decided verdict names the decision
    let decided = console.get("/sessions/cs_1/held").await;
    assert_shows(&decided, &["The order is delivered now.", "has released it at", "read and judged"]);
    let inbox = console.get("/inbox?decided=mine").await;
    assert_shows(&inbox, &["Decided", "released", "retried", "failed", "read and judged", "/sessions/cs_1"]);
    assert_eq!(console.post("/sessions/cs_1/order", &[("action", "eat"), ("reason", "x")]).await.status, 400);
    assert_eq!(console.get("/sessions/none").await.status, 404);
}

#[tokio::test]
async fn delivered_verdict_has_its_delivery_and_its_card() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let console = start(&world).await;
    let delivered = console.get("/sessions/cs_1/verdict").await;
    assert_shows(
        &delivered,
        &["Delivery and proof", "The verdict GREEN was stored", "/sessions/cs_1/card.html"],
    );
    let card = console.get("/sessions/cs_1/card.html").await;
    assert_eq!(card.headers[CONTENT_TYPE], "application/octet-stream");
    assert!(card.status == 200 && card.text.contains("verdict_cached"), "{}", card.text);
    let reads = log(&mut daemon.control().await, "event=operator_read&after=0").await;
    let of_card = reads.iter().filter(|entry| entry["parameters"] == "card=1");
    assert_eq!(of_card.count(), 1, "{reads:?}");
}

#[tokio::test]
async fn card_of_a_lost_verdict_does_not_regenerate_it() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    request_verdict(&mut daemon.routes().await, "cs_1").await;
    let control = &mut daemon.control().await;
    purge_verdict(control, "cs_1").await;
    let (console, calls) = (start(&world).await, model.request_count());
    let card = console.get("/sessions/cs_1/card.html").await;
    assert!(card.status == 404 && card.text.contains("<code>oraclectl card</code>"), "{}", card.text);
    assert_eq!(model.request_count(), calls);
    assert!(log(control, "event=regen_attempted").await.is_empty());
}

#[tokio::test]
async fn operator_erases_a_session_only_after_repeating_its_id() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let console = start(&world).await;
    let refused =
        console.post("/sessions/cs_1/erase", &[("repeated", "cs_2"), ("reason", "a request")]).await;
    assert_eq!(refused.status, 400);
    assert_eq!(console.get("/sessions/cs_1").await.status, 200);
    let erased = console.post("/sessions/cs_1/erase", &[("repeated", "cs_1"), ("reason", "a request")]).await;
    assert_shows(&erased, &["session cs_1 is erased", "held verdict"]);
    assert_eq!(console.get("/sessions/cs_1").await.status, 404);
    assert_eq!(log(&mut daemon.control().await, "event=session_erased").await.len(), 1);
}

#[tokio::test]
async fn search_reads_a_session_once() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let console = start(&world).await;
    let found = console.get("/find?q=cs_1").await;
    assert_shows(&found, &["Release to the customer", "Read the held verdict", "policy_applied"]);
    let reads = log(&mut daemon.control().await, "event=operator_read&session=cs_1&after=0").await;
    let subjects: Vec<_> = reads.iter().map(|entry| &entry["subject"]).collect();
    assert_eq!(subjects, ["session"]);
}

#[tokio::test]
async fn session_on_legal_hold_is_listed_and_has_no_erasure() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let console = start(&world).await;
    assert_shows(&console.get("/sessions/cs_1").await, &["Erase…"]);
    let listed = "href=\"/sessions/cs_1\"";
    assert!(!console.get("/holds").await.text.contains(listed));
    assert!(world.ctl(&["hold", "--session", "cs_1", "--reason", "case 17"]).status.success());
    let page = console.get("/sessions/cs_1").await;
    assert_shows(&page, &["href=\"/holds\"", "case 17"]);
    assert!(!page.text.contains("Erase…"), "{}", page.text);
    assert_shows(&console.get("/holds").await, &[listed, "case 17"]);
    assert_shows(&console.get("/webhooks").await, &["Not accepted yet", "Attempts, the latest first"]);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the ways in which a review ends, one after the other")]
async fn reviewer_resolves_dismisses_revokes_and_comments() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let [by_source, revoked, by_own, dismissed] = open_reviews(&daemon, [1961, 1962, 1963, 1964]).await;
    let console = start(&world).await;
    let queue = console.get("/reviews").await;
    assert_shows(&queue, &[&by_source, &dismissed, "census", "area ABW, year 1961", "54208, 54611"]);
    assert!(!console.get("/reviews?workflow=another").await.text.contains(&by_source));
    let page = console.get(&format!("/reviews/{by_source}")).await;
    // the raw lines of both sources, units in words, releases, and the difference; a mean that no source has is not offered
    assert_shows(
        &page,
        &[
            "<h1>Population, Aruba, 1961</h1>",
            "Aruba,ABW,1961,<mark>54208</mark>",
            "Aruba,ABW,1961,<mark>54611</mark>",
            "54,611 <small>persons</small>",
            "persons apart",
            "Population at other times",
            "/sources/national-statistics/history?where:area=ABW&amp;where:year=1961&amp;axis=population",
            "2026-03-07",
            "<b>403</b>",
            "0.73 %",
            "of the larger value",
            "days old",
            "as each source has it",
        ],
    );
    assert!(!page.text.contains("54,410"), "{}", page.text);
    let choice = |text: &str| ("choice:population", text.to_owned());
    for (id, fields, value) in [
        (&by_source, vec![choice(r#"{"take":"offered","value":"54611","definition":null}"#)], "54611"),
        (&revoked, vec![choice(r#"{"take":"offered","value":"54208","definition":null}"#)], "54208"),
        (&by_own, vec![choice(r#"{"take":"own"}"#), ("own:population", "54,300".into())], "54300"),
    ] {
        let path = format!("/reviews/{id}/resolve");
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let further = [("valid_for", "30d"), ("reason", "the census report")];
        for (missing, _) in further {
            let rest = further.into_iter().filter(|(name, _)| *name != missing);
            let rest: Vec<_> = fields.iter().copied().chain(rest).collect();
            assert_eq!(console.post(&path, &rest).await.status, 400, "without {missing}");
        }
        assert_eq!(console.post(&path, &further).await.status, 400, "without a value");
        let all: Vec<_> = fields.iter().copied().chain(further).collect();
        let answer = console.post(&path, &all).await;
        let decided = format!("population {}", value.replace("54", "54,"));
        assert_shows(&console.get(answer.location()).await, &[&decided, "the census report", "Revoke"]);
        let state = document(&get(&mut daemon.control().await, &format!("/v1/reviews/{id}")).await);
        let resolution = &state["resolved"]["resolution"];
        assert_eq!(
            (&resolution["values"]["population"], &resolution["valid_for_seconds"]),
            (&json!(value), &json!(2_592_000))
        );
    }
    // a colleague has decided meanwhile: the page names the decision, and keeps the reason
    let late = [choice(r#"{"take":"own"}"#), ("own:population", "54,301".into())];
    let late = late.iter().map(|(name, value)| (*name, value.as_str()));
    let late: Vec<_> = late.chain([("valid_for", "30d"), ("reason", "my own count")]).collect();
    let answer = console.post(&format!("/reviews/{by_own}/resolve"), &late).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
    for text in
        ["Nothing was changed", ">my own count</textarea>", "Resolved at", "54,300", "the census report"]
    {
        assert!(answer.text.contains(text), "{text} is not in {}", answer.text);
    }
    let done = console.get(&format!("/inbox?done=resolved&of=/reviews/{by_own}")).await;
    let named =
        ["Done: resolved.", "Population, Aruba, 1963", "54,300 persons", "valid until", "Show or revoke it"];
    assert_shows(&done, &named);
    // a value that no source is near needs a second press
    let absurd = [choice(r#"{"take":"own"}"#), ("own:population", "74".into())];
    let absurd = absurd.iter().map(|(name, value)| (*name, value.as_str()));
    let mut absurd: Vec<_> = absurd.chain([("valid_for", "30d"), ("reason", "a guess")]).collect();
    let path = format!("/reviews/{dismissed}/resolve");
    let asked = console.post(&path, &absurd).await;
    for text in
        ["54,208 to 54,611 persons", "74 persons", "once more", ">a guess</textarea>", r#"value="74""#]
    {
        assert!(asked.text.contains(text), "{text} is not in {}", asked.text);
    }
    absurd.push(("confirmed", "\"75\""));
    assert_eq!(console.post(&path, &absurd).await.status, 200, "another value was confirmed");
    let state = document(&get(&mut daemon.control().await, &format!("/v1/reviews/{dismissed}")).await);
    assert!(state["resolved"].is_null(), "{state}");
    let reason = [("reason", "misread")];
    let answer = console.post(&format!("/reviews/{revoked}/revoke"), &reason).await;
    assert_shows(&console.get(answer.location()).await, &["revoked", "misread"]);
    let answer = console.post(&format!("/reviews/{dismissed}/dismiss"), &reason).await;
    assert_shows(&console.get(answer.location()).await, &["dismissed", "misread"]);
    let answer = console.post(&format!("/reviews/{dismissed}/comments"), &[("reason", HOSTILE)]).await;
    assert_shows(
        &console.get(answer.location()).await,
        &["&lt;i&gt;7&lt;/i&gt;", "Done: commented.</strong> Population, Aruba, 1964.", "#comments"],
    );
    assert!(!console.get("/reviews").await.text.contains(&dismissed));
    assert_shows(&console.get("/reviews?all=true").await, &[&dismissed, "dismissed at"]);
    let decided = console.get("/inbox?decided=all").await;
    assert_shows(&decided, &["Population, Aruba, 1961", "Population, Aruba, 1964", "dismissed"]);
    assert!(!decided.text.contains("ABW"), "{}", decided.text);
    // another console has no titles from the pages above
    let raw_reads = async || {
        let reads = log(&mut daemon.control().await, "event=operator_read&after=0&limit=1000").await;
        reads.iter().filter(|entry| entry["subject"] == "raw_record").count()
    };
    let (other, before) = (start(&world).await, raw_reads().await);
    assert_shows(
        &other.get("/inbox?decided=all").await,
        &["Population, Aruba, 1961", "Population, Aruba, 1964"],
    );
    let done = other.get(&format!("/inbox?done=dismissed&of=/reviews/{dismissed}")).await;
    assert_shows(&done, &["Done: dismissed.</strong> Population, Aruba, 1964."]);
    assert!(before > 0 && raw_reads().await == before, "a title needs no raw record");
    assert_eq!(console.get("/reviews/none").await.status, 404);
}

#[tokio::test]
async fn operator_decides_a_held_run_after_seeing_its_rejects() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let [first, held, other] = hold_runs(&daemon).await;
    let console = start(&world).await;
    let first_page = console.get("/").await;
    assert_shows(&first_page, &["2 held runs", "world-bank-population, release 2021-01-01"]);
    assert_shows(&console.get("/sources").await, &["Held runs", &held, "ODC-PDDL-1.0", GATED]);
    let page = console.get(&format!("/runs/{held}")).await;
    assert_shows(
        &page,
        &[
            "Approve the run",
            r"&lt;b&gt;Nowhere&lt;/b&gt;\u{202e}\u{200b}\u{1b}[2J\u{1b}]0;title\u{7}\u{feff},ABW,1951,none",
            "Of 100 records in force",
            "<h1>world-bank-population, release 2021-01-01</h1>",
            "population",
            "What would change",
            "Aruba,ABW,1999,199900",
            "Changed records",
            " %, allowed ",
        ],
    );
    let path = format!("/runs/{held}/approve");
    assert_eq!(console.post(&path, &[]).await.status, 400, "without a reason");
    let answer = console.post(&path, &[("reason", "a smaller census")]).await;
    assert_eq!(answer.location(), format!("/runs/{held}?done=approved"));
    let control = &mut daemon.control().await;
    assert_eq!(wait_for_run(control, &held).await["state"], "completed");
    let answer = console.post(&format!("/runs/{held}/undo"), &[("reason", "it was wrong")]).await;
    assert_shows(&console.get(answer.location()).await, &["Done: undone.", "undoes", &held]);
    assert_shows(&console.get(&format!("/runs/{held}")).await, &["undone by"]);
    assert_shows(&console.get(&format!("/runs/{first}")).await, &["completed", "Undo the run"]);
    let answer = console.post(&format!("/runs/{other}/discard"), &[("reason", "the same census")]).await;
    assert_shows(&console.get(answer.location()).await, &["Done: discarded.", "the same census"]);
    assert_eq!(console.post(&format!("/runs/{held}/eat"), &[]).await.status, 400);
    assert_eq!(console.get("/runs/0123456789").await.status, 404);
}

#[tokio::test]
async fn changed_value_is_named_and_an_outdated_held_run_needs_a_second_press() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let [_, held, _] = hold_runs(&daemon).await;
    let console = start(&world).await;
    assert!(!console.get(&format!("/runs/{held}")).await.text.contains("name=\"outdated_by\""));
    let control = &mut daemon.control().await;
    let rows: String = (1901..2000).map(|year| format!("Aruba,ABW,{year},{year}00\n")).collect();
    let payload = format!("Country Name,Country Code,Year,Value\nAruba,ABW,1900,190001\n{rows}");
    let later = started_run(&ingest(control, GATED, "2020-06-01", "2020-06-01", payload).await);
    assert_eq!(wait_for_run(control, &later).await["state"], "completed");
    let page = console.get(&format!("/runs/{later}")).await;
    assert_shows(&page, &[">population, persons</td>", ">changed</td>", "1900: population, persons"]);
    for column in ["Year", "Value"] {
        assert!(!page.text.contains(&format!(">{column}</td>")), "{}", page.text);
    }

    let page = console.get(&format!("/runs/{held}")).await;
    let seen = format!("name=\"outdated_by\" value=\"{later}\"");
    assert_shows(&page, &["The data in force has changed since this run was read.", &seen]);
    let shown = at(&get(control, &format!("/v1/runs/{held}")).await, "/outdated_by").clone();
    assert_eq!(shown, json!(later));
    let path = format!("/runs/{held}/approve");
    let (reason, outdated_by) = (("reason", "a smaller census"), ("outdated_by", later.as_str()));
    // from a page of before
    let refused = console.post(&path, &[reason]).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert!(refused.text.contains("run_outdated") && refused.text.contains(&seen), "{}", refused.text);
    let asked = console.post(&path, &[reason, outdated_by]).await;
    assert_eq!(asked.status, 200, "{}", asked.text);
    assert!(asked.text.contains(&format!("name=\"confirmed\" value=\"{later}\"")), "{}", asked.text);
    let approved = console.post(&path, &[reason, outdated_by, ("confirmed", later.as_str())]).await;
    assert_eq!(approved.location(), format!("/runs/{held}?done=approved"));
    assert_eq!(wait_for_run(control, &held).await["state"], "completed");
    // from the page of before the approval: no question, since the same operator has approved it
    let late = console.post(&path, &[reason, outdated_by]).await;
    assert_eq!(late.location(), format!("/runs/{held}?done=approved"));
}

#[tokio::test]
async fn source_page_answers_queries_and_shows_the_history_of_a_value() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    open_reviews(&daemon, []).await;
    let console = start(&world).await;
    assert_shows(
        &console.get("/sources/national-statistics").await,
        &["World Bank", "Freshness", "2026-03-07", "percent"],
    );
    let answer = console
        .get("/sources/national-statistics/query?filters=area%3DABW%0Ayear%3C%3D1962&axes=population")
        .await;
    assert_shows(
        &answer,
        &["54,208", "population, persons", "1961", "--unix-socket", "querySource", "query_source"],
    );
    assert!(!answer.text.contains("1963"), "the filter applies: {}", answer.text);
    let wrong = console.get("/sources/national-statistics/query?filters=area").await;
    assert!(wrong.text.contains("role=\"alert\"") && wrong.text.contains("operator"), "{}", wrong.text);
    let control = &mut daemon.control().await;
    let later = "Country Name,Country Code,Year,Value\nAruba,ABW,1961,54999\n";
    let run = ingest(control, "national-statistics", "2026-04-01", "2026-04-01", later).await;
    assert_eq!(wait_for_run(control, &started_run(&run)).await["state"], "completed");
    let path = "/sources/national-statistics/history?where:area=ABW&where:year=1961&axis=population";
    let history = console.get(path).await;
    // known after the second release: 54208; known after the third: 54208, then 54999; in the list, and in the table of the chart
    assert_shows(&history, &["54,208", "54,999", "2026-04-01T00:00:00Z", "before "]);
    let rows = history.text.matches(">54,208</td>").count();
    assert_eq!((rows, history.text.matches(">54,999</td>").count()), (5, 2), "{}", history.text);
    assert_shows(&history, &["<h1>Population, Aruba, 1961</h1>", "value, persons", "class=\"legend\""]);
    assert!(!history.text.contains("<td>ABW</td>"), "{}", history.text);
    // without all identity values, it would be the history of another subject
    let partial = console.get(&path.replace("where:year=1961&", "")).await;
    assert!(partial.text.contains("role=\"alert\"") && partial.text.contains("year"), "{}", partial.text);
    assert!(!partial.text.contains("class=\"legend\""), "{}", partial.text);
    let unknown = console.get(&path.replace("1961", "1871")).await;
    assert_shows(&unknown, &["No record matches"]);
    // entries of reads wait in a queue for a moment
    eventually("each view is one entry", async || {
        let entries = log(&mut daemon.control().await, "event=source_queried&limit=1000").await;
        entries.iter().filter(|entry| entry["read"] == "history").count() == 2
    })
    .await;
    assert_eq!(console.get("/sources/none").await.status, 400);
}

#[tokio::test]
async fn rules_page_marks_supported_and_contradicted_claims() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    open_reviews(&daemon, []).await;
    let console = start(&world).await;
    assert_shows(&console.get("/rules").await, &["Facts from a source", "national-statistics"]);
    let text = "The tower has 3 floors. The tower is green. <i>7</i>";
    let checked = console.post("/rules", &[("text", text), ("facts", "The tower has 3 floors.\n")]).await;
    assert_shows(
        &checked,
        &[
            "FAIL",
            "<a class=\"claim ok\" href=\"#c1\">The tower has 3 floors",
            "<a class=\"claim waiting\" href=\"#c2\">The tower is green",
            "no fact supports this claim",
        ],
    );
    let from_source = [
        ("text", "The population of Aruba in 1961 was 54,208."),
        ("source", "national-statistics"),
        ("filters", "area=ABW\nyear=1961"),
    ];
    let checked = console.post("/rules", &from_source).await;
    assert_shows(&checked, &["PASS", "(source national-statistics)"]);
    let compared = [
        ("text", "The tower has 4 floors."),
        ("facts", "The tower has 3 floors"),
        ("rules", "RULE-PREC-013"),
    ];
    let checked = console.post("/rules", &compared).await;
    assert_shows(
        &checked,
        &["FAIL", "nearest fact: The tower has 3 floors", ">quantity</span>", ">contradicted<"],
    );
    assert!(!console.get("/rules").await.text.contains("name=\"wordlist\""), "none is registered");
    let list =
        json!({"wordlist_id": "house", "version": 1, "language": "en", "synonyms": [["floor", "storey"]]});
    put_document(&mut daemon.control().await, "/v1/documents/wordlist/house@1", &list).await;
    let listed = [
        ("text", "The tower has 3 storeys."),
        ("facts", "The tower has 3 floors"),
        ("rules", "RULE-PREC-013"),
        ("wordlist", "house@1"),
    ];
    let checked = console.post("/rules", &listed).await;
    assert_shows(&checked, &["PASS", "word list house@1", ">storeys</span>", "synonym", "selected>house@1"]);
    let empty = console.post("/rules", &[("facts", "x")]).await;
    assert!(empty.text.contains("role=\"alert\""), "{}", empty.text);
}

#[tokio::test]
async fn log_page_filters_and_proves_entries() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1", "cs_2"]).await;
    let console = start(&world).await;
    let of_session = console.get("/log?session=cs_1&event=policy_applied").await;
    assert_shows(&of_session, &["policy_applied", "/sessions/cs_1"]);
    assert!(!of_session.text.contains("/sessions/cs_2"), "{}", of_session.text);
    let seq = log(&mut daemon.control().await, "session=cs_1&event=policy_applied").await[0]["seq"].clone();
    assert_shows(&console.get(&format!("/log/{seq}")).await, &["verified now", "Download", "cs_1"]);
    let bundle = console.get(&format!("/log/{seq}/bundle.json")).await;
    assert_eq!(bundle.headers[CONTENT_TYPE], "application/json");
    let file = world.path("bundle.json");
    fs::write(&file, &bundle.text).expect("the file is written");
    let key = String::from_utf8(world.ctl(&["log", "key"]).stdout).expect("valid UTF-8");
    let verified = world.ctl(&["verify-log", &file.display().to_string(), "--key", key.trim()]);
    assert!(verified.status.success(), "{verified:?}");
    assert_shows(&console.get("/log?after=0").await, &["service_started"]);
    // each form stays, with what was entered and why it is refused
    for (path, value, button) in [
        ("/log?since=soon", "soon", "Filter the entries"),
        ("/log?after=many", "many", "Filter the entries"),
        ("/log?session=%20x%2F", "x/", "Filter the entries"),
        ("/orders?application=shop", "shop", "Filter the orders"),
        ("/reviews?workflow=A%20b", "A b", "Filter the reviews"),
    ] {
        let refused = console.get(path).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text);
        for text in [&format!("value=\"{value}\""), button, "<strong>Error: </strong>"] {
            assert!(refused.text.contains(text), "{path}: {text} is not in {}", refused.text);
        }
    }
    assert_eq!(console.get("/log/99999").await.status, 404);
}

/// Reads all pages to which links lead, and checks that foreign text is visible on each. Returns the areas that have some. It
/// opens only the log entries up to `last`, since each read adds one.
async fn visit_all_pages(console: &ConsoleProcess, last: u64) -> BTreeSet<String> {
    let (mut to_visit, mut visited) = (vec!["/".to_owned()], BTreeSet::new());
    let mut escaped = BTreeSet::new();
    while let Some(path) = to_visit.pop() {
        if visited.len() >= 300 || !visited.insert(path.clone()) {
            continue;
        }
        let page = console.get(&path).await;
        // an item can be decided meanwhile
        let is_known = page.status.is_success() || page.status.is_redirection() || page.status == 404;
        assert!(is_known, "{path}: {}", page.text);
        // a download for a program keeps the text as it is
        if path.ends_with(".json") || path.ends_with("/card.html") || path.contains(".csv") {
            continue;
        }
        assert_eq!(page.text.find(is_hiding), None, "{path}: {}", page.text);
        assert!(!page.text.contains(HOSTILE), "{path}: {}", page.text);
        let area = path.split(['/', '?']).nth(1).unwrap_or_default();
        escaped.extend(page.text.contains(r"\u{202e}").then(|| area.to_owned()));
        let links = page.text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let links =
            links.map(|link| link.replace("&amp;", "&").split('#').next().unwrap_or_default().to_owned());
        let entry = |link: &str| link.strip_prefix("/log/")?.parse::<u64>().ok();
        // each filter leads to further ones
        let is_endless = |link: &str| {
            ["filters=", "sort=", "source=", "older=", "routine=", "/history?"]
                .iter()
                .any(|part| link.contains(part))
                || entry(link).is_some_and(|seq| seq > last)
        };
        to_visit.extend(links.filter(|link| link.starts_with('/') && !is_endless(link)));
    }
    assert!(visited.len() >= 20, "{visited:?}");
    escaped
}

#[tokio::test]
async fn foreign_text_is_visible_on_every_page_in_every_command_and_in_the_log() {
    let (_model, world) = prepare().await;
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1", "cs_2"]).await;
    let query = json!({"tier": "quick", "query": format!("Sell honey?{HIDDEN}"), "raw": GOOD});
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_3", &query).await.status, 201);
    let [completed, held, _] = hold_runs(&daemon).await;
    let [review] = open_reviews(&daemon, [1961]).await;
    let reason = format!("seen{HIDDEN}");
    assert!(world.ctl(&["ingest", "discard", &held, "--reason", &reason]).status.success());
    assert!(world.ctl(&["order", "fail", "cs_2", "--reason", &reason]).status.success());
    assert!(world.ctl(&["review", "comment", &review, &reason]).status.success());

    let console = start(&world).await;
    let last = log(&mut daemon.control().await, "limit=1").await[0]["seq"].as_u64().expect("a number");
    let escaped = visit_all_pages(&console, last).await;
    for area in ["log", "orders", "runs", "reviews"] {
        assert!(escaped.contains(area), "no page of {area} has foreign text: {escaped:?}");
    }

    let with_escapes = [
        vec!["log", "--after", "0", "-n", "1000"],
        vec!["order", "show", "cs_1", "--text"],
        vec!["order", "show", "cs_2"],
        vec!["session", "cs_3"],
        vec!["rejects", &held],
        vec!["ingest", "show", &held],
        vec!["review", "show", &review],
    ];
    let others = [
        vec!["status"],
        vec!["doctor"],
        vec!["orders"],
        vec!["verdict", "cs_3"],
        vec!["session", "cs_1"],
        vec!["ingest", "list"],
        vec!["ingest", "changes", &completed],
        vec!["review", "list"],
        vec!["get", "source"],
        vec!["describe", "source", GATED],
        vec!["outbox"],
        vec!["webhook", "list"],
        vec!["divergence"],
        vec!["costs"],
        vec!["rules", "list"],
        vec!["prompt", "list"],
        vec!["health"],
        vec!["verdict", HIDDEN],
        vec!["order", "show", HIDDEN],
        vec!["crosscheck", HIDDEN, "--tier", "quick"],
    ];
    let commands = with_escapes.iter().map(|command| (command, true));
    for (command, has_foreign) in commands.chain(others.iter().map(|command| (command, false))) {
        let output = world.ctl_in_thread(command).await;
        let (shown, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_valid = !command.contains(&HIDDEN);
        assert!(!is_valid || output.status.code() != Some(2), "{command:?}: {errors}");
        assert_eq!(
            shown.find(is_hiding).or(errors.find(is_hiding)),
            None,
            "{command:?}: {shown:?} {errors:?}"
        );
        assert!(
            !has_foreign || shown.contains("202e"),
            "{command:?} shows no foreign text: {shown} {errors}"
        );
    }
    assert!(daemon.stop().success());
    assert_eq!(world.service_log().find(is_hiding), None);
}

#[tokio::test]
async fn console_shows_an_error_while_the_daemon_is_down() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let console = start(&world).await;
    assert_shows(&console.get("/").await, &["What needs you"]);
    let mut events = console.events("/events/overview").await;
    assert!(events.next().await.starts_with("event: message"));
    assert!(daemon.stop().success());
    let mut event = events.next().await;
    while !event.starts_with("event: fault") {
        event = events.next().await;
    }
    for path in ["/", "/inbox", "/orders", "/reviews", "/sources", "/log", "/rules"] {
        let answer = console.get(path).await;
        assert_eq!(answer.status, 502, "{path}: {}", answer.text);
    }
    // a reason is not lost
    let mut labels = Vec::new();
    for path in ["/sessions/cs_1/order", "/reviews/a/dismiss"] {
        let fields = [("action", "fail"), ("reason", "read twice"), ("changed_at", "2026-01-01T00:00:00Z")];
        let answer = console.post(path, &fields).await;
        assert_eq!(answer.status, 502, "{path}: {}", answer.text);
        let (label, _) = answer.text.split_once(">read twice</textarea>").expect("the reason");
        let (_, label) = label.rsplit_once("<label class=\"f\">").expect("its label");
        labels.push(label.split_once('<').expect("its text").0.to_owned());
        assert!(!answer.text.contains("?."), "{path}: {}", answer.text);
    }
    // the daemon may have stored it
    insta::assert_snapshot!("labels_of_reasons_without_an_answer", labels.join("\n"));
    let _daemon = world.serve().await;
    assert_shows(&console.get("/").await, &["What needs you"]);
    assert_eq!(console.get("/nothing").await.status, 404);
}

#[tokio::test]
async fn live_parts_follow_the_daemon_and_are_limited() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let [review] = open_reviews(&daemon, [1961]).await;
    let console = start(&world).await;
    let mut events = console.events("/events/reviews?open=true").await;
    assert!(events.next().await.contains(&review));
    let mut decision = console.events(&format!("/events/reviews/{review}?seen=0")).await;
    assert!(decision.next().await.starts_with("event: counts"), "nothing is decided yet");
    let answer = console.post(&format!("/reviews/{review}/dismiss"), &[("reason", "late")]).await;
    assert_eq!(answer.status, 303);
    while events.next().await.contains(&review) {}
    let mut note = decision.next().await;
    while !note.contains("data-decided") {
        note = decision.next().await;
    }
    assert!(note.contains("late"), "{note}");
    let state = document(&get(&mut daemon.control().await, &format!("/v1/reviews/{review}")).await);
    assert_eq!(state["dismissed"]["reason"], "late", "{state}");
    drop(decision);
    let mut open = Vec::new();
    for _ in 1..16 {
        let mut events = console.events("/events/log").await;
        assert!(events.next().await.contains("review_dismissed"));
        open.push(events);
    }
    assert_eq!(console.get("/events/overview").await.status, 503);
    drop(open);
    eventually("a closed page frees its place", async || {
        console.events("/events/overview").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn live_part_of_a_daemon_that_hangs_says_so() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let console = start(&world).await;
    let mut streams = Vec::new();
    // the log needs no answer of the daemon to show the entries that it has
    for path in ["/events/inbox", "/events/log"] {
        let mut events = console.events(path).await;
        assert!(events.next().await.starts_with("event: message"), "{path}");
        streams.push(events);
    }
    daemon.signal("STOP");
    for events in &mut streams {
        while !events.next().await.starts_with("event: fault") {}
    }
    daemon.signal("CONT");
    for events in &mut streams {
        while !events.next().await.starts_with("event: message") {}
    }
}

#[tokio::test]
async fn live_parts_read_the_log_and_a_query_once() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    hold(&daemon, &["cs_1"]).await;
    let console = start(&world).await;
    let mut others = Vec::new();
    for path in ["/events/overview", "/events/inbox"] {
        let mut events = console.events(path).await;
        assert!(events.next().await.starts_with("event: message"), "{path}");
        others.push(events);
    }
    let mut events = console.events("/events/log").await;
    assert!(events.next().await.contains("policy_applied"));
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_9", &submission(GOOD)).await.status, 201);
    while !events.next().await.contains("cs_9") {}
    // two further updates
    tokio::time::sleep(Duration::from_secs(5)).await;
    let reads = log(&mut daemon.control().await, "event=operator_read&after=0").await;
    let mut subjects: Vec<_> = reads.iter().filter_map(|entry| entry["subject"].as_str()).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["log", "session"], "{reads:?}");
}

#[tokio::test]
async fn live_parts_end_with_the_login() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let mut console = start(&world).await;
    let paths = ["/events/overview", "/events/reviews", "/events/log"];
    let open = async |console: &ConsoleProcess| {
        let mut streams = Vec::new();
        for path in paths {
            let mut events = console.events(path).await;
            events.next().await;
            streams.push(events);
        }
        streams
    };
    let streams = open(&console).await;
    assert_eq!(console.post("/logout", &[]).await.status, 200);
    for mut events in streams {
        events.wait_for_end().await;
    }
    console.renew_link();
    console.log_in().await;
    let streams = open(&console).await;
    console.renew_link();
    for mut events in streams {
        events.wait_for_end().await;
    }
    assert_eq!(console.events("/events/log").await.status, 401);
}

/// Delivers a verdict to a customer whose mails are not accepted, and corrects the statement on which it relied. Returns the run of
/// the correction, for which a notice is drafted.
async fn recall_verdict(daemon: &DaemonProcess<'_>, session: &str) -> String {
    const SOURCE: &str = "statistics-office";
    let control = &mut daemon.control().await;
    let parts = json!({"subject": "A correction to your verdict",
        "text": "{% for s in statements %}{{ s.then }} is now: {{ s.now }}{% endfor %}"});
    let template =
        json!({"template_id": "shop-en", "version": 1, "language": "en", "mails": {"recall_notice": parts}});
    let registered = put_document(control, "/v1/documents/mail_template/shop-en@1", &template).await;
    assert_eq!(registered.status, 200, "{}", document(&registered));
    let (ontology, source, pipeline) = office_documents(SOURCE);
    register_all(control, &ontology, &source, &pipeline).await;
    approve(control, SOURCE).await;
    let mut release = async |version: &str, people: u64| {
        let csv = format!("Country Name,Country Code,Year,Value\nAruba,ABW,2015,{people}\n");
        let run = started_run(&ingest(control, SOURCE, version, version, csv).await);
        assert_eq!(wait_for_run(control, &run).await["state"], "completed");
        run
    };
    release("2026-03-06", 101_001).await;
    let verdict = json!({"verdict": "GREEN", "summary": "The population of Aruba in 2015 was 101001."});
    let mut body = submission(&verdict.to_string());
    body["customer_email"] = json!("ada@example.org");
    body["rules"] = json!(["RULE-PREC-013"]);
    body["facts_from"] = json!([{"query": {"oracle_id": SOURCE, "request": {
        "axes_requested": ["area_name", "population"],
        "filters": [{"axis": "year", "operator": "eq", "value": 2015}]}}}]);
    let delivered = post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &body).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    let run = release("2026-04-01", 109_009).await;
    for path in ["/v1/recall-notices", "/v1/outbox?dead=true"] {
        eventually(path, async || {
            let listed = get(&mut daemon.control().await, path).await;
            at(&listed, "/items").as_array().is_some_and(|items| items.len() == 1)
        })
        .await;
    }
    run
}

/// Shows in real browsers that no script of an earlier server of the port runs in the console; `tests/console.sh` calls it.
#[tokio::test]
#[ignore = "needs chromium or firefox, and npm: `just console`"]
async fn browser_runs_nothing_of_an_earlier_server_of_the_port() {
    let folder = std::env::var("ORACLED_CONSOLE_WALK").expect("`tests/console.sh` sets ORACLED_CONSOLE_WALK");
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    let is_given = |name: &&str| std::env::var(name.to_uppercase()).is_ok_and(|path| !path.is_empty());
    let browsers = ["chromium", "firefox"].into_iter().filter(is_given);
    let cases = browsers.flat_map(|browser| ["script", "worker"].map(|kind| format!("{browser}-{kind}")));
    let [with_ip, with_name]: [Vec<_>; 2] = cases
        .map(|case| (format!("{case}-ip"), format!("{case}-name")))
        .unzip::<_, _, Vec<_>, Vec<_>>()
        .into();
    assert!(!with_ip.is_empty(), "no browser is given");
    let sessions: Vec<_> = with_ip.iter().chain(&with_name).map(String::as_str).collect();
    hold(&daemon, &sessions).await;
    let own = world.ctl_command(&[]);
    let own: Vec<_> =
        [own.get_program()].into_iter().chain(own.get_args()).map(OsStr::to_string_lossy).collect();
    let mut walk = Command::new("node");
    walk.arg("earlier.mjs").current_dir(&folder).env("ORACLECTL", json!(own).to_string());
    let status = tokio::task::spawn_blocking(move || walk.status()).await.expect("it does not panic");
    assert!(status.expect("node starts").success());
    // the attack succeeds with `--ip`, and fails if the console has a name of its own
    let released = log(&mut daemon.control().await, "event=order_released").await;
    let released: BTreeSet<_> = released.iter().filter_map(|entry| entry["session_id"].as_str()).collect();
    assert_eq!(released, with_ip.iter().map(String::as_str).collect());
}

/// Drives the console through every action in a real browser while the daemon judges verdicts; `tests/console.sh` calls it.
#[tokio::test]
#[ignore = "needs chromium and npm: `just console`"]
async fn browser_walks_through_every_action() {
    let folder = std::env::var("ORACLED_CONSOLE_WALK").expect("`tests/console.sh` sets ORACLED_CONSOLE_WALK");
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let mails = ModelServer::start().await;
    mails.set_default(ScriptedReply::bytes(422, "no such user"));
    let mut world = model.create_world("[gate]\nhold = [\"short_summary\", \"empty_analysis\"]\n");
    world.config.insert_str(0, "recall = \"notify\"\n");
    let mail =
        format!("[mail]\ntransport = \"http\"\nbase_url = \"{}\"\ntemplates = [\"shop-en\"]\n", mails.url());
    world.config.push_str(&mail);
    let daemon = world.serve().await;
    hold(&daemon, &["bakery-1041", "bakery-1042", "florist-2007", "garage-3310"]).await;
    let of_strategy = json!({"tier": "strategy", "query": "Should I open a second bakery before the spring?", "raw": STRATEGY});
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/bakery-1043", &of_strategy).await.status, 202);
    // ten are decided by the keyboard, the oldest first, and the last three by the mouse
    let reviews: [String; 13] =
        open_reviews(&daemon, std::array::from_fn(|number| 1961 + number as u16)).await;
    let later = "Country Name,Country Code,Year,Value\nAruba,ABW,1961,54999\n";
    let control = &mut daemon.control().await;
    let run = ingest(control, "national-statistics", "2026-04-01", "2026-04-01", later).await;
    assert_eq!(wait_for_run(control, &started_run(&run)).await["state"], "completed");
    let [_, held @ ..] = hold_runs(&daemon).await;
    let recall = json!({"session": "atlas-5120", "run": recall_verdict(&daemon, "atlas-5120").await});
    let mut routes = daemon.routes().await;
    let load = tokio::spawn(async move {
        // bounded: the walk takes a minute
        for number in 0..20_000 {
            let path = format!("/v1/verdicts/load-{number}");
            assert_eq!(post(&mut routes, &path, &submission(GOOD)).await.status, 201);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let console = ConsoleProcess::start(&world);
    let mut walk = Command::new("node");
    walk.arg("walk.mjs").current_dir(&folder).env("CONSOLE_LINK", &console.link);
    walk.env(
        "CONSOLE_STATE",
        json!({"reviews": reviews[10..], "heldRuns": held, "recall": recall}).to_string(),
    );
    let status = tokio::task::spawn_blocking(move || walk.status()).await.expect("it does not panic");
    load.abort();
    assert!(status.expect("node starts").success());
}
