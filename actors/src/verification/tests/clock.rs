//! Decisions after the system's clock was set back.

use super::support::*;
use crate::testing::{World, with_world};
use oracled_domain::verification::EnvelopeKind;
use serde_json::json;

#[test]
fn clock_set_back_by_an_hour_blocks_no_ingested_source() {
    with_world(async |World { system, time, .. }: World| {
        let system = &system;
        source(system, "office", json!({})).await;
        says(system, "office", "2020-04-14", &["Aruba,ABW,1960,54208"]).await;
        workflow(system, &["office"], json!({})).await;
        time.turn(-3600);
        let envelope = verified(system).await;
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{:?}", envelope.warnings);
    });
}
