//! Decisions after the system's clock was set back.

use super::support::*;
use crate::testing::{TestSystem, with_system};
use domain_verification::EnvelopeKind;
use serde_json::json;

#[test]
fn clock_set_back_by_an_hour_blocks_no_ingested_source() {
    with_system(async |TestSystem { system, time, .. }: TestSystem| {
        let system = &system;
        source(system, "office", json!({})).await;
        ingest_source_rows(system, "office", "2020-04-14", &["Aruba,ABW,1960,54208"]).await;
        workflow(system, &["office"], json!({})).await;
        time.advance(-3600);
        let envelope = verified(system).await;
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{:?}", envelope.warnings);
    });
}
