//! Recall: which delivered verdicts relied on statements that a source has changed since. The answers are compared with those of a
//! model of the source that replays all verdicts.

use domain_verdict::label::{ProductTier, VerdictDimension};
use oracled_api::client::DaemonClient;
use oracled_tests::described::{documents, validator};
use oracled_tests::generation::{generation_request, request_order, wait_for_order};
use oracled_tests::ground::{
    approve, ingest, office_documents, put_document, register_all, started_run, wait_for_run,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::verification;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, eventually, get, log, post, problem};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SOURCE: &str = "office";
const AREAS: [(&str, &str); 4] =
    [("Aruba", "ABW"), ("Austria", "AUT"), ("Belgium", "BEL"), ("Iceland", "ISL")];

/// The population by area; an area without a value is not in the release.
type Release = BTreeMap<&'static str, u64>;

fn csv(release: &Release) -> Vec<u8> {
    let row = |(area, code): &(&'static str, &str)| {
        release.get(area).map(|people| format!("{area},{code},2015,{people}\n"))
    };
    let rows: String = AREAS.iter().filter_map(row).collect();
    format!("Country Name,Country Code,Year,Value\n{rows}").into_bytes()
}

async fn with_source(control: &mut DaemonClient) {
    let (ontology, source, pipeline) = office_documents(SOURCE);
    register_all(control, &ontology, &source, &pipeline).await;
}

/// Ingests a release, whose day is its number. Returns the id of its run.
async fn ingest_release(control: &mut DaemonClient, day: usize, release: &Release) -> String {
    let version = format!("2020-{:02}-{:02}", 1 + day / 28, 1 + day % 28);
    let run = started_run(&ingest(control, SOURCE, &version, &version, csv(release)).await);
    let ended = wait_for_run(control, &run).await;
    assert_eq!(field(&ended, "state"), "completed", "{ended}");
    run
}

async fn undo(control: &mut DaemonClient, run: &str) -> String {
    let undone = post(control, &format!("/v1/runs/{run}/undo"), &json!({"reason": "wrong"})).await;
    assert_eq!(undone.status.as_u16() / 100, 2, "{}", document(&undone));
    let id = document(&undone)["run"]["run_id"].as_str().expect("an id").to_owned();
    wait_for_run(control, &id).await;
    id
}

fn text_of(claims: &BTreeMap<&str, u64>) -> String {
    let claim = |(area, people): (&&str, &u64)| format!("The population of {area} in 2015 was {people}.");
    claims.iter().map(claim).collect::<Vec<_>>().join(" ")
}

/// A verdict with these claims, which is checked against all areas.
fn submitted(claims: &BTreeMap<&str, u64>) -> Value {
    let verdict = json!({"verdict": "GREEN", "summary": text_of(claims)});
    let mut body = oracled_tests::submission(&verdict.to_string());
    body["rules"] = json!(["RULE-PREC-013"]);
    body["facts_from"] = json!([{"query": {"oracle_id": SOURCE, "request": {
        "axes_requested": ["area_name", "population"],
        "filters": [{"axis": "year", "operator": "eq", "value": 2015}]}}}]);
    body
}

fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn recalled(control: &mut DaemonClient, params: &str) -> Value {
    let answer = get(control, &format!("/v1/recalls?oracle_id={SOURCE}&limit=100{params}")).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

fn sessions(answer: &Value) -> BTreeSet<String> {
    let verdicts = answer["verdicts"].as_array().expect("a list");
    assert_eq!(answer["total"], verdicts.len());
    verdicts.iter().map(|verdict| verdict["session_id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one release with all views of what it touches")]
async fn corrected_value_recalls_the_verdicts_that_relied_on_it() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    with_source(control).await;
    let mut release: Release =
        AREAS.iter().map(|(area, _)| *area).zip([101_001, 102_001, 103_001, 104_001]).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    let of =
        |areas: &[&'static str]| areas.iter().map(|area| (*area, release[area])).collect::<BTreeMap<_, _>>();
    for (session, claims) in [
        ("aruba", of(&["Aruba"])),
        ("both", of(&["Aruba", "Austria"])),
        ("belgium", of(&["Belgium"])),
        ("iceland", of(&["Iceland"])),
    ] {
        let delivered = post(routes, &format!("/v1/verdicts/{session}"), &submitted(&claims)).await;
        assert_eq!(delivered.status, 201, "{}", document(&delivered));
    }
    let rejected = BTreeMap::from([("Aruba", 7)]);
    problem(&post(routes, "/v1/verdicts/no", &submitted(&rejected)).await, 422, "rules_rejected");

    let entry = log(control, "session=both&event=rules_evaluated").await[0].clone();
    let references = entry["facts_from"]["relied_on"].as_array().expect("references").clone();
    assert_eq!(references.len(), 2, "{entry}");
    assert_eq!(references[0]["template_id"], "population");
    assert_eq!(references[1]["claims"], json!([{"field": "summary", "start": 44, "end": 89}]));
    let none = recalled(control, "").await;
    assert_eq!((sessions(&none), &none["source_version"]), (BTreeSet::new(), &json!("2020-01-01")));

    // one value is corrected, and one record is withdrawn
    release.insert("Aruba", 109_009);
    release.remove("Iceland");
    let run = ingest_release(control, 1, &release).await;
    let answer = recalled(control, &format!("&run={run}")).await;
    assert_eq!(sessions(&answer), ["aruba", "both", "iceland"].map(str::to_owned).into());
    assert_eq!((&answer["source_version"], &answer["first_entry"]), (&json!("2020-01-02"), &json!(1)));
    assert_eq!(answer["unknown"], json!({"not_listed": 0, "erased": 0, "damaged": 0, "pruned": 0}));
    let both = &answer["verdicts"][1];
    assert_eq!((&both["result"], &both["rules_verdict"]), (&json!("now_contradicted"), &json!("FAIL")));
    let statement = &both["statements"][0];
    assert_eq!(both["statements"].as_array().map(Vec::len), Some(1), "{both}");
    assert_eq!(statement["then"], "The population of Aruba in 2015 was 101001");
    assert_eq!(statement["now"], json!(["The population of Aruba in 2015 was 109009"]));
    assert_eq!(
        (&statement["source_version"], &statement["now_version"]),
        (&json!("2020-01-01"), &json!("2020-01-02"))
    );
    let claim = &statement["checked"][0];
    let text = claim["text"].as_str().map(str::trim_end);
    assert_eq!(text, Some("The population of Aruba in 2015 was 101001."));
    assert_eq!(claim["result"], "now_contradicted");
    let iceland = &answer["verdicts"][2];
    assert_eq!(
        (&iceland["result"], &iceland["statements"][0]["now"]),
        (&json!("no_longer_supported"), &json!([]))
    );
    assert_eq!(sessions(&recalled(control, "&since=2020-01-01T00:00:00Z").await), sessions(&answer));
    let record = statement["record_id"].as_str().expect("an id");
    let of_record = recalled(control, &format!("&record={record}")).await;
    assert_eq!(sessions(&of_record), ["aruba", "both"].map(str::to_owned).into());
    let locator = format!("urn:oracled:record:{record}");
    let shown = printed(&world, &["recall", "--source", SOURCE, "--record", &locator]);
    assert!(shown.starts_with("2 "), "{shown}");

    // page by page
    let first = document(&get(control, &format!("/v1/recalls?oracle_id={SOURCE}&limit=2")).await);
    let next = first["next"].as_str().expect("there is another page");
    let read = log(control, "event=operator_read&limit=1").await.remove(0);
    let parameters = format!("oracle_id={SOURCE}&limit=2");
    assert_eq!((&read["subject"], &read["parameters"]), (&json!("recall"), &json!(parameters)), "{read}");
    let second = document(&get(control, &format!("/v1/recalls?oracle_id={SOURCE}&after={next}")).await);
    let names = |page: &Value| page["verdicts"].as_array().map_or(0, Vec::len);
    assert_eq!(
        (names(&first), names(&second), &first["total"], &second["next"]),
        (2, 1, &json!(3), &Value::Null)
    );
    let shown = printed(&world, &["recall", "--source", SOURCE, "--run", &run[..12]]);
    // the headline ends with the number of the log's last entry
    let (headline, _) = shown.lines().next().and_then(|line| line.rsplit_once(',')).expect("a headline");
    insta::assert_snapshot!("verdicts_that_a_run_recalls", headline);
    assert!(shown.contains("(2020-01-01): The population of Aruba in 2015 was 101001"), "{shown}");

    // the verdicts themselves are unchanged, and a purged one cannot be evaluated again
    let stored = get(routes, "/v1/verdicts/aruba").await;
    assert_eq!(document(&stored)["verdict"]["summary"], "The population of Aruba in 2015 was 101001.");
    oracled_tests::generation::purge_verdict(control, "aruba").await;
    let purged = recalled(control, "").await;
    let aruba = &purged["verdicts"][0];
    assert_eq!((&aruba["result"], &aruba["cause"]), (&json!("not_evaluated"), &json!("text_not_stored")));
    assert_eq!(
        aruba["statements"][0]["then"], "The population of Aruba in 2015 was 101001",
        "the session has the facts"
    );

    for (params, code) in
        [("&run=ffffffffffffffff", "run_unknown"), ("&record=ffffffffffffffff-1", "record_unknown")]
    {
        problem(&get(control, &format!("/v1/recalls?oracle_id={SOURCE}{params}")).await, 404, code);
    }
    problem(&get(control, "/v1/recalls?oracle_id=nobody").await, 404, "source_unknown");
    let both = format!("/v1/recalls?oracle_id={SOURCE}&run={run}&since=2020-01-01T00:00:00Z");
    problem(&get(control, &both).await, 400, "invalid_request");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn recall_of_an_order_with_opinions_is_about_the_delivered_answer() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("calls_at_once = 8\n");
    world.config.push_str("[orders]\nopinions = { count = 3, models = [\"gemini\"], agree = 2 }\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    with_source(control).await;
    let mut release: Release = [("Aruba", 101_001), ("Austria", 102_001)].into();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    // both agree, and the first is delivered
    for claims in release.iter().map(|(area, people)| BTreeMap::from([(*area, *people)])) {
        let answer = json!({"verdict": "GREEN", "summary": text_of(&claims)});
        model.next([ScriptedReply::with_text(&answer.to_string())]);
    }
    let mut order = generation_request(ProductTier::Quick);
    for member in ["rules", "facts_from"] {
        order[member] = submitted(&BTreeMap::new())[member].take();
    }
    let placed = request_order(&world.socket(), "cs_1", &order).await;
    assert_eq!(placed.status, 202, "{}", document(&placed));
    wait_for_order(routes, "cs_1", "delivered").await;
    assert_eq!(log(control, "session=cs_1&event=rules_evaluated").await.len(), 2);

    release.insert("Austria", 109_009);
    let run = ingest_release(control, 1, &release).await;
    assert_eq!(sessions(&recalled(control, &format!("&run={run}")).await), BTreeSet::new());
    release.insert("Aruba", 108_008);
    let run = ingest_release(control, 2, &release).await;
    let answer = recalled(control, &format!("&run={run}")).await;
    assert_eq!(sessions(&answer), ["cs_1".to_owned()].into());
    assert_eq!(answer["verdicts"][0]["result"], "now_contradicted");
}

#[tokio::test]
async fn recall_omits_a_refused_verdict_before_one_that_was_delivered_without_facts() {
    let world = DaemonWorld::with_config("[gate]\nrefuse = [\"unexpected_field\"]\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    with_source(control).await;
    let mut release: Release = [("Aruba", 101_001)].into();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    let mut refused = submitted(&release);
    let verdict = json!({"verdict": "GREEN", "summary": text_of(&release), "mood": "good"});
    refused["raw"] = json!(verdict.to_string());
    problem(&post(routes, "/v1/verdicts/cs_1", &refused).await, 422, "policy_rejected");
    let evaluated = log(control, "session=cs_1&event=rules_evaluated").await.remove(0);
    assert_eq!(evaluated["facts_from"]["relied_on"].as_array().map(Vec::len), Some(1), "{evaluated}");
    let delivered = post(routes, "/v1/verdicts/cs_1", &oracled_tests::submission(GOOD)).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    release.insert("Aruba", 109_009);
    ingest_release(control, 1, &release).await;
    assert_eq!(sessions(&recalled(control, "").await), BTreeSet::new());
}

/// A delivered verdict of the model.
struct ModelVerdict {
    claims: BTreeMap<&'static str, u64>,
    /// For each claim, the number of the run since which the source stated its value.
    since: BTreeMap<&'static str, usize>,
    is_purged: bool,
}

/// The source, and the delivered verdicts.
#[derive(Default)]
struct Model {
    /// Each run: its id, and its release or the run that it undoes.
    runs: Vec<(String, Result<Release, usize>)>,
    verdicts: BTreeMap<String, ModelVerdict>,
}

impl Model {
    /// The releases that count after the first `known` runs, with the numbers of their runs.
    fn releases(&self, known: usize) -> Vec<(usize, &Release)> {
        let mut undone = BTreeSet::new();
        for (number, (_, run)) in self.runs.iter().enumerate().take(known).rev() {
            if let (Err(of), false) = (run, undone.contains(&number)) {
                undone.insert(*of);
            }
        }
        let runs = self.runs.iter().enumerate().take(known).filter(|(number, _)| !undone.contains(number));
        runs.filter_map(|(number, (_, run))| Some((number, run.as_ref().ok()?))).collect()
    }

    fn value(&self, area: &str, known: usize) -> Option<u64> {
        self.releases(known).last().and_then(|(_, release)| release.get(area).copied())
    }

    /// The run since which the source has stated the present value of an area.
    fn since(&self, area: &str) -> usize {
        let (releases, now) = (self.releases(self.runs.len()), self.value(area, self.runs.len()));
        let same = releases.iter().rev().take_while(|(_, release)| release.get(area).copied() == now);
        same.last().expect("it is stated").0
    }

    fn relied_on_changed(&self, is_counted: impl Fn(&str, usize) -> bool) -> BTreeSet<String> {
        let differs = |verdict: &ModelVerdict| {
            verdict.claims.iter().any(|(area, then)| {
                self.value(area, self.runs.len()) != Some(*then) && is_counted(area, verdict.since[area])
            })
        };
        self.verdicts.iter().filter(|(_, verdict)| differs(verdict)).map(|(id, _)| id.clone()).collect()
    }

    /// The verdicts that relied on statements from before a run, about records that it changed.
    fn recalled_by(&self, run: usize) -> BTreeSet<String> {
        let changes = |area: &str| {
            let before = self.value(area, run);
            before.is_some() && before != self.value(area, run + 1)
        };
        self.relied_on_changed(|area, since| since < run && changes(area))
    }
}

/// A verdict of this tier with a member that is not judged, on which the policy of a history acts.
fn flagged(claims: &BTreeMap<&str, u64>, tier: ProductTier) -> Value {
    let text = text_of(claims);
    let mut verdict = json!({"verdict": "GREEN", "summary": text, "mood": "good"});
    if tier == ProductTier::Full {
        for dimension in VerdictDimension::ALL {
            verdict["breakdown"][dimension.to_string()] = json!({"verdict": "GREEN", "analysis": text});
        }
    }
    verdict
}

/// A random history, with its source and its verdicts.
struct History {
    random: fastrand::Rng,
    model: Model,
    /// The verdicts that the policy holds.
    held: BTreeMap<String, ModelVerdict>,
    routes: DaemonClient,
    control: DaemonClient,
}

impl History {
    /// The policy: flagged verdicts of one tier are held, and those of the other one refused.
    const POLICY: &str =
        "[gate.quick]\nhold = [\"unexpected_field\"]\n[gate.full]\nrefuse = [\"unexpected_field\"]\n";

    /// Submits a verdict about some present values, which the policy can hold or refuse. A refused one is followed by one without
    /// facts in the same session.
    async fn submit(&mut self, step: usize) {
        let known = self.model.runs.len();
        let stated = AREAS.iter().filter_map(|(area, _)| Some((*area, self.model.value(area, known)?)));
        let claims: BTreeMap<_, _> = stated.filter(|_| self.random.bool()).collect();
        if claims.is_empty() {
            return;
        }
        let since = claims.keys().map(|area| (*area, self.model.since(area))).collect();
        let (session, mut body) = (format!("cs_{step}"), submitted(&claims));
        let path = format!("/v1/verdicts/{session}");
        let verdict = ModelVerdict { claims, since, is_purged: false };
        match self.random.usize(0..6) {
            0 => {
                body["raw"] = json!(flagged(&verdict.claims, ProductTier::Quick).to_string());
                let held = post(&mut self.routes, &path, &body).await;
                assert_eq!(held.status, 202, "{}", document(&held));
                self.held.insert(session, verdict);
            }
            1 => {
                let mut refused = flagged(&verdict.claims, ProductTier::Full);
                body["tier"] = json!("full");
                body["raw"] = json!(refused.to_string());
                problem(&post(&mut self.routes, &path, &body).await, 422, "policy_rejected");
                refused.as_object_mut().expect("an object").remove("mood");
                let mut body = oracled_tests::submission(&refused.to_string());
                body["tier"] = json!("full");
                let delivered = post(&mut self.routes, &path, &body).await;
                assert_eq!(delivered.status, 201, "{}", document(&delivered));
            }
            _ => {
                let delivered = post(&mut self.routes, &path, &body).await;
                assert_eq!(delivered.status, 201, "{}", document(&delivered));
                self.model.verdicts.insert(session, verdict);
            }
        }
    }

    /// Ingests a release with some changes of the last one.
    async fn release(&mut self, step: usize) {
        let releases = self.model.releases(self.model.runs.len());
        let mut release = releases.last().map(|(_, last)| (*last).clone()).unwrap_or_default();
        for (area, _) in AREAS {
            match self.random.usize(0..6) {
                0 => drop(release.remove(area)),
                // few values, so that earlier ones come again
                1..=3 => drop(release.insert(area, self.random.u64(1..4) * 100_003)),
                _ => {}
            }
        }
        release.entry(AREAS[self.random.usize(0..4)].0).or_insert(100_003);
        let run = ingest_release(&mut self.control, step, &release).await;
        self.model.runs.push((run, Ok(release)));
    }

    /// Undoes a release, unless it is the only one.
    async fn undo(&mut self) {
        let releases = self.model.releases(self.model.runs.len());
        let counting: Vec<_> = releases.iter().map(|(number, _)| *number).collect();
        if counting.len() > 1 {
            let undone = counting[self.random.usize(0..counting.len())];
            let run = undo(&mut self.control, &self.model.runs[undone].0).await;
            self.model.runs.push((run, Err(undone)));
        }
    }

    /// An operator releases a held verdict, or fails its order.
    async fn decide(&mut self) {
        let sessions: Vec<_> = self.held.keys().cloned().collect();
        let Some(session) = self.random.choice(sessions) else { return };
        let is_released = self.random.usize(0..3) > 0;
        let decision = json!({"action": if is_released { "release" } else { "fail" }, "reason": "reviewed"});
        let decided = post(&mut self.control, &format!("/v1/orders/{session}"), &decision).await;
        assert_eq!(decided.status.as_u16() / 100, 2, "{}", document(&decided));
        let verdict = self.held.remove(&session).expect("it is held");
        if is_released {
            self.model.verdicts.insert(session, verdict);
        }
    }

    /// Purges a delivered verdict, or removes or erases its session.
    async fn remove(&mut self) {
        let sessions: Vec<_> = self.model.verdicts.keys().cloned().collect();
        let Some(session) = self.random.choice(sessions) else { return };
        match self.random.usize(0..5) {
            0..=1 => {
                let verdict = self.model.verdicts.get_mut(&session).expect("it is delivered");
                if !std::mem::replace(&mut verdict.is_purged, true) {
                    oracled_tests::generation::purge_verdict(&mut self.control, &session).await;
                }
                return;
            }
            2 => {
                let erase = json!({"session_id": session, "reason": "asked"});
                assert_eq!(post(&mut self.control, "/v1/erasures", &erase).await.status, 200);
            }
            _ => {
                let path = format!("/v1/sessions/{session}");
                let method = hyper::Method::DELETE;
                let removed = oracled_tests::call(&mut self.control, method, &path, None).await;
                assert_eq!(removed.status, 200, "{}", document(&removed));
            }
        }
        self.model.verdicts.remove(&session);
    }

    /// Compares the recalls of the source and of a run with those of the model.
    async fn compare(&mut self, place: &str) {
        let answer = recalled(&mut self.control, "").await;
        assert_eq!(sessions(&answer), self.model.relied_on_changed(|_, _| true), "{place}: {answer}");
        let run = self.random.usize(0..self.model.runs.len());
        let of_run = recalled(&mut self.control, &format!("&run={}", self.model.runs[run].0)).await;
        assert_eq!(sessions(&of_run), self.model.recalled_by(run), "{place}, run {run}: {of_run}");
        // the result is that of a new evaluation, which collects the facts itself
        for recalled in answer["verdicts"].as_array().expect("a list") {
            let verdict = &self.model.verdicts[recalled["session_id"].as_str().expect("an id")];
            if verdict.is_purged {
                assert_eq!(recalled["cause"], "text_not_stored", "{place}: {recalled}");
                continue;
            }
            let facts_from = submitted(&verdict.claims)["facts_from"].take();
            let text = text_of(&verdict.claims);
            let body =
                json!({"candidate_output": text, "facts_from": facts_from, "rules": ["RULE-PREC-013"]});
            let evaluated = document(&post(&mut self.routes, "/v1/rules/evaluate", &body).await);
            assert_eq!(recalled["rules_verdict"], evaluated["verdict"], "{place}: {recalled}");
        }
    }
}

async fn run_history(seed: u64) {
    let world = DaemonWorld::with_config(History::POLICY);
    let daemon = world.serve().await;
    let (random, routes, control) =
        (fastrand::Rng::with_seed(seed), daemon.routes().await, daemon.control().await);
    let mut history = History { random, model: Model::default(), held: BTreeMap::new(), routes, control };
    with_source(&mut history.control).await;
    let first: Release = AREAS.iter().map(|(area, _)| (*area, history.random.u64(1..4) * 100_003)).collect();
    let run = ingest_release(&mut history.control, 0, &first).await;
    history.model.runs.push((run, Ok(first)));
    approve(&mut history.control, SOURCE).await;
    for step in 1..40_usize {
        match history.random.usize(0..14) {
            0..=5 => history.submit(step).await,
            6..=8 => history.release(step).await,
            9 => history.undo().await,
            10..=11 => history.decide().await,
            _ => history.remove().await,
        }
        history.compare(&format!("seed {seed}, step {step}")).await;
    }
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn recalled_verdicts_are_those_of_a_replay_of_all() {
    for seed in 0..3 {
        run_history(seed).await;
    }
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn recalled_verdicts_of_many_histories_are_those_of_a_replay() {
    for seed in 3..60 {
        run_history(seed).await;
    }
}

#[tokio::test]
async fn index_survives_a_restart_and_begins_again_with_a_new_database() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    {
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        with_source(control).await;
        ingest_release(control, 0, &release).await;
        approve(control, SOURCE).await;
        for session in ["one", "two"] {
            let claims = BTreeMap::from([("Aruba", 101_001)]);
            assert_eq!(
                post(routes, &format!("/v1/verdicts/{session}"), &submitted(&claims)).await.status,
                201
            );
        }
        let corrected = BTreeMap::from([("Aruba", 7)]);
        ingest_release(control, 1, &corrected).await;
    }
    let expected: BTreeSet<_> = ["one", "two"].map(str::to_owned).into();
    assert_eq!(sessions(&recalled(&mut daemon.control().await, "").await), expected);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    assert_eq!(sessions(&recalled(&mut daemon.control().await, "").await), expected);
    assert!(daemon.stop().success());
    std::fs::remove_dir_all(world.state().join("store")).expect("the database is removed");
    let daemon = world.serve().await;
    assert_eq!(sessions(&recalled(&mut daemon.control().await, "").await), expected);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn recalled_verdict_is_reported_once_to_an_application_that_asks_for_it() {
    let endpoint = ModelServer::start().await;
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let mut world = DaemonWorld::with_config("recall = \"notify\"\n");
    world.configure_webhooks(Some(&format!("{}/hook", endpoint.url())), &endpoint.url());
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    with_source(control).await;
    let mut release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    for (session, area) in [("aruba", "Aruba"), ("austria", "Austria")] {
        let claims = BTreeMap::from([(area, 101_001)]);
        assert_eq!(post(routes, &format!("/v1/verdicts/{session}"), &submitted(&claims)).await.status, 201);
    }
    release.insert("Aruba", 109_009);
    let run = ingest_release(control, 1, &release).await;
    eventually("both runs are reported", async || log(control, "event=run_recalled").await.len() == 2).await;
    eventually("it is sent", async || log(control, "event=message_sent").await.len() == 1).await;
    let [entry] = &log(control, "event=verdict_recalled").await[..] else {
        panic!("one verdict is reported")
    };
    assert_eq!((&entry["session_id"], &entry["result"]), (&json!("aruba"), &json!("now_contradicted")));
    let evaluated = &log(control, "session=aruba&event=rules_evaluated").await[0];
    assert_eq!((&entry["evaluation"], &entry["run_id"]), (&evaluated["seq"], &json!(run)));
    let ended = log(control, "event=run_recalled").await;
    assert_eq!((&ended[0]["verdicts"], &ended[1]["verdicts"]), (&json!(0), &json!(1)));
    let [sent] = &endpoint.requests()[..] else { panic!("one webhook") };
    assert_eq!(sent.body["type"], "verdict.recalled");
    let data = json!({"application": "default", "session_id": "aruba", "oracle_id": SOURCE, "run_id": run,
        "result": "now_contradicted"});
    assert_eq!(sent.body["data"], data);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    ingest_release(control, 2, &release).await;
    eventually("the next run is reported", async || log(control, "event=run_recalled").await.len() == 3)
        .await;
    assert_eq!(
        log(control, "event=verdict_recalled").await.len(),
        1,
        "a run that confirms values touches no verdict"
    );
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn verdicts_are_counted_and_not_listed_if_recall_is_off() {
    let world = DaemonWorld::with_config("recall = \"off\"\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    with_source(control).await;
    let release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    let claims = BTreeMap::from([("Aruba", 101_001)]);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submitted(&claims)).await.status, 201);
    ingest_release(control, 1, &Release::from([("Aruba", 7)])).await;
    let answer = recalled(control, "").await;
    assert_eq!((&answer["total"], &answer["off"], &answer["verdicts"]), (&json!(0), &json!(1), &json!([])));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn recall_of_a_source_counts_where_the_application_says_nothing() {
    for (of_config, of_source, reported, off) in [("list", "notify", 1, 0), ("notify", "off", 0, 1)] {
        let world = DaemonWorld::with_config(&format!("recall = \"{of_config}\"\n"));
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        let (ontology, mut source, pipeline) = office_documents(SOURCE);
        source["recall"] = json!(of_source);
        register_all(control, &ontology, &source, &pipeline).await;
        ingest_release(control, 0, &Release::from([("Aruba", 101_001)])).await;
        approve(control, SOURCE).await;
        let claims = BTreeMap::from([("Aruba", 101_001)]);
        assert_eq!(post(routes, "/v1/verdicts/cs_1", &submitted(&claims)).await.status, 201);
        ingest_release(control, 1, &Release::from([("Aruba", 7)])).await;
        let answer = recalled(control, "").await;
        assert_eq!((&answer["total"], &answer["off"]), (&json!(1 - off), &json!(off)), "{of_source}");
        if reported > 0 {
            eventually("it is reported", async || log(control, "event=run_recalled").await.len() == 2).await;
        }
        assert_eq!(log(control, "event=verdict_recalled").await.len(), reported, "{of_source}");
    }
}

const NOTICE: &str = "{% for s in statements %}{{ s.then }} -> {{ s.now }} ({{ s.result }}){% endfor %}";

/// A world whose customers get mails at `mails`, with reports about recalled verdicts.
fn world_with_mails(mails: &ModelServer) -> DaemonWorld {
    DaemonWorld::for_reviewers(&format!(
        "recall = \"notify\"\n[mail]\ntransport = \"http\"\nbase_url = \"{}\"\ntemplates = [\"shop-en\"]\n",
        mails.url()
    ))
}

/// Registers a mail template with a text for these kinds of mails.
async fn register_template(control: &mut DaemonClient, version: u32, kinds: &[&str]) {
    let parts = json!({"subject": "{{ verdict_label }}", "text": NOTICE});
    let mails: BTreeMap<_, _> = kinds.iter().map(|kind| (*kind, parts.clone())).collect();
    let template = json!({"template_id": "shop-en", "version": version, "language": "en", "mails": mails});
    let path = format!("/v1/documents/mail_template/shop-en@{version}");
    let registered = put_document(control, &path, &template).await;
    assert_eq!(registered.status, 200, "{}", document(&registered));
}

/// Delivers a verdict with a claim about an area, to a customer with an address or without one.
async fn deliver(daemon: &DaemonProcess<'_>, session: &str, claim: (&str, u64), address: Option<&str>) {
    let mut body = submitted(&BTreeMap::from([claim]));
    if let Some(address) = address {
        body["customer_email"] = json!(address);
    }
    let delivered = post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &body).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
}

async fn runs_are_reported(control: &mut DaemonClient, runs: usize) {
    eventually("the runs are reported", async || log(control, "event=run_recalled").await.len() == runs)
        .await;
}

/// The sessions with a drafted notice.
async fn drafted(client: &mut DaemonClient) -> Vec<String> {
    let listed = document(&get(client, "/v1/recall-notices").await);
    let items = listed["items"].as_array().expect("a list").iter();
    items.map(|notice| notice["session_id"].as_str().expect("an id").to_owned()).collect()
}

/// The mails of recalls that were sent.
fn notices_of(mails: &ModelServer) -> Vec<Value> {
    let requests = mails.requests().into_iter().map(|request| request.body);
    requests.filter(|mail| mail["kind"] == "recall_notice").collect()
}

/// Compares an answer with its description on the control socket.
fn assert_described(answer: &Value, path: &str, method: &str) {
    let control = &documents()[1];
    let schema = &control["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"];
    let faults: Vec<_> =
        validator(control, schema).iter_errors(answer).map(|error| error.to_string()).collect();
    assert!(schema.is_object() && faults.is_empty(), "{method} {path}: {faults:?}\n{answer}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one recall with all decisions about its notices")]
async fn drafted_notice_is_sent_once_when_a_person_releases_it() {
    const ONE: &str = "/v1/recall-notices/{session_id}";
    let mails = ModelServer::start().await;
    let world = world_with_mails(&mails);
    let daemon = world.serve().await;
    let (control, review) = (&mut daemon.control().await, &mut daemon.review().await);
    register_template(control, 1, &["recall_notice"]).await;
    with_source(control).await;
    let mut release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    let address = Some("ann@example.org");
    for (session, area, address) in [
        ("aruba", "Aruba", address),
        ("austria", "Austria", address),
        ("discarded", "Aruba", address),
        ("erased", "Aruba", address),
        ("silent", "Aruba", None),
    ] {
        deliver(&daemon, session, (area, 101_001), address).await;
    }
    release.insert("Aruba", 109_009);
    ingest_release(control, 1, &release).await;
    runs_are_reported(control, 2).await;
    assert_eq!(drafted(control).await, ["aruba", "discarded", "erased"]);
    assert_described(&document(&get(control, "/v1/recall-notices").await), "/v1/recall-notices", "get");
    for (session, is_drafted) in [("aruba", json!(true)), ("silent", Value::Null)] {
        let entry = log(control, &format!("session={session}&event=verdict_recalled")).await.remove(0);
        assert_eq!(entry["notice_drafted"], is_drafted, "{entry}");
        assert!(!entry.to_string().contains("109009") && !entry.to_string().contains("ann@"), "{entry}");
    }
    for client in [&mut *control, &mut *review] {
        let inbox = document(&get(client, "/v1/inbox?kind=recall_notice&source=office").await);
        let item = &inbox["items"][0];
        assert_eq!(
            (&inbox["counts"]["recall_notice"], &item["importance"]),
            (&json!(3), &json!("customer")),
            "{inbox}"
        );
        assert_eq!(
            (&item["id"], &item["link"], &item["cause"]),
            (&json!("aruba"), &json!("/notices/aruba"), &json!("now contradicted: office"))
        );
    }

    let read = document(&get(review, "/v1/recall-notices/aruba").await);
    assert_described(&read, ONE, "get");
    let text = "The population of Aruba in 2015 was 101001 -> The population of Aruba in 2015 was 109009 (now_contradicted)";
    assert_eq!((&read["mail"]["subject"], &read["mail"]["text"]), (&json!("GREEN"), &json!(text)));
    assert!(read["fault"].is_null() && !read.to_string().contains("ann@"), "{read}");
    let reader = log(control, "session=aruba&event=recall_notice_read").await.remove(0);
    assert_eq!(reader["caller"]["socket"], "review");
    let shown = printed(&world, &["notice", "show", "aruba"]);
    let result = "now_contradicted".replace('_', " ");
    assert!(shown.contains(text) && shown.contains(&format!("aruba: {result}")), "{shown}");
    assert_eq!(notices_of(&mails), Vec::<Value>::new(), "nothing is sent before a release");

    let path = "/v1/recall-notices/aruba";
    let decision = |action: &str, drafted_at: &Value| {
        let mut body = json!({"action": action, "reason": "checked"});
        if !drafted_at.is_null() {
            body["drafted_at"] = drafted_at.clone();
        }
        body
    };
    let other = decision("release", &json!("2020-01-01T00:00:00Z"));
    problem(&post(control, path, &other).await, 409, "recall_notice_changed");
    let blank = json!({"action": "release", "reason": " ", "drafted_at": read["drafted_at"]});
    problem(&post(control, path, &blank).await, 400, "invalid_request");
    problem(&post(control, path, &decision("release", &Value::Null)).await, 400, "invalid_request");
    let of_session = document(&get(review, "/v1/recall-notices?session=aruba").await);
    let listed = of_session["items"].as_array().map(|items| (items.len(), &items[0]["drafted_at"]));
    assert_eq!(listed, Some((1, &read["drafted_at"])), "{of_session}");
    let body = decision("release", &read["drafted_at"]);
    let (one, two) = tokio::join!(post(control, path, &body), post(review, path, &body));
    let (released, refused) = if one.status == 200 { (one, two) } else { (two, one) };
    problem(&refused, 409, "recall_notice_changed");
    let released = document(&released);
    assert_described(&released, ONE, "post");
    eventually("the notice is sent", async || notices_of(&mails).len() == 1).await;
    let sent = &notices_of(&mails)[0];
    assert_eq!((&sent["text"], &sent["to"]), (&json!(text), &json!("ann@example.org")));
    assert_eq!((&sent["mail_id"], &sent["verdict"]["verdict"]), (&released["mail_id"], &json!("GREEN")));
    problem(&post(control, path, &body).await, 409, "recall_notice_changed");
    problem(&post(control, path, &decision("discard", &Value::Null)).await, 404, "recall_notice_unknown");
    problem(&get(control, path).await, 404, "recall_notice_unknown");
    let entry = log(control, "session=aruba&event=recall_notice_released").await.remove(0);
    assert_eq!(entry["reason"], "checked");
    assert!(entry["salts"]["reason"].is_string(), "the reason can be erased: {entry}");

    printed(&world, &["notice", "discard", "discarded", "--reason", "it does not matter"]);
    let export = printed(&world, &["--json", "export", "--session", "erased"]);
    assert!(export.contains("recall_notices") && export.contains("109009"), "{export}");
    let erase = json!({"session_id": "erased", "reason": "asked"});
    let erased = document(&post(control, "/v1/erasures", &erase).await);
    let data = erased["sessions"][0]["data"].as_array().expect("a list");
    assert!(data.contains(&json!("recall_notice")), "{erased}");
    assert_eq!(drafted(control).await, Vec::<String>::new());
    let discard = decision("discard", &Value::Null);
    problem(&post(control, "/v1/recall-notices/erased", &discard).await, 404, "recall_notice_unknown");
    let stored = document(&get(&mut daemon.routes().await, "/v1/verdicts/aruba").await);
    assert_eq!(stored["verdict"]["summary"], "The population of Aruba in 2015 was 101001.");
    assert_eq!(notices_of(&mails).len(), 1, "a discarded notice is not sent");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn notice_needs_a_template_and_follows_the_present_statements() {
    let mails = ModelServer::start().await;
    let world = world_with_mails(&mails);
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register_template(control, 1, &["verdict"]).await;
    with_source(control).await;
    let release = |people| AREAS.iter().map(|(area, _)| (*area, people)).collect::<Release>();
    ingest_release(control, 0, &release(101_001)).await;
    approve(control, SOURCE).await;
    for session in ["kept", "purged", "removed"] {
        deliver(&daemon, session, ("Aruba", 101_001), Some("ann@example.org")).await;
    }
    let first = ingest_release(control, 1, &release(102_002)).await;
    runs_are_reported(control, 2).await;
    assert_eq!(log(control, "event=verdict_recalled").await.len(), 3);
    assert_eq!(drafted(control).await, Vec::<String>::new(), "the template has no text of notices");

    register_template(control, 2, &["recall_notice"]).await;
    let second = ingest_release(control, 2, &release(103_003)).await;
    runs_are_reported(control, 3).await;
    assert_eq!(drafted(control).await, ["kept", "purged", "removed"]);
    oracled_tests::generation::purge_verdict(control, "purged").await;
    let removed = oracled_tests::call(control, hyper::Method::DELETE, "/v1/sessions/removed", None).await;
    assert_eq!(removed.status, 200, "{}", document(&removed));
    assert_eq!(drafted(control).await, ["kept"]);

    // the undo is a recall with other facts
    undo(control, &second).await;
    runs_are_reported(control, 4).await;
    let read = document(&get(control, "/v1/recall-notices/kept").await);
    let now = &read["recalls"][0]["verdict"]["statements"][0]["now"];
    assert_eq!(now, &json!(["The population of Aruba in 2015 was 102002"]));

    // a template that cannot be rendered keeps the draft
    let broken = json!({"subject": "s", "text": "{% if query != 'Sell honey & jam?' %}{{ verdict.total }}{% endif %}"});
    let template =
        json!({"template_id": "shop-en", "version": 3, "language": "en", "mails": {"recall_notice": broken}});
    let path = "/v1/documents/mail_template/shop-en@3";
    assert_eq!(put_document(control, path, &template).await.status, 200);
    let release = json!({"action": "release", "reason": "checked", "drafted_at": read["drafted_at"]});
    let refused = post(control, "/v1/recall-notices/kept", &release).await;
    problem(&refused, 409, "recall_notice_unsendable");
    let read = document(&get(control, "/v1/recall-notices/kept").await);
    assert!(read["mail"].is_null() && read["fault"].is_string(), "{read}");

    // the source states again what the verdict relied on
    undo(control, &first).await;
    runs_are_reported(control, 5).await;
    assert_eq!(drafted(control).await, Vec::<String>::new());
    let withdrawn = log(control, "session=kept&event=recall_notice_withdrawn").await.remove(0);
    assert_eq!(withdrawn["oracle_id"], SOURCE);
    assert_eq!(notices_of(&mails), Vec::<Value>::new());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn recall_of_several_sessions_is_reported_with_notices_and_webhooks_and_withdrawn() {
    let (mails, endpoint) = (ModelServer::start().await, ModelServer::start().await);
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let mut world = world_with_mails(&mails);
    world.configure_webhooks(Some(&format!("{}/hook", endpoint.url())), &endpoint.url());
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register_template(control, 1, &["recall_notice"]).await;
    with_source(control).await;
    let mut release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    for session in ["one", "three", "two"] {
        deliver(&daemon, session, ("Aruba", 101_001), Some("ann@example.org")).await;
    }
    release.insert("Aruba", 109_009);
    let run = ingest_release(control, 1, &release).await;
    runs_are_reported(control, 2).await;
    assert_eq!(drafted(control).await, ["one", "three", "two"]);
    assert_eq!(log(control, "event=verdict_recalled").await.len(), 3);
    let hooks = || {
        let requests = endpoint.requests().into_iter().map(|request| request.body);
        requests.filter(|body| body["type"] == "verdict.recalled").count()
    };
    eventually("each verdict is reported", async || hooks() == 3).await;

    // a release compares with the present statements itself
    let two = document(&get(control, "/v1/recall-notices/two").await);
    release.insert("Aruba", 108_008);
    let further = ingest_release(control, 2, &release).await;
    let decision = json!({"action": "release", "reason": "checked", "drafted_at": two["drafted_at"]});
    problem(&post(control, "/v1/recall-notices/two", &decision).await, 409, "recall_notice_changed");
    undo(control, &further).await;
    let read = document(&get(control, "/v1/recall-notices/one").await);
    undo(control, &run).await;
    let release = json!({"action": "release", "reason": "checked", "drafted_at": read["drafted_at"]});
    problem(&post(control, "/v1/recall-notices/one", &release).await, 409, "recall_notice_changed");
    assert!(!drafted(control).await.contains(&"one".to_owned()));
    runs_are_reported(control, 5).await;
    assert_eq!(drafted(control).await, Vec::<String>::new());
    assert_eq!(log(control, "event=recall_notice_withdrawn").await.len(), 3);
    assert_eq!(notices_of(&mails).len(), 0);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn draft_follows_a_source_that_has_no_reports_any_longer() {
    let mails = ModelServer::start().await;
    let mut world = world_with_mails(&mails);
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register_template(control, 1, &["recall_notice"]).await;
    with_source(control).await;
    let mut release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    deliver(&daemon, "one", ("Aruba", 101_001), Some("ann@example.org")).await;
    release.insert("Aruba", 109_009);
    let run = ingest_release(control, 1, &release).await;
    runs_are_reported(control, 2).await;
    assert_eq!(drafted(control).await, ["one"]);
    assert!(daemon.stop().success());
    world.config = world.config.replace("recall = \"notify\"", "recall = \"list\"");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    undo(control, &run).await;
    eventually("the draft is withdrawn", async || drafted(control).await.is_empty()).await;
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn no_notice_is_drafted_about_a_replaced_verdict_that_relied_on_a_verification() {
    let mails = ModelServer::start().await;
    let world = world_with_mails(&mails);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register_template(control, 1, &["recall_notice"]).await;
    with_source(control).await;
    let mut release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    let axes = json!(["area_name", "population"]);
    let workflow = verification::workflow("people", &[SOURCE], json!({"axes": axes}));
    verification::register(control, &workflow).await;
    let address = "ann@example.org";
    for session in ["kept", "replaced"] {
        let mut body = submitted(&BTreeMap::from([("Aruba", 101_001)]));
        body["customer_email"] = json!(address);
        body["facts_from"] = json!([{"verify": {
            "workflow": "people", "where": {"area": "ABW", "year": 2015}, "axes": axes}}]);
        let delivered = post(routes, &format!("/v1/verdicts/{session}"), &body).await;
        assert_eq!(delivered.status, 201, "{}", document(&delivered));
    }
    oracled_tests::generation::purge_verdict(control, "replaced").await;
    deliver(&daemon, "replaced", ("Austria", 101_001), Some(address)).await;
    release.insert("Aruba", 109_009);
    ingest_release(control, 1, &release).await;
    runs_are_reported(control, 2).await;
    let answer = recalled(control, "").await;
    let verdicts = answer["verdicts"].as_array().expect("a list").iter();
    let causes: Vec<_> = verdicts.map(|verdict| (&verdict["session_id"], &verdict["cause"])).collect();
    let (kept, replaced) = (json!("kept"), json!("replaced"));
    let (verified, not_stored) = (json!("verification"), json!("text_not_stored"));
    assert_eq!(causes, [(&kept, &verified), (&replaced, &not_stored)]);
    assert_eq!(drafted(control).await, ["kept"]);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn verdict_is_unknown_and_not_recalled_after_the_content_of_its_verification_was_pruned() {
    let mut world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let (ontology, source, mut pipeline) = office_documents(SOURCE);
    pipeline["pipeline"]["storage"]["retention_days"] = json!(30);
    register_all(control, &ontology, &source, &pipeline).await;
    let mut release: Release = AREAS.iter().map(|(area, _)| (*area, 101_001)).collect();
    ingest_release(control, 0, &release).await;
    approve(control, SOURCE).await;
    let axes = json!(["area_name", "population"]);
    verification::register(control, &verification::workflow("people", &[SOURCE], json!({"axes": axes})))
        .await;
    let mut body = submitted(&BTreeMap::from([("Aruba", 101_001)]));
    body["facts_from"] = json!([{"verify": {
        "workflow": "people", "where": {"area": "ABW", "year": 2015}, "axes": axes}}]);
    let delivered = post(routes, "/v1/verdicts/cs_1", &body).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    // the correction ends the validity of the value that the verification relied on
    release.insert("Aruba", 109_009);
    let run = ingest_release(control, 1, &release).await;
    for (is_pruned, listed, unknown) in [(false, 1, 0), (true, 0, 1)] {
        if is_pruned {
            let path = format!("/v1/sources/{SOURCE}/prune");
            let answer = post(control, &path, &json!({"before": "2020-02-01"})).await;
            assert_eq!(document(&answer)["versions"], 1, "{}", document(&answer));
        }
        for scope in [String::new(), format!("&run={run}")] {
            let answer = recalled(control, &scope).await;
            assert_eq!(
                (&answer["total"], &answer["unknown"]["pruned"]),
                (&json!(listed), &json!(unknown)),
                "{answer}"
            );
        }
    }
    assert!(daemon.stop().success());
    world.config = "recall = \"off\"\n".to_owned();
    let daemon = world.serve().await;
    let answer = recalled(&mut daemon.control().await, "").await;
    assert_eq!((&answer["total"], &answer["unknown"]["pruned"]), (&json!(0), &json!(0)), "{answer}");
    assert!(daemon.stop().success());
}
