//! Reviews that are resolved by a review rule: by `oraclectl`, in the console, and what the daemon refuses.

use oracled_tests::console::ConsoleProcess;
use oracled_tests::ground::{ingest, put_document, started_run, wait_for_run};
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, get, log, post, problem, read_whole_log};
use serde_json::{Value, json};

/// The value of the earlier release, and that of the later one.
const EARLIER: &str = "54208";
const LATER: &str = "54210";

fn rule(version: u32) -> Value {
    json!({
        "review_rule_id": "small-difference", "version": version, "description": "The later release",
        "workflows": ["census"], "take": "newer_release", "difference_below_percent": "0.1", "valid_for_days": 90,
    })
}

/// Registers version 1 of the rule.
async fn register_rule(daemon: &DaemonProcess<'_>) {
    let path = "/v1/documents/review_rule/small-difference@1";
    let answer = put_document(&mut daemon.control().await, path, &rule(1)).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Ingests a release of a source with the population of these years.
async fn release(daemon: &DaemonProcess<'_>, oracle_id: &str, day: &str, years: &[(u16, &str)]) {
    let control = &mut daemon.control().await;
    let rows = years.iter().map(|(year, population)| format!("Aruba,ABW,{year},{population}\n"));
    let payload = format!("Country Name,Country Code,Year,Value\n{}", rows.collect::<String>());
    let run = started_run(&ingest(control, oracle_id, day, day, payload).await);
    assert_eq!(wait_for_run(control, &run).await["state"], "completed");
}

async fn verify(daemon: &DaemonProcess<'_>, workflow: &str, year: u16) -> Value {
    let question =
        json!({"workflow": workflow, "where": {"area": "ABW", "year": year}, "axes": ["population"]});
    document(&post(&mut daemon.routes().await, "/v1/verify", &question).await)
}

/// Opens a review, and returns its id.
async fn open_review(daemon: &DaemonProcess<'_>, workflow: &str, year: u16) -> String {
    let envelope = verify(daemon, workflow, year).await;
    envelope["review_id"].as_str().expect("a review is open").to_owned()
}

/// Two sources and two workflows. The sources differ slightly on 1961 to 1963, and much on 1964.
async fn serve_offices(world: &DaemonWorld) -> DaemonProcess<'_> {
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "1"), ("office-b", "primary", "1")]).await;
    let years =
        |population, other| [(1961, population), (1962, population), (1963, population), (1964, other)];
    release(&daemon, "office-a", "2026-03-07", &years(EARLIER, "54208")).await;
    release(&daemon, "office-b", "2026-03-08", &years(LATER, "54611")).await;
    for workflow_id in ["census", "other"] {
        let workflow = workflow(workflow_id, &["office-a", "office-b"], json!({}));
        register(&mut daemon.control().await, &workflow).await;
    }
    daemon
}

/// Runs `oraclectl --json`, which must end with this status.
#[track_caller]
fn ctl_json(world: &DaemonWorld, arguments: &[&str], status: i32) -> Value {
    let output = world.ctl(&[arguments, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}{error}");
    serde_json::from_str(&text).expect("the output is JSON")
}

#[tokio::test]
async fn rule_resolves_the_small_differences_with_one_event_each() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_rule(&daemon).await;
    let mut small = Vec::new();
    for year in 1961..1964 {
        small.push(open_review(&daemon, "census", year).await);
    }
    let large = open_review(&daemon, "census", 1964).await;
    let other = open_review(&daemon, "other", 1961).await;
    let entries = read_whole_log(&mut daemon.control().await).await.len();

    let by_rule = ["review", "resolve", "--rule=small-difference"];
    let previews = ctl_json(&world, &[&by_rule[..], &["--dry-run"]].concat(), 0);
    let previews = previews.as_array().expect("a list");
    assert_eq!(previews.len(), 4, "reviews of other workflows are left out: {previews:?}");
    for preview in previews {
        let id = preview["review"]["review_id"].as_str().expect("an id");
        let value = &preview["resolution"]["values"]["population"];
        if id == large {
            assert_eq!(
                (value, &preview["differences_percent"]["population"]),
                (&json!(null), &json!("0.737946"))
            );
            let mismatch = &preview["mismatch"];
            assert_eq!(mismatch["reason"], "too_large", "{preview}");
            assert!(mismatch["detail"].as_str().is_some_and(|text| text.contains("0.737946 %")), "{preview}");
        } else {
            assert!(small.iter().any(|known| known == id), "{preview}");
            assert_eq!((value, &preview["mismatch"]), (&json!(LATER), &json!(null)), "{preview}");
        }
    }
    let text = world.ctl(&[&by_rule[..], &["--dry-run"]].concat());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["54208 (office-a), 54210 (office-b)", "0.003689 %", "take 54210", "3 of 4 reviews"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(read_whole_log(&mut daemon.control().await).await.len(), entries, "nothing was changed");

    let since = ["--since=1h", "--workflow=census", "--reason=the later release"];
    let done = ctl_json(&world, &[&by_rule[..], &since].concat(), 0);
    assert_eq!((&done["matched"], &done["not_applicable"]), (&json!(4), &json!([large])), "{done}");
    assert_eq!(done["resolved"].as_array().map(Vec::len), Some(3), "{done}");
    assert_eq!((&done["rejected"], &done["failed"]), (&json!([]), &json!([])), "{done}");
    let events = log(&mut daemon.control().await, "event=review_resolved").await;
    assert_eq!(events.len(), 3);
    for event in &events {
        let resolution = &event["resolution"];
        assert!(small.iter().any(|id| event["review_id"] == id.as_str()), "{event}");
        assert_eq!(
            (&resolution["rule"], &resolution["reason"], &resolution["values"]["population"]),
            (&json!("small-difference@1"), &json!("the later release"), &json!(LATER)),
            "{event}"
        );
    }
    for year in 1961..1964 {
        let axis = &verify(&daemon, "census", year).await["axes"]["population"];
        assert_eq!((&axis["value"], &axis["basis"]), (&json!(LATER), &json!("human_lock")), "{axis}");
    }
    assert_eq!(verify(&daemon, "census", 1964).await["kind"], "human_review");
    let open = document(&get(&mut daemon.control().await, "/v1/reviews").await);
    let open: Vec<_> =
        open["items"].as_array().expect("a list").iter().map(|item| &item["review_id"]).collect();
    assert_eq!(open, [&json!(other), &json!(large)]);

    let entries = read_whole_log(&mut daemon.control().await).await.len();
    let again = ctl_json(&world, &by_rule, 0);
    assert_eq!((&again["matched"], &again["resolved"]), (&json!(1), &json!([])), "{again}");
    assert_eq!(read_whole_log(&mut daemon.control().await).await.len(), entries, "nothing is resolved twice");
    let shown = world.ctl(&["review", "show", &small[0]]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("small-difference@1"), "{shown}");
    assert_eq!(world.ctl(&["review", "resolve", "--rule=unknown"]).status.code(), Some(1));
}

#[tokio::test]
async fn daemon_refuses_a_resolution_that_its_rule_does_not_give() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_rule(&daemon).await;
    let (small, large) =
        (open_review(&daemon, "census", 1961).await, open_review(&daemon, "census", 1964).await);
    let other = open_review(&daemon, "other", 1961).await;
    let control = &mut daemon.control().await;
    let listed = document(&get(control, "/v1/review-rules").await);
    assert_eq!(listed, json!({"items": [rule(1)], "next": null}));
    let ruled = |id: &str| format!("/v1/reviews/{id}/rules/small-difference");
    let given = document(&get(control, &ruled(&small)).await);
    assert_eq!((&given["rule"], &given["mismatch"]), (&json!("small-difference@1"), &json!(null)));
    let given = given["resolution"].clone();
    for (id, reason) in [(&large, "too_large"), (&other, "other_workflow")] {
        let answer = get(control, &ruled(id)).await;
        assert_eq!(
            (at(&answer, "/mismatch/reason"), at(&answer, "/resolution")),
            (json!(reason), json!(null))
        );
    }
    problem(&get(control, &ruled("v-none")).await, 404, "review_unknown");
    problem(&get(control, &format!("/v1/reviews/{small}/rules/none")).await, 404, "review_rule_unknown");
    problem(&get(control, &format!("/v1/reviews/{small}/rules/None")).await, 400, "invalid_request");

    let entries = read_whole_log(control).await.len();
    let with = |member: &str, value: Value| {
        let mut resolution = given.clone();
        resolution[member] = value;
        resolution
    };
    let resolve = |id: &str| format!("/v1/reviews/{id}/resolve");
    for (id, resolution, status, code) in [
        (&small, with("values", json!({"population": EARLIER})), 409, "review_rule_mismatch"),
        (&small, with("valid_for_seconds", json!(60)), 409, "review_rule_mismatch"),
        (&small, with("own_value", json!(true)), 409, "review_rule_mismatch"),
        (&small, with("rule", json!("small-difference@2")), 404, "review_rule_unknown"),
        (&small, with("rule", json!("small-difference")), 400, "invalid_request"),
        (&small, with("reason", json!(" ")), 400, "invalid_resolution"),
        (&large, with("values", json!({"population": "54611"})), 409, "review_rule_mismatch"),
        (&other, given.clone(), 409, "review_rule_mismatch"),
    ] {
        problem(&post(control, &resolve(id), &resolution).await, status, code);
    }
    assert_eq!(read_whole_log(control).await.len(), entries, "nothing was changed");
    // without a claim to the rule, the same value is a resolution of the reviewer
    assert_eq!(post(control, &resolve(&small), &with("rule", json!(null))).await.status, 200);
    assert!(log(control, "event=review_resolved").await[0]["resolution"].get("rule").is_none());
    problem(&get(control, &ruled(&small)).await, 409, "review_resolved");
    problem(&post(control, &resolve(&small), &given).await, 409, "review_resolved");
}

#[tokio::test]
async fn rule_applies_to_the_present_evidence_only() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_rule(&daemon).await;
    let old = open_review(&daemon, "census", 1961).await;
    let ruled = |id: &str| format!("/v1/reviews/{id}/rules/small-difference@1");
    let control = &mut daemon.control().await;
    let given = at(&get(control, &ruled(&old)).await, "/resolution");
    release(&daemon, "office-b", "2026-03-09", &[(1961, "54211")]).await;
    assert_eq!(at(&get(control, &ruled(&old)).await, "/mismatch/reason"), "evidence_changed");
    problem(&post(control, &format!("/v1/reviews/{old}/resolve"), &given).await, 409, "review_rule_mismatch");

    let new = open_review(&daemon, "census", 1961).await;
    assert_ne!(old, new);
    // the older review has the present values again, but not their date; and it would close the newer one
    release(&daemon, "office-b", "2026-03-10", &[(1961, LATER)]).await;
    assert_eq!(at(&get(control, &ruled(&old)).await, "/mismatch/reason"), "released_again");
    let mut of_source = rule(2);
    of_source["take"] = json!({"source": "office-b"});
    let path = "/v1/documents/review_rule/small-difference@2";
    assert_eq!(put_document(control, path, &of_source).await.status, 200);
    let ruled = |id: &str| format!("/v1/reviews/{id}/rules/small-difference");
    assert_eq!(at(&get(control, &ruled(&old)).await, "/mismatch/reason"), "other_review");
    // the newer review has the present values, and its resolution closes the older one
    release(&daemon, "office-b", "2026-03-11", &[(1961, "54211")]).await;
    let given = at(&get(control, &ruled(&new)).await, "/resolution");
    assert_eq!(given["values"]["population"], "54211");
    let resolved = post(control, &format!("/v1/reviews/{new}/resolve"), &given).await;
    assert_eq!(resolved.status, 200, "{}", document(&resolved));
    let events = log(control, "event=review_resolved").await;
    let rules: Vec<_> =
        events.iter().map(|event| (&event["review_id"], &event["resolution"]["rule"])).collect();
    assert_eq!(rules.len(), 2);
    assert!(rules.contains(&(&json!(new), &json!("small-difference@2"))), "{rules:?}");
    assert!(rules.contains(&(&json!(old), &json!(null))), "the rule was not applied to it: {rules:?}");
}

#[tokio::test]
async fn rule_does_not_apply_once_a_source_without_an_answer_has_one() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_offices(&daemon, &[("office-c", "primary", "1")]).await;
    let of_three = workflow("census", &["office-a", "office-b", "office-c"], json!({}));
    register(&mut daemon.control().await, &of_three).await;
    register_rule(&daemon).await;
    let id = open_review(&daemon, "census", 1961).await;
    let (path, control) = (format!("/v1/reviews/{id}/rules/small-difference"), &mut daemon.control().await);
    let given = at(&get(control, &path).await, "/resolution");
    assert_eq!(given["values"]["population"], LATER);
    release(&daemon, "office-c", "2026-03-09", &[(1962, "60000")]).await;
    assert_eq!(at(&get(control, &path).await, "/resolution"), given, "it has still no record of the subject");
    release(&daemon, "office-c", "2026-03-10", &[(1961, "60000"), (1962, "60000")]).await;
    assert_eq!(at(&get(control, &path).await, "/mismatch/reason"), "evidence_changed");
    let refused = post(control, &format!("/v1/reviews/{id}/resolve"), &given).await;
    problem(&refused, 409, "review_rule_mismatch");
    let evidence = document(&get(control, &format!("/v1/reviews/{id}/evidence")).await);
    assert_eq!(
        evidence["changed"],
        json!({"office-c": {"version": "2026-03-10", "values": {"population": "60000"}}})
    );
}

#[tokio::test]
async fn rule_does_not_apply_if_it_would_close_an_older_review_with_a_claim() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_rule(&daemon).await;
    let question = json!({
        "workflow": "census", "where": {"area": "ABW", "year": 1961}, "axes": ["population"],
        "claimed": {"population": {"value": 60000, "claimed_by": "a reader"}},
    });
    let claimed = at(&post(&mut daemon.routes().await, "/v1/verify", &question).await, "/review_id");
    release(&daemon, "office-b", "2026-03-09", &[(1961, "54211")]).await;
    let new = open_review(&daemon, "census", 1961).await;
    assert!(claimed.is_string() && claimed != new.as_str(), "{claimed} {new}");
    let control = &mut daemon.control().await;
    let ruled = get(control, &format!("/v1/reviews/{new}/rules/small-difference")).await;
    assert_eq!(at(&ruled, "/mismatch/reason"), "other_review", "{}", document(&ruled));
    let mut resolution = json!({
        "values": {"population": "54211"}, "reason": "x", "valid_for_seconds": 7_776_000, "rule": "small-difference@1",
    });
    let path = format!("/v1/reviews/{new}/resolve");
    problem(&post(control, &path, &resolution).await, 409, "review_rule_mismatch");
    // a person may decide both
    resolution["rule"] = json!(null);
    assert_eq!(post(control, &path, &resolution).await.status, 200);
    assert_eq!(log(control, "event=review_resolved").await.len(), 2);
}

#[tokio::test]
async fn rule_is_registered_for_known_workflows_and_their_sources_only() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_rule(&daemon).await;
    let control = &mut daemon.control().await;
    for (member, value) in [
        ("workflows", json!([])),
        ("workflows", json!(["none"])),
        ("take", json!({"source": "office-c"})),
        ("take", json!("older_release")),
        ("difference_below_percent", json!("101")),
        ("valid_for_days", json!(0)),
        ("unknown", json!(1)),
    ] {
        let mut document = rule(2);
        document[member] = value;
        let path = "/v1/documents/review_rule/small-difference@2";
        problem(&put_document(control, path, &document).await, 400, "invalid_document");
    }
    let mut changed = rule(1);
    changed["valid_for_days"] = json!(91);
    let path = "/v1/documents/review_rule/small-difference@1";
    problem(&put_document(control, path, &changed).await, 409, "document_fixed");
    let mut of_source = rule(2);
    of_source["take"] = json!({"source": "office-a"});
    let path = "/v1/documents/review_rule/small-difference@2";
    assert_eq!(put_document(control, path, &of_source).await.status, 200);
    let id = open_review(&daemon, "census", 1961).await;
    let newest = get(control, &format!("/v1/reviews/{id}/rules/small-difference")).await;
    assert_eq!(
        (at(&newest, "/rule"), at(&newest, "/resolution/values/population")),
        (json!("small-difference@2"), json!(EARLIER))
    );
}

#[tokio::test]
async fn console_resolves_the_disputes_of_the_preview_once() {
    let world = DaemonWorld::default();
    let daemon = serve_offices(&world).await;
    register_rule(&daemon).await;
    let (small, large) =
        (open_review(&daemon, "census", 1961).await, open_review(&daemon, "census", 1964).await);
    let mut console = ConsoleProcess::start(&world);
    console.log_in().await;
    assert!(console.get("/inbox").await.text.contains("href=\"/inbox/rule\""));
    let choice = console.get("/inbox/rule").await;
    assert!(choice.text.contains("small-difference@1: The later release"), "{}", choice.text);
    let preview = console.get("/inbox/rule?rule=small-difference@1&since=1h").await;
    for part in [
        "54,208 (office-a), 54,210 (office-b)",
        "take 54,210",
        "0.737946 %",
        "name=\"action\" value=\"resolve\"",
    ] {
        assert!(preview.text.contains(part), "{part} is not in {}", preview.text);
    }
    assert!(!preview.text.contains(&format!("resolution:{large}")), "{}", preview.text);
    let given =
        get(&mut daemon.control().await, &format!("/v1/reviews/{small}/rules/small-difference")).await;
    let field = format!("resolution:{small}");
    let shown = at(&given, "/resolution").to_string();
    let post = async |reason: &str| {
        let fields = [("rule", "small-difference@1"), ("reason", reason), (&field, &shown)];
        console.post("/inbox/rule", &fields).await
    };
    let refused = post("").await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.text.contains("<code>Reason</code>") && refused.text.contains(&field),
        "{}",
        refused.text
    );
    let done = post("the later release").await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert!(done.text.contains("1 of 1 "), "{}", done.text);
    let again = post("the later release").await;
    assert!(again.text.contains("0 of 1 "), "{}", again.text);
    let events = log(&mut daemon.control().await, "event=review_resolved").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["resolution"]["rule"], "small-difference@1");
    let preview = console.get("/inbox/rule?rule=small-difference").await;
    assert!(!preview.text.contains("resolution:") && preview.text.contains(&large), "{}", preview.text);
    assert_eq!(console.get("/inbox/rule?rule=Small").await.status, 400);
}
