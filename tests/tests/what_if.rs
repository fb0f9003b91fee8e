//! Backtest: the decisions of the log under another policy, other rules or another day's facts. The results are compared with those of
//! a daemon that has the other policy from the start, and gets the same requests.

use oracled_api::client::DaemonClient;
use oracled_tests::console::ConsoleProcess;
use oracled_tests::generation::purge_verdict;
use oracled_tests::ground::{approve, ingest, office_documents, register_all, started_run, wait_for_run};
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

/// The results of all requests in a daemon with this configuration.
async fn results(config: &str, requests: &[Value]) -> Vec<String> {
    let world = DaemonWorld::with_config(config);
    let daemon = world.serve().await;
    let mut results = Vec::new();
    for (session, request) in requests.iter().enumerate() {
        results.push(submit(&daemon, session, request).await);
    }
    assert!(daemon.stop().success());
    results
}

#[tokio::test]
async fn calculated_decisions_equal_those_of_a_daemon_with_the_other_policy() {
    let requests = requests();
    let world = DaemonWorld::with_config(THEN);
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let mut then = Vec::new();
    for (session, request) in requests.iter().enumerate() {
        then.push(submit(&daemon, session, request).await);
    }
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
        let mut expected = Counts::new();
        let mut delivered = 0;
        for (then, now) in then.iter().zip(&now) {
            let is_calculated = !has_rules || then == "approved" || now == "rejected";
            delivered += u64::from(then == "approved");
            if is_calculated {
                *expected.entry((then.clone(), now.clone())).or_default() += 1;
            }
        }
        let (mut found, not) = (counts(&report), causes(&report));
        let is_cut = gate.contains("deliver");
        assert!(is_cut || report["from_text"].as_u64() == Some(delivered), "{gate}: {report}");
        if has_rules {
            // held and refused verdicts have no stored text for the other rules
            assert_eq!(not.keys().collect::<Vec<_>>(), ["text_not_stored"], "{report}");
            found.retain(|(then, now), _| then == "approved" || now == "rejected");
        } else if is_cut {
            // the rules of their facts would check members that were cut
            let cut = |number: &usize| then[*number] == "approved" && with_facts(*number);
            assert!((0..requests.len()).any(|number| cut(&number)), "some verdicts have facts");
            let cut = not.get("cut_members").copied().unwrap_or_default();
            let missing: u64 = expected.values().sum::<u64>() - found.values().sum::<u64>();
            assert_eq!(not.values().sum::<u64>(), missing, "{not:?}");
            assert_eq!(cut, missing, "{not:?}");
            for (key, count) in &found {
                assert!(expected.get(key).is_some_and(|expected| expected >= count), "{gate}: {key:?}");
            }
            continue;
        } else {
            assert_eq!(not, BTreeMap::new(), "{gate}: {report}");
        }
        assert_eq!(found, expected, "{gate}: {report}");
    }
    let report = what_if(control, &json!({"tier": "full"})).await;
    assert_eq!(report["decisions"], requests.len() / 3);
    assert_eq!((&report["changed"], &report["now"]["is_requested_gate"]), (&json!(0), &json!(false)));
    // the calculations have written no entry but those of the reads
    let entries = log_with_reads(control, "limit=1000").await;
    assert_eq!(report["up_to_entry"], entries.len());
    let of_reads = entries.iter().filter(|entry| !is_no_read(entry)).collect::<Vec<_>>();
    assert!(
        !of_reads.is_empty() && of_reads.iter().all(|entry| entry["subject"] == "what_if"),
        "{of_reads:?}"
    );
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

#[tokio::test]
async fn facts_of_another_day_change_the_verdicts_that_relied_on_them() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let (ontology, source, pipeline) = office_documents("office");
    let before_source = jiff::Timestamp::now().to_string();
    register_all(control, &ontology, &source, &pipeline).await;
    let csv = |aruba: u64| {
        format!("Country Name,Country Code,Year,Value\nAruba,ABW,2015,{aruba}\nAustria,AUT,2015,102001\n")
            .into_bytes()
    };
    let run = started_run(&ingest(control, "office", "2020-01-01", "2020-01-01", csv(101_001)).await);
    wait_for_run(control, &run).await;
    approve(control, "office").await;
    for (session, area, people) in [("aruba", "Aruba", 101_001), ("austria", "Austria", 102_001)] {
        let summary = format!("The population of {area} in 2015 was {people}.");
        let mut request = submission(&json!({"verdict": "GREEN", "summary": summary}).to_string());
        request["rules"] = json!(["RULE-PREC-013"]);
        request["facts_from"] = json!([{"query": {"oracle_id": "office", "request": {
            "axes_requested": ["area_name", "population"],
            "filters": [{"axis": "year", "operator": "eq", "value": 2015}]}}}]);
        let delivered = post(routes, &format!("/v1/verdicts/{session}"), &request).await;
        assert_eq!(delivered.status, 201, "{}", document(&delivered));
    }
    let before_correction = jiff::Timestamp::now().to_string();
    let run = started_run(&ingest(control, "office", "2020-01-02", "2020-01-02", csv(109_009)).await);
    wait_for_run(control, &run).await;
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
