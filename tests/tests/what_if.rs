//! Backtest: the decisions of the log under another policy, other rules or another day's facts. The results are compared with those of
//! a daemon that has the other policy from the start, and gets the same requests.

use oracled_api::client::DaemonClient;
use oracled_tests::console::ConsoleProcess;
use oracled_tests::generation::purge_verdict;
use oracled_tests::ground::{
    approve, ingest, office_documents, put_document, register_all, started_run, wait_for_run,
};
use oracled_tests::{
    DaemonProcess, DaemonWorld, document, get, is_no_read, log, log_with_reads, post, problem, submission,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

/// The policy under which the decisions are made.
const THEN: &str = "[gate]\nhold = [\"few_tests\"]\nrefuse = [\"empty_analysis:Stability\", \"empty_analysis:Turbulence\"]\n";
const DIMENSIONS: [&str; 5] = ["Stability", "Turbulence", "Change Rate", "Completion", "Curvature"];

/// The number of decisions by result then and now.
type Counts = BTreeMap<(String, String), u64>;

/// The body of a verdict that passes for every tier.
fn sound() -> Value {
    let text = "The plan is sound, and its costs are known.";
    let dimension = json!({"verdict": "GREEN", "analysis": text});
    let breakdown: serde_json::Map<_, _> =
        DIMENSIONS.iter().map(|name| ((*name).to_owned(), dimension.clone())).collect();
    json!({
        "verdict": "GREEN", "summary": text, "breakdown": breakdown,
        "strategy": {"next_step": text, "alternative": text, "tests": [text, text, text]},
    })
}

/// Verdicts with every flag, and others that no tier accepts.
fn verdicts() -> Vec<String> {
    let mut all = vec![sound()];
    let mut with = |change: &dyn Fn(&mut Value)| {
        let mut verdict = sound();
        change(&mut verdict);
        all.push(verdict);
    };
    with(&|verdict| verdict["summary"] = json!("Short"));
    with(&|verdict| verdict["verdict"] = json!("RED"));
    with(&|verdict| verdict["verdict"] = json!("NULL"));
    with(&|verdict| verdict["verdict"] = json!("PURPLE"));
    for dimension in DIMENSIONS {
        with(&|verdict| verdict["breakdown"][dimension]["analysis"] = json!(""));
    }
    with(&|verdict| verdict["breakdown"]["Stability"]["verdict"] = json!("PURPLE"));
    with(&|verdict| verdict["strategy"]["tests"] = json!(["Ask ten people."]));
    with(&|verdict| verdict["strategy"]["tests"] = json!([]));
    with(&|verdict| verdict["strategy"] = json!(null));
    with(&|verdict| verdict["mood"] = json!("Always certain."));
    with(&|verdict| verdict["breakdown"]["Curvature"]["why"] = json!("Never asked."));
    with(&|verdict| {
        verdict["mood"] = json!("x");
        verdict["summary"] = json!("Short");
    });
    with(&|verdict| {
        verdict["summary"] = json!("");
        verdict["verdict"] = json!("AMBER");
    });
    let mut texts: Vec<_> = all.iter().map(Value::to_string).collect();
    texts.push("GREEN, I should think!".to_owned());
    texts
}

/// Requests of all tiers: without facts, and some with facts and rules.
fn requests() -> Vec<Value> {
    let mut requests = Vec::new();
    for tier in ["quick", "full", "strategy"] {
        for (number, raw) in verdicts().iter().enumerate() {
            let mut request = submission(raw);
            request["tier"] = json!(tier);
            if number % 3 == 0 {
                let facts = ["Ask ten people", "The plan is sound, and its costs are known"];
                request["facts"] = json!(&facts[..1 + usize::from(number % 2 == 0 || number > 9)]);
                let rules = ["RULE-PREC-001", "RULE-PREC-004"];
                request["rules"] = json!(&rules[..1 + number % 2]);
            }
            requests.push(request);
        }
    }
    requests
}

/// The result of a submission.
async fn submit(daemon: &DaemonProcess<'_>, session: usize, request: &Value) -> String {
    let answer = post(&mut daemon.routes().await, &format!("/v1/verdicts/s{session}"), request).await;
    let document = document(&answer);
    let outcome = match (answer.status.as_u16(), document["code"].as_str()) {
        (201, _) => "approved",
        (202, _) => "held",
        (422, Some("policy_rejected")) => "refused",
        (422, Some("rules_rejected")) => "failed",
        (422, Some("crosscheck_rejected")) => "rejected",
        // no outcome: the comparison fails and shows it
        _ => return document.to_string(),
    };
    outcome.to_owned()
}

/// The report of a request.
async fn what_if(control: &mut DaemonClient, request: &Value) -> Value {
    let answer = post(control, "/v1/what-if", request).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    let text = String::from_utf8(answer.body.to_vec()).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (report, progress) = lines.split_last().expect("a report");
    assert!(progress.iter().all(|line| line["progress"]["entry"].is_u64()) && !progress.is_empty(), "{text}");
    report["report"].clone()
}

fn counts(report: &Value) -> Counts {
    let text = |value: &Value| value.as_str().expect("a result").to_owned();
    let transitions = report["transitions"].as_array().expect("a list");
    let count =
        |one: &Value| ((text(&one["then"]), text(&one["now"])), one["decisions"].as_u64().expect("a number"));
    transitions.iter().map(count).collect()
}

/// The causes for which decisions cannot be calculated.
fn causes(report: &Value) -> BTreeMap<String, u64> {
    let causes = report["not_calculated"].as_array().expect("a list").iter();
    let cause = |one: &Value| {
        (one["cause"].as_str().expect("a cause").to_owned(), one["decisions"].as_u64().expect("a number"))
    };
    causes.map(cause).collect()
}

/// The results of all requests, each in a session of its own.
async fn submit_all(daemon: &DaemonProcess<'_>, requests: &[Value]) -> Vec<String> {
    let mut results = Vec::new();
    for (session, request) in requests.iter().enumerate() {
        results.push(submit(daemon, session, request).await);
    }
    results
}

/// The results of all requests in a daemon with this configuration.
async fn results(config: &str, requests: &[Value]) -> Vec<String> {
    let world = DaemonWorld::with_config(config);
    let daemon = world.serve().await;
    let results = submit_all(&daemon, requests).await;
    assert!(daemon.stop().success());
    results
}

/// Compares the changes that a report names with the results then and now of each session. A report can lack the session if
/// `may_lack` is true. Returns the number of changes.
fn compare_sessions(
    report: &Value,
    then: &[String],
    now: &[String],
    may_lack: impl Fn(usize) -> bool,
) -> usize {
    let mut found = BTreeMap::new();
    for one in report["transitions"].as_array().expect("a list") {
        for example in one["examples"].as_array().expect("a list") {
            let session = example["session_id"].as_str().expect("an id");
            found.insert(session.to_owned(), (&one["then"], &one["now"]));
        }
    }
    assert_eq!(report["changed"], found.len(), "each change is an example: {report}");
    let changes = found.len();
    for (number, (then, now)) in then.iter().zip(now).enumerate() {
        let change = found.remove(&format!("s{number}"));
        let is_equal = change.map_or(then == now, |(before, after)| before == then && after == now);
        assert!(
            is_equal || change.is_none() && may_lack(number),
            "session {number}, {then} to {now}: {change:?} in {report}"
        );
    }
    assert!(found.is_empty(), "{found:?}");
    changes
}

#[tokio::test]
async fn calculated_decisions_equal_those_of_a_daemon_with_the_other_policy() {
    let requests = requests();
    let world = DaemonWorld::with_config(THEN);
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let then = submit_all(&daemon, &requests).await;
    let with_facts = |number: usize| requests[number].get("facts").is_some();
    for (gate, has_rules) in [
        (THEN, false),
        ("", false),
        ("[gate]\nunexpected_fields = \"refuse\"\n", false),
        (
            "[gate]\nunexpected_fields = \"deliver\"\nhold = [\"unexpected_field\", \"short_summary\"]\n",
            false,
        ),
        ("[gate]\ncoherence_min = 0.99\n[gate.strategy]\nhold = [\"empty_analysis\"]\n", false),
        ("[gate]\nrules = [\"RULE-PREC-013\"]\nhold = [\"verdict_conflict\"]\n", true),
    ] {
        let now = results(gate, &requests).await;
        let report = what_if(control, &json!({"gate": gate})).await;
        assert_eq!(report["decisions"], requests.len(), "{report}");
        let is_cut = gate.contains("deliver");
        // held and refused verdicts have no stored text for the other rules
        let is_without_text =
            |number: usize| has_rules && then[number] != "approved" && now[number] != "rejected";
        // the rules of their facts would check members that were cut
        let may_lack = |number: usize| is_without_text(number) || is_cut && with_facts(number);
        compare_sessions(&report, &then, &now, may_lack);
        let delivered = then.iter().filter(|then| *then == "approved").count();
        assert!(is_cut || report["from_text"] == delivered, "{gate}: {report}");
        let mut expected = Counts::new();
        for (then, now) in then.iter().zip(&now) {
            *expected.entry((then.clone(), now.clone())).or_default() += 1;
        }
        let (found, not) = (counts(&report), causes(&report));
        if has_rules || is_cut {
            let cause = if is_cut { "cut_members" } else { "text_not_stored" };
            let missing = expected.values().sum::<u64>() - found.values().sum::<u64>();
            assert_eq!(not, [(cause.to_owned(), missing)].into(), "{gate}: {report}");
            assert!(found.iter().all(|(key, count)| expected.get(key) >= Some(count)), "{gate}: {report}");
            let is_complete = |(key, count): (&(String, String), &u64)| {
                (key.0 != "approved" && key.1 != "rejected") || found.get(key) == Some(count)
            };
            assert!(is_cut || expected.iter().all(is_complete), "{gate}: {report}");
        } else {
            assert_eq!((found, not), (expected, BTreeMap::new()), "{gate}: {report}");
        }
    }
    let report = what_if(control, &json!({"tier": "full"})).await;
    assert_eq!(report["decisions"], requests.len() / 3);
    assert_eq!((&report["changed"], &report["now"]["is_requested_gate"]), (&json!(0), &json!(false)));
    // the calculations have written no entry but those of the reads
    let entries = log_with_reads(control, "limit=1000").await;
    assert_eq!(report["up_to_entry"], entries.len());
    let mut of_reads = entries.iter().filter(|entry| !is_no_read(entry)).peekable();
    assert!(of_reads.peek().is_some() && of_reads.all(|entry| entry["subject"] == "what_if"), "{entries:?}");
    assert!(daemon.stop().success());
}

/// Registers two word lists with different synonyms.
async fn register_wordlists(daemon: &DaemonProcess<'_>) {
    for (name, synonyms) in [("clinic", ["physician", "doctor"]), ("ward", ["coronary", "infarct"])] {
        let list = json!({"wordlist_id": name, "version": 1, "language": "en", "synonyms": [synonyms]});
        let path = format!("/v1/documents/wordlist/{name}@1");
        let registered = put_document(&mut daemon.control().await, &path, &list).await;
        assert_eq!(registered.status, 200, "{}", document(&registered));
    }
}

/// Verdicts with claims that some rules and word lists accept, each without facts, and with facts and each of these rules.
fn requests_with_rules() -> Vec<Value> {
    let mut requests = Vec::new();
    for (summary, fact) in [
        ("Honey sells for 9 EUR a jar.", "Honey sells for 9 EUR a jar"),
        ("Honey sells for 9 EUR a jar. The tower is green.", "Honey sells for 9 EUR a jar"),
        ("Honey sells for 9.00 EUR a jar.", "Honey sells for 9 EUR a jar"),
        ("The physician is here today.", "The doctor is here today"),
        ("The coronary is here today.", "The infarct is here today"),
    ] {
        let plain = submission(&json!({"verdict": "GREEN", "summary": summary}).to_string());
        let with = |rule: &str, member: &str, value: Value| {
            let mut request = plain.clone();
            request["facts"] = json!([fact]);
            request["rules"] = json!([rule]);
            request[member] = value;
            request
        };
        let rules = ["RULE-PREC-001", "RULE-PREC-004", "RULE-PREC-013"];
        requests.extend(rules.map(|rule| with(rule, "rules", json!([rule]))));
        requests.push(with("RULE-PREC-003", "expected", json!({"must_not_find": ["cheese"]})));
        requests.extend(["clinic", "ward"].map(|list| with("RULE-PREC-013", "wordlist", json!(list))));
        requests.push(plain);
    }
    requests
}

#[tokio::test]
async fn calculated_decisions_equal_those_with_other_rules_or_word_lists() {
    let requests = requests_with_rules();
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_wordlists(&daemon).await;
    let then = submit_all(&daemon, &requests).await;
    for terms in [
        json!({"rules": ["RULE-PREC-001"]}),
        json!({"rules": ["RULE-PREC-001", "RULE-PREC-013"]}),
        json!({"wordlist": "clinic"}),
        json!({"wordlist": "ward"}),
        json!({"rules": ["RULE-PREC-013"], "wordlist": "clinic"}),
    ] {
        let mut others = requests.clone();
        for request in others.iter_mut().filter(|request| request.get("facts").is_some()) {
            for (name, value) in terms.as_object().expect("an object") {
                request[name] = value.clone();
            }
        }
        let scratch_world = DaemonWorld::default();
        let scratch = scratch_world.serve().await;
        register_wordlists(&scratch).await;
        let now = submit_all(&scratch, &others).await;
        assert!(scratch.stop().success());
        let report = what_if(&mut daemon.control().await, &terms).await;
        assert_eq!(report["decisions"], requests.len(), "{report}");
        // the answer to a request that would be refused is a document
        let is_refused = |number: usize| now[number].starts_with('{');
        let refused = (0..now.len()).filter(|number| is_refused(*number)).count();
        let of_report = causes(&report).remove("check_refused").unwrap_or_default();
        assert_eq!(json!(of_report), refused, "{report}");
        let may_lack = |number: usize| then[number] != "approved" || is_refused(number);
        assert!(compare_sessions(&report, &then, &now, may_lack) > 0, "{terms}: {report}");
    }
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn other_rules_apply_to_requests_with_facts_only() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let mut request = submission(r#"{"verdict":"GREEN","summary":"Honey sells for 9 EUR a jar. Moo."}"#);
    assert_eq!(post(routes, "/v1/verdicts/without", &request).await.status, 201);
    request["facts"] = json!(["Honey sells for 9 EUR a jar"]);
    request["expected"] = json!({"must_not_find": ["cheese"]});
    request["rules"] = json!(["RULE-PREC-003"]);
    assert_eq!(post(routes, "/v1/verdicts/with", &request).await.status, 201);

    let report = what_if(control, &json!({"rules": ["RULE-PREC-003", "RULE-PREC-001"]})).await;
    let changed = &report["transitions"][1];
    assert_eq!((&changed["then"], &changed["now"]), (&json!("approved"), &json!("failed")), "{report}");
    assert_eq!(changed["percent"], 50.0);
    assert_eq!(changed["causes"], json!([{"cause": "RULE-PREC-001", "decisions": 1, "claims": 1}]));
    let example = &changed["examples"][0];
    assert_eq!((&example["session_id"], &example["claims"]), (&json!("with"), &json!(["Moo"])));
    let entry = log(control, "session=with&event=tmm_crosscheck").await[0]["seq"].clone();
    assert_eq!(example["entry"], entry);
    // a request with these rules would be refused, because none of them uses `must_not_find`
    let report = what_if(control, &json!({"rules": ["RULE-PREC-001"]})).await;
    assert_eq!(causes(&report), [("check_refused".to_owned(), 1)].into());

    // without the text, the logged results of rules determine the result only for the same rules
    purge_verdict(control, "with").await;
    let report = what_if(control, &json!({"rules": ["RULE-PREC-003"]})).await;
    assert_eq!(
        (&report["from_text"], &report["from_flags"], &report["changed"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let report = what_if(control, &json!({"rules": ["RULE-PREC-003", "RULE-PREC-001"]})).await;
    assert_eq!(causes(&report), [("text_not_stored".to_owned(), 1)].into());
    let erased = post(control, "/v1/erasures", &json!({"session_id": "with", "reason": "a request"})).await;
    assert_eq!(erased.status, 200, "{}", document(&erased));
    let report = what_if(control, &json!({})).await;
    assert_eq!((causes(&report), &report["decisions"]), ([("erased".to_owned(), 1)].into(), &json!(2)));
    assert!(daemon.stop().success());
}

/// A verdict with these numbers of people, which is checked against all areas of the source `office`.
fn population_request(claims: &[(&str, u64)]) -> Value {
    let claim = |(area, people): &(&str, u64)| format!("The population of {area} in 2015 was {people}.");
    let summary = claims.iter().map(claim).collect::<Vec<_>>().join(" ");
    let mut request = submission(&json!({"verdict": "GREEN", "summary": summary}).to_string());
    request["rules"] = json!(["RULE-PREC-013"]);
    request["facts_from"] = json!([{"query": {"oracle_id": "office", "request": {
        "axes_requested": ["area_name", "population"],
        "filters": [{"axis": "year", "operator": "eq", "value": 2015}]}}}]);
    request
}

/// Ingests a release of the source `office` with the numbers of people in Aruba and Austria.
async fn ingest_people(control: &mut DaemonClient, day: usize, [aruba, austria]: [u64; 2]) {
    let csv =
        format!("Country Name,Country Code,Year,Value\nAruba,ABW,2015,{aruba}\nAustria,AUT,2015,{austria}\n");
    let version = format!("2020-01-0{}", day + 1);
    let run = started_run(&ingest(control, "office", &version, &version, csv.into_bytes()).await);
    assert_eq!(wait_for_run(control, &run).await["state"], "completed");
}

#[tokio::test]
async fn facts_of_another_day_change_the_verdicts_that_relied_on_them() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let (ontology, source, pipeline) = office_documents("office");
    let before_source = jiff::Timestamp::now().to_string();
    register_all(control, &ontology, &source, &pipeline).await;
    ingest_people(control, 0, [101_001, 102_001]).await;
    approve(control, "office").await;
    for (session, area, people) in [("aruba", "Aruba", 101_001), ("austria", "Austria", 102_001)] {
        let request = population_request(&[(area, people)]);
        let delivered = post(routes, &format!("/v1/verdicts/{session}"), &request).await;
        assert_eq!(delivered.status, 201, "{}", document(&delivered));
    }
    let before_correction = jiff::Timestamp::now().to_string();
    ingest_people(control, 1, [109_009, 102_001]).await;
    let after_correction = jiff::Timestamp::now().to_string();

    let pair = |now: &str| ("approved".to_owned(), now.to_owned());
    let unknown = what_if(control, &json!({"facts_as_of": before_source})).await;
    assert_eq!(causes(&unknown), [("no_release".to_owned(), 2)].into());
    for (as_of, expected) in [
        (&before_correction, [(pair("approved"), 2)].to_vec()),
        (&after_correction, [(pair("approved"), 1), (pair("failed"), 1)].to_vec()),
    ] {
        let report = what_if(control, &json!({"facts_as_of": as_of})).await;
        assert_eq!(counts(&report), expected.into_iter().collect(), "{as_of}: {report}");
        assert_eq!(report["from_text"], 2);
    }
    let report = what_if(control, &json!({"facts_as_of": after_correction})).await;
    let example = &report["transitions"][1]["examples"][0];
    assert_eq!((&example["session_id"], &example["causes"]), (&json!("aruba"), &json!(["RULE-PREC-013"])));
    assert_eq!(what_if(control, &json!({})).await["changed"], 0, "the stored facts count");
    let future = json!({"facts_as_of": "2999-01-01T00:00:00Z"});
    problem(&post(control, "/v1/what-if", &future).await, 400, "invalid_request");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn decisions_as_of_a_day_equal_those_of_a_daemon_with_only_its_facts() {
    let releases = [[101_001, 102_001], [109_009, 102_001], [101_001, 103_003]];
    let (ontology, source, pipeline) = office_documents("office");
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register_all(control, &ontology, &source, &pipeline).await;
    approve(control, "office").await;
    let (mut requests, mut then, mut days) = (Vec::new(), Vec::new(), Vec::new());
    for (day, release) in releases.into_iter().enumerate() {
        ingest_people(control, day, release).await;
        days.push(jiff::Timestamp::now().to_string());
        let both = [("Aruba", release[0]), ("Austria", release[1])];
        for claims in [&both[..1], &both[1..], &both[..], &[("Aruba", 7)]] {
            requests.push(population_request(claims));
            let result = submit(&daemon, then.len(), &requests[then.len()]).await;
            then.push(result);
        }
    }
    for (day, as_of) in days.iter().enumerate() {
        let scratch_world = DaemonWorld::default();
        let scratch = scratch_world.serve().await;
        let scratch_control = &mut scratch.control().await;
        register_all(scratch_control, &ontology, &source, &pipeline).await;
        approve(scratch_control, "office").await;
        for (number, release) in releases.into_iter().enumerate().take(day + 1) {
            ingest_people(scratch_control, number, release).await;
        }
        let now = submit_all(&scratch, &requests).await;
        assert!(scratch.stop().success());
        let report = what_if(control, &json!({"facts_as_of": as_of})).await;
        let changes = compare_sessions(&report, &then, &now, |number| then[number] != "approved");
        assert!(changes > 0, "{report}");
    }
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn faulty_terms_are_refused_as_at_the_start_of_the_daemon() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for (request, named) in [
        (json!({"gate": "[gate]\nhold = [\"short\"]\n"}), "`gate.hold`"),
        (json!({"gate": "[gate]\nholds = []\n"}), "`gate.holds`"),
        (json!({"gate": "[gate"}), "the gate file"),
        (json!({"rules": []}), "`rules`"),
        (json!({"rules": ["RULE-PREC-001", "RULE-PREC-001"]}), "RULE-PREC-001"),
        (json!({"colour": 1}), "colour"),
    ] {
        let fault = problem(&post(control, "/v1/what-if", &request).await, 400, "invalid_request");
        assert!(fault["detail"].as_str().is_some_and(|detail| detail.contains(named)), "{fault}");
    }
    problem(&post(control, "/v1/what-if", &json!({"wordlist": "none"})).await, 404, "wordlist_unknown");
    let empty = what_if(control, &json!({})).await;
    assert_eq!((&empty["decisions"], &empty["transitions"]), (&json!(0), &json!([])));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn command_and_console_show_what_would_change() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for (session, summary) in [("short", "Short"), ("long", "A sound and simple plan.")] {
        let raw = json!({"verdict": "GREEN", "summary": summary}).to_string();
        let path = format!("/v1/verdicts/{session}");
        assert_eq!(post(&mut daemon.routes().await, &path, &submission(&raw)).await.status, 201);
    }
    let gate = world.path("new.toml");
    fs::write(&gate, "[gate]\nhold = [\"short_summary\"]\n").expect("the file is written");
    let gate = gate.to_str().expect("a path");
    let shown = world.ctl_in_thread(&["what-if", "--gate", gate, "--since", "1d", "--tier", "quick"]).await;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    for part in
        ["1 of 2 calculated decisions change (50.00 %)", "approved → held: session short", "short_summary 1"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shown = world.ctl_in_thread(&["what-if", "--gate", gate, "--json"]).await;
    let report: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&report["changed"], &report["now"]["is_requested_gate"]), (&json!(1), &json!(true)));

    let mut console = ConsoleProcess::start(&world);
    console.log_in().await;
    let form = console.get("/what-if").await;
    assert!(form.text.contains("name=\"gate\"") && !form.text.contains("Examples"), "{}", form.text);
    let page =
        console.post("/what-if", &[("gate", "[gate]\nhold = [\"short_summary\"]"), ("since", "1d")]).await;
    for part in ["approved → held", "class=\"hbars\"", "href=\"/sessions/short\""] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let page = console.post("/what-if", &[("gate", "[gate]\nhold = [\"x\"]")]).await;
    assert!(page.text.contains("gate.hold"), "{}", page.text);
    drop(console);
    let answer = get(&mut daemon.control().await, "/v1/what-if").await;
    problem(&answer, 405, "method_not_allowed");
    assert!(daemon.stop().success());
}
