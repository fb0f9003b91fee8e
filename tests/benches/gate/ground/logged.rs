//! The cost of the audit entries of queries: lookups with entries, committed in groups as the daemon does,
//! compared with the same lookups without entries.

use super::facts::{BenchFact, BenchRelease};
use super::library::LibraryStore;
use super::{SOURCE, as_of, question, random_facts};
use crate::BenchEffort;
use crate::table::{BenchRow, BenchTable, median};
use domain_base::caller::{PeerCredentials, RequestCaller};
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{QueryEntry, SourceQueried, SourceReadKind, SourceReadOutcome};
use domain_ground::freshness::AnswerHandling;
use domain_ground::query::QueryRequest;
use jiff::Timestamp;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// The highest number of entries in a group, as in the daemon.
const GROUP_MAX: usize = 256;

/// Measures both, alternately.
pub(crate) fn measure(
    effort: BenchEffort,
    library: &mut LibraryStore,
    releases: &[BenchRelease],
    table: &mut BenchTable,
) -> io::Result<()> {
    let (at, release) = as_of(releases)?;
    let facts = random_facts(release, effort.lookups);
    let [mut with, mut without] = [Vec::new(), Vec::new()];
    for _ in 0..effort.rounds {
        let began = Instant::now();
        for fact in &facts {
            library.query(&question(fact), at)?;
        }
        without.push(began.elapsed().as_secs_f64() * 1e6 / facts.len() as f64);
        let began = Instant::now();
        for (number, group) in facts.chunks(GROUP_MAX).enumerate() {
            let (mut events, mut callers) = (Vec::new(), Vec::new());
            for fact in group {
                let asked_at = Instant::now();
                let records = library.query(&question(fact), at)?.len();
                events.push(entry(fact, at, records, asked_at));
                callers.push(Some(Arc::new(caller(number))));
            }
            library.commit(events, callers)?;
        }
        with.push(began.elapsed().as_secs_f64() * 1e6 / facts.len() as f64);
    }
    let [with, without] = [with, without].map(median);
    table.row(BenchRow {
        what: format!("lookup with its audit entry, in groups of {GROUP_MAX}"),
        measured: format!("{with:.1} µs"),
        baseline: "the same lookup without".into(),
        baseline_measured: format!("{without:.1} µs"),
        verdict: format!("{:.2} ({:.1} µs an entry)", with / without, with - without),
        ..BenchRow::default()
    });
    Ok(())
}

fn caller(number: usize) -> RequestCaller {
    RequestCaller {
        socket: None,
        host: None,
        application: None,
        peer: PeerCredentials { uid: 1000, gid: 1000, pid: Some(4242) },
        request_id: format!("1092-{number:x}"),
        trace_id: None,
        is_trace_sampled: false,
        owner_uid: None,
    }
}

fn entry(fact: &BenchFact, at: i64, records: usize, asked_at: Instant) -> AuditEvent {
    let point_in_time = Timestamp::from_second(at).expect("a valid time");
    let request = json!({
        "axes_requested": ["population"],
        "filters": [
            {"axis": "area", "operator": "eq", "value": fact.area},
            {"axis": "year", "operator": "eq", "value": fact.year},
        ],
        "point_in_time": point_in_time,
    });
    let request: QueryRequest = serde_json::from_value(request).expect("a valid request");
    AuditEvent::new(
        point_in_time,
        None,
        SourceQueried(QueryEntry {
            read: SourceReadKind::Query,
            oracle_id: Some(SOURCE.parse().expect("a valid id")),
            query_id: Some(format!("q-{at}-{}", fact.year)),
            request_sha256: Sha256Hex::of_canonical_json(&request),
            point_in_time: Some(point_in_time),
            known_at: Some(point_in_time),
            outcome: SourceReadOutcome::Answered,
            data_version: Some("2023".into()),
            records_returned: records as u64,
            freshness: Some(AnswerHandling::Serve),
            latency_ms: asked_at.elapsed().as_secs_f64() * 1e3,
        }),
    )
}
