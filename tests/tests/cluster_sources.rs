//! Sources on the hosts of a cluster: a host ingests, and all hosts answer.

use crate::cluster::{assert_prefixes, start_cluster};
use domain_base::digest::Sha256Hex;
use oracled_api::client::DaemonClient;
use oracled_tests::cluster::TestCluster;
use oracled_tests::ground::{
    approve, example_documents, ingest, query_all, register_all, started_run, wait_for_run,
};
use oracled_tests::{
    DaemonProcess, DaemonWorld, at, document, eventually, eventually_within, get, log, post, problem,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOURCE: &str = "samples";

/// A host that shares files in a folder of the cluster.
fn world(cluster: &TestCluster, host: &str) -> DaemonWorld {
    let objects = format!("objects = \"file://{}\"\n", cluster.objects().display());
    DaemonWorld::with_config(&format!("[ingestion]\nrefresh_s = 1\n{}{objects}", cluster.config(host)))
}

/// A release: a record for each number, with the release as its name.
fn payload(release: usize, records: usize) -> String {
    (0..records)
        .map(|number| format!("{{\"number\":{number},\"size\":1,\"name\":\"{release}\"}}\n"))
        .collect()
}

async fn prepare(control: &mut DaemonClient) {
    let (ontology, source, pipeline) = example_documents(SOURCE);
    register_all(control, &ontology, &source, &pipeline).await;
    approve(control, SOURCE).await;
}

fn date(release: usize) -> String {
    format!("20{:02}-01-01", release + 10)
}

async fn begin(control: &mut DaemonClient, release: usize, records: usize) -> String {
    started_run(
        &ingest(control, SOURCE, &format!("v{release}"), &date(release), payload(release, records)).await,
    )
}

/// Ingests a release, which must become visible.
async fn ingested(control: &mut DaemonClient, release: usize) -> Value {
    let run_id = begin(control, release, 50).await;
    let run = wait_for_run(control, &run_id).await;
    assert_eq!(run["state"], "completed", "{run}");
    run
}

async fn query(routes: &mut DaemonClient) -> oracled_api::client::DaemonResponse {
    let request =
        json!({"axes_requested": ["name"], "filters": [{"axis": "number", "operator": "eq", "value": 7}]});
    post(routes, "/v1/query", &json!({"oracle_id": SOURCE, "request": request})).await
}

fn name_in(answer: &oracled_api::client::DaemonResponse) -> Value {
    assert_eq!(answer.status, 200, "{}", document(answer));
    at(answer, "/response/records/0/axes/name")
}

/// The files of sources of a host, without those in progress.
fn files_of(world: &DaemonWorld) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for folder in ["facts", "raw"] {
        for entry in fs::read_dir(world.state().join("ground").join(folder)).expect("the folder exists") {
            files.insert(entry.expect("an entry").file_name().to_string_lossy().into_owned());
        }
    }
    files
}

async fn wait_for_equal_files(a: &DaemonWorld, b: &DaemonWorld) {
    eventually("both hosts have the same files", async || files_of(a) == files_of(b)).await;
}

fn object_of(cluster: &TestCluster, run: &Value) -> PathBuf {
    let sha256 = run["rows"]["sha256"].as_str().expect("the run has rows");
    cluster.objects().join(format!("facts/{sha256}.sorted"))
}

async fn two_hosts<'w>(
    cluster: &TestCluster,
    a: &'w DaemonWorld,
    b: &'w DaemonWorld,
) -> (DaemonProcess<'w>, DaemonProcess<'w>) {
    let first = cluster.init(a).await;
    prepare(&mut first.control().await).await;
    let second = cluster.join(b, a).await;
    (first, second)
}

#[tokio::test]
async fn release_of_one_host_is_answered_by_the_other_and_both_can_ingest() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    let (mut one, mut other) = (first.control().await, second.control().await);
    for release in 0..6 {
        let (writer, reader) = if release % 2 == 0 { (&mut one, &second) } else { (&mut other, &first) };
        ingested(writer, release).await;
        assert_eq!(name_in(&query(&mut reader.routes().await).await), json!(release.to_string()));
    }
    wait_for_equal_files(&a, &b).await;
    let request = json!({"axes_requested": ["size", "name"], "include_provenance": true});
    let of_a = query_all(&mut first.routes().await, SOURCE, &request).await;
    assert_eq!(of_a.len(), 50);
    assert_eq!(of_a, query_all(&mut second.routes().await, SOURCE, &request).await);
    for control in [&mut one, &mut other] {
        let checked = post(control, &format!("/v1/sources/{SOURCE}/verify"), &json!({})).await;
        assert_eq!(checked.status, 200, "{}", document(&checked));
        assert!(document(&checked)["file_fault"].is_null(), "{}", document(&checked));
    }
    let report = document(&get(&mut other, "/v1/cluster").await);
    assert_eq!((&report["missing_files"], &report["fetch_failure"]), (&json!(0), &Value::Null), "{report}");
    // a host that joins now has the files of the backup
    let c = world(&cluster, "c");
    let third = cluster.join(&c, &b).await;
    assert_eq!(name_in(&query(&mut third.routes().await).await), json!("5"));
    assert!(first.stop().success() && second.stop().success() && third.stop().success());
    assert_prefixes(&[&a, &b, &c]);
}

#[tokio::test]
async fn query_gets_facts_not_here_until_a_check_uploads_a_lost_object() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    let (mut one, mut routes) = (first.control().await, second.routes().await);
    ingested(&mut one, 0).await;
    assert_eq!(name_in(&query(&mut routes).await), json!("0"));
    drop(routes);
    for (release, damage) in [None, Some(0), Some(200)].into_iter().enumerate() {
        // b is away while the object is lost or damaged
        let release = release + 1;
        second.signal("STOP");
        let run = ingested(&mut one, release).await;
        let object = object_of(&cluster, &run);
        let whole = fs::read(&object).expect("the object exists");
        match damage {
            None => fs::remove_file(&object).expect("it is removed"),
            Some(place) => {
                let mut bytes = whole.clone();
                bytes[place] ^= 1;
                fs::write(&object, bytes).expect("it is written");
            }
        }
        second.signal("CONT");
        let mut routes = second.routes().await;
        eventually("the source is not here", async || query(&mut routes).await.status == 503).await;
        problem(&query(&mut routes).await, 503, "facts_not_here");
        let report = document(&get(&mut second.control().await, "/v1/cluster").await);
        assert_eq!(report["missing_files"], 1, "{report}");
        assert!(
            report["missing_bytes"].as_u64() > Some(0) && report["fetch_failure"].is_string(),
            "{report}"
        );
        assert_eq!(get(&mut routes, "/readyz").await.status, 200, "verdicts do not need the source");
        if damage.is_some() {
            fs::remove_file(&object).expect("it is removed");
        }
        let checked = post(&mut one, &format!("/v1/sources/{SOURCE}/verify"), &json!({})).await;
        assert_eq!(checked.status, 200, "{}", document(&checked));
        assert!(fs::read(&object).expect("it is uploaded again") == whole);
        eventually_within(Duration::from_secs(60), "the file is fetched", async || {
            query(&mut routes).await.status == 200
        })
        .await;
        assert_eq!(name_in(&query(&mut routes).await), json!(release.to_string()));
    }
    assert!(first.stop().success() && second.stop().success());
}

#[tokio::test]
async fn host_without_a_file_starts_and_fetches_it() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    ingested(&mut first.control().await, 0).await;
    wait_for_equal_files(&a, &b).await;
    second.kill();
    let all = files_of(&b);
    assert!(all.len() >= 2, "{all:?}");
    for name in &all {
        let folder = if Path::new(name).extension().is_some_and(|extension| extension == "raw") {
            "raw"
        } else {
            "facts"
        };
        fs::remove_file(b.state().join("ground").join(folder).join(name)).expect("it is removed");
    }
    let second = b.serve().await;
    assert_eq!(name_in(&query(&mut second.routes().await).await), json!("0"));
    eventually("all files are here", async || files_of(&b) == all).await;
    assert!(first.stop().success() && second.stop().success());
}

#[tokio::test]
async fn run_of_a_killed_host_is_resumed_by_another() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    ingested(&mut second.control().await, 0).await;
    let run_id = begin(&mut first.control().await, 1, 50_000).await;
    first.kill();
    let mut control = second.control().await;
    let path = format!("/v1/runs/{run_id}");
    assert_eq!(document(&get(&mut control, &path).await)["run"]["state"], "running");
    let busy = ingest(&mut control, SOURCE, "v2", &date(2), payload(2, 5)).await;
    problem(&busy, 409, "run_busy");
    eventually_within(Duration::from_secs(90), "the run is complete", async || {
        document(&get(&mut control, &path).await)["run"]["state"] == "completed"
    })
    .await;
    assert_eq!(name_in(&query(&mut second.routes().await).await), json!("1"));
    let first = a.serve().await;
    let mut routes = first.routes().await;
    // never the older release
    eventually("the host has fetched the files", async || {
        let answer = query(&mut routes).await;
        if answer.status == 503 {
            problem(&answer, 503, "facts_not_here");
            return false;
        }
        assert_eq!(name_in(&answer), json!("1"));
        true
    })
    .await;
    wait_for_equal_files(&a, &b).await;
    assert_eq!(log(&mut control, "event=ingestion_ended&after=0").await.len(), 2, "each once");
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn run_of_a_stopped_host_is_made_by_another_and_committed_once() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    ingested(&mut second.control().await, 0).await;
    let run_id = begin(&mut first.control().await, 1, 50_000).await;
    first.signal("STOP");
    let mut control = second.control().await;
    let path = format!("/v1/runs/{run_id}");
    eventually_within(Duration::from_secs(90), "the run is complete", async || {
        document(&get(&mut control, &path).await)["run"]["state"] == "completed"
    })
    .await;
    // the stopped host has read an older state
    ingested(&mut control, 2).await;
    first.signal("CONT");
    wait_for_equal_files(&a, &b).await;
    eventually("the first host ends its run", async || {
        let written = a.service_log();
        ["ingestion run suspended", "ingestion run ended"].iter().any(|line| written.contains(line))
    })
    .await;
    wait_for_equal_files(&a, &b).await;
    for host in [&first, &second] {
        assert_eq!(name_in(&query(&mut host.routes().await).await), json!("2"));
        let checked =
            post(&mut host.control().await, &format!("/v1/sources/{SOURCE}/verify"), &json!({})).await;
        assert!(document(&checked)["file_fault"].is_null(), "{}", document(&checked));
    }
    assert_eq!(log(&mut control, "event=ingestion_ended&after=0").await.len(), 3, "each once");
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn source_has_one_run_at_a_time_in_the_whole_cluster() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    let (mut one, mut other) = (first.control().await, second.control().await);
    let mut completed = Vec::new();
    for round in 0..6 {
        let (of_a, of_b) = (2 * round, 2 * round + 1);
        let at_once = 2000;
        let (version_a, version_b) = (format!("v{of_a}"), format!("v{of_b}"));
        let (date_a, date_b) = (date(of_a), date(of_b));
        let (began_a, began_b) = tokio::join!(
            ingest(&mut one, SOURCE, &version_a, &date_a, payload(of_a, at_once)),
            ingest(&mut other, SOURCE, &version_b, &date_b, payload(of_b, at_once)),
        );
        let mut accepted = 0;
        for (release, began, control) in [(of_a, began_a, &mut one), (of_b, began_b, &mut other)] {
            match began.status.as_u16() {
                409 => drop(problem(&began, 409, "run_busy")),
                // the files of the last run of the other host are on their way
                503 => drop(problem(&began, 503, "facts_not_here")),
                _ => {}
            }
            if began.status != 202 {
                continue;
            }
            accepted += 1;
            let run = wait_for_run(control, &started_run(&began)).await;
            assert_eq!(run["state"], "completed", "{run}");
            completed.push(release);
        }
        assert!(accepted > 0);
        wait_for_equal_files(&a, &b).await;
    }
    let latest = *completed.iter().max().expect("a run");
    for host in [&first, &second] {
        assert_eq!(name_in(&query(&mut host.routes().await).await), json!(latest.to_string()));
        let ended = log(&mut host.control().await, "event=ingestion_ended&after=0").await;
        assert_eq!(ended.len(), completed.len());
    }
    wait_for_equal_files(&a, &b).await;
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn payload_that_cannot_be_uploaded_begins_no_run() {
    let Some(cluster) = start_cluster() else { return };
    let a = world(&cluster, "a");
    let first = cluster.init(&a).await;
    let mut control = first.control().await;
    prepare(&mut control).await;
    ingested(&mut control, 0).await;
    // a file where the folder of payloads was
    let payloads = cluster.objects().join("payloads");
    fs::rename(&payloads, cluster.objects().join("aside")).expect("it is renamed");
    fs::write(&payloads, "").expect("it is written");
    let refused = ingest(&mut control, SOURCE, "v1", &date(1), payload(1, 5)).await;
    problem(&refused, 503, "storage_unavailable");
    fs::remove_file(&payloads).expect("it is removed");
    fs::rename(cluster.objects().join("aside"), &payloads).expect("it is renamed");
    // now that of the facts
    let facts = cluster.objects().join("facts");
    fs::rename(&facts, cluster.objects().join("aside")).expect("it is renamed");
    fs::write(&facts, "").expect("it is written");
    let run_id = begin(&mut control, 1, 50).await;
    let run = wait_for_run(&mut control, &run_id).await;
    assert_eq!(run["state"], "failed", "{run}");
    assert!(run["cause"].as_str().expect("a cause").contains("cluster.objects"), "{run}");
    assert_eq!(name_in(&query(&mut first.routes().await).await), json!("0"));
    fs::remove_file(&facts).expect("it is removed");
    fs::rename(cluster.objects().join("aside"), &facts).expect("it is renamed");
    ingested(&mut control, 1).await;
    assert_eq!(name_in(&query(&mut first.routes().await).await), json!("1"));
    assert!(first.stop().success());
}

#[tokio::test]
async fn run_is_refused_without_objects() {
    let Some(cluster) = start_cluster() else { return };
    let a = DaemonWorld::with_config(&cluster.config("a"));
    let first = cluster.init(&a).await;
    let mut control = first.control().await;
    prepare(&mut control).await;
    let refused = ingest(&mut control, SOURCE, "v1", &date(1), payload(1, 5)).await;
    let refused = problem(&refused, 409, "in_cluster");
    assert!(refused["detail"].as_str().expect("a detail").contains("cluster.objects"), "{refused}");
    assert!(first.stop().success());
}

#[tokio::test]
async fn pruned_and_held_files_are_removed_on_each_host() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let (first, second) = two_hosts(&cluster, &a, &b).await;
    let mut control = first.control().await;
    for release in 0..4 {
        ingested(&mut control, release).await;
    }
    wait_for_equal_files(&a, &b).await;
    let before = files_of(&b);
    let first_payload = format!("{}.raw", Sha256Hex::of(payload(0, 50).as_bytes()));
    assert!(before.contains(&first_payload));
    let pruned = post(
        &mut second.control().await,
        &format!("/v1/sources/{SOURCE}/prune"),
        &json!({"before": "2012-06-01T00:00:00Z"}),
    )
    .await;
    assert_eq!(pruned.status, 200, "{}", document(&pruned));
    eventually("both hosts have removed the payload", async || {
        let (of_a, of_b) = (files_of(&a), files_of(&b));
        of_a == of_b && !of_a.contains(&first_payload)
    })
    .await;
    for host in [&first, &second] {
        assert_eq!(name_in(&query(&mut host.routes().await).await), json!("3"));
    }
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}
