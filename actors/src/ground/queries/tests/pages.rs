//! Where answers are computed, and the memory that they take.

use super::*;
use crate::testing::ground::approve_source;
use crate::testing::ground::{open_pipeline, register_pipeline};
use tokio::time::timeout;

/// A source with `records` records of one subject, which differ in their values, and one record of another subject.
async fn ingest_records_of_one_subject(system: &ActorSystem, records: usize) {
    let pipeline_id = population(system).await;
    let mut definition = open_pipeline();
    let key = ["Country Code", "Year", "Value"].map(str::to_owned);
    definition.pipeline.validation.deduplication_key = key.into();
    register_pipeline(system, definition).await;
    let rows: String = (1..=records).map(|value| format!("Aruba,ABW,1960,{value}\n")).collect();
    let payload = format!("Country Name,Country Code,Year,Value\n{rows}Zambia,ZMB,1960,3119430\n");
    ingest_version(system, &pipeline_id, &payload, "2023-05-04").await;
    approve_source(system, &source()).await;
}

async fn page(system: &ActorSystem, area: &str, max_results: usize) -> Result<QueryAnswerPage, QueryError> {
    let one = [("area", FilterOperator::Eq, json!(area)), ("year", FilterOperator::Eq, json!(1960))];
    let request = QueryRequest { max_results: Some(max_results), ..request(&one) };
    system.queries.page(OracleQuery { query_id: None, oracle_id: source(), request }, Arc::new(|| true)).await
}

#[test]
fn lookup_of_many_records_becomes_a_scan() {
    with_system(|TestSystem { system, .. }| async move {
        ingest_records_of_one_subject(&system, 300).await;
        let all = page(&system, "ABW", 1000).await.expect("the call succeeds");
        assert_eq!(all.answer.response.records.len(), 300);
        assert!(all.memory_permit.is_some(), "it is no lookup");
        let few = page(&system, "ABW", 20).await.expect("the call succeeds");
        assert_eq!(few.answer.response.records.len(), 20);
        assert!(few.memory_permit.is_none() && few.answer.response.cursor.is_some());
        let one = page(&system, "ZMB", 1000).await.expect("the call succeeds");
        assert_eq!((one.answer.response.records.len(), one.memory_permit.is_none()), (1, true));
    });
}

#[test]
fn pages_wait_for_memory_but_lookups_do_not() {
    with_system(|TestSystem { system, .. }| async move {
        ingest_records_of_one_subject(&system, 300).await;
        let mut held = Vec::new();
        // 64 MiB in total, and each page takes twice its data
        for _ in 0..2 {
            held.push(page(&system, "ABW", 10_000).await.expect("there is room"));
        }
        page(&system, "ZMB", 10_000).await.expect("it takes no room");
        let none = timeout(Duration::from_millis(200), page(&system, "ABW", 10_000)).await;
        assert!(none.is_err(), "it waits: {none:?}");
        let room = held.pop().and_then(|page| page.memory_permit);
        page(&system, "ABW", 10_000).await.expect_err("other pages have all memory");
        drop(room);
        page(&system, "ABW", 10_000).await.expect("there is room");
    });
}
