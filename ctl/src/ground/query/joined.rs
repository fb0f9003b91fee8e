//! Joins several pages into one answer.

use oracled_domain::ground::query::{QueryFreshness, QueryResponse};

/// Appends `page`, the page after `joined`. The result has the versions and warnings of both. It has the
/// freshness and the tier of the worse one, and that one's policy report on single axes.
pub(crate) fn join(joined: &mut QueryResponse, mut page: QueryResponse) {
    let cursor = page.cursor.take();
    let (before, after) = (&joined.query_metadata, &page.query_metadata);
    let records_scanned = before.records_scanned + after.records_scanned;
    let records_returned = before.records_returned + after.records_returned;
    let latency_ms = before.latency_ms + after.latency_ms;
    // the freshness of a page without records does not matter
    if joined.records.is_empty() {
        *joined = page;
    } else if !page.records.is_empty() {
        joined.records.append(&mut page.records);
        join_metadata(joined, page);
    }
    let metadata = &mut joined.query_metadata;
    (metadata.records_scanned, metadata.records_returned) = (records_scanned, records_returned);
    metadata.latency_ms = latency_ms;
    joined.cursor = cursor;
}

fn join_metadata(joined: &mut QueryResponse, page: QueryResponse) {
    let own_warnings = |response: &QueryResponse| {
        let of_age = &response.query_metadata.freshness.policy.warnings;
        response.warnings.iter().filter(|warning| !of_age.contains(warning)).cloned().collect::<Vec<_>>()
    };
    let mut warnings = own_warnings(joined);
    warnings.extend(own_warnings(&page).into_iter().filter(|warning| !joined.warnings.contains(warning)));
    let (metadata, other) = (&mut joined.query_metadata, page.query_metadata);
    let known: Vec<_> = metadata.data_version.split(", ").collect();
    let new: Vec<_> = other.data_version.split(", ").filter(|version| !known.contains(version)).collect();
    metadata.data_version = [known, new].concat().join(", ");
    metadata.oracle_tier = metadata.oracle_tier.min(other.oracle_tier);
    let data_as_of = metadata.freshness.data_as_of.max(other.freshness.data_as_of);
    if staleness_rank(&other.freshness) > staleness_rank(&metadata.freshness) {
        metadata.freshness = other.freshness;
    }
    metadata.freshness.data_as_of = data_as_of;
    warnings.extend(metadata.freshness.policy.warnings.iter().cloned());
    joined.warnings = warnings;
}

/// Orders freshness from better to worse: by the outcome of the policy, the number of stale axes, and the age.
fn staleness_rank(freshness: &QueryFreshness) -> impl Ord + use<> {
    let stale = freshness.policy.axes.iter().filter(|axis| axis.stale).count();
    (freshness.policy.answer, stale, freshness.staleness_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_domain::ground::source::OracleTier;
    use serde_json::json;

    /// A page of these records, released on `day`. Unless `answer` is `serve`, it has a warning about its age.
    fn page(records: &[&str], day: &str, answer: &str, age_s: u64, more: Option<&str>) -> QueryResponse {
        let stale = answer != "serve";
        let old: Vec<_> = stale.then(|| format!("`size` is {age_s} s old")).into_iter().collect();
        let record = |id: &&str| json!({"record_id": id, "source_record_id": id, "axes": {}, "valid_from": "2020-01-01T00:00:00Z", "valid_until": null});
        let records: Vec<_> = records.iter().map(record).collect();
        let warnings: Vec<_> = ["it is deprecated".to_owned()].into_iter().chain(old.clone()).collect();
        let axis = json!({"axis": "size", "age_seconds": age_s, "max_age_seconds": 5, "stale": stale, "stale_behavior": "degrade_tier"});
        let page = json!({
            "query_metadata": {
                "query_id": "q", "executed_at": "2026-01-01T00:00:00Z", "latency_ms": 0.5, "records_scanned": 10,
                "records_returned": records.len(), "data_version": day, "known_at": null,
                "oracle_tier": if answer == "degrade_tier" { "secondary" } else { "primary" },
                "freshness": {
                    "data_as_of": format!("{day}T00:00:00Z"), "staleness_seconds": age_s, "axes": [axis],
                    "answer": answer, "warnings": old, "refresh": stale,
                },
            },
            "records": records, "cursor": more, "warnings": warnings,
        });
        serde_json::from_value(page).expect("a page")
    }

    #[test]
    fn joined_pages_have_the_freshness_and_tier_of_the_worst_page() {
        let mut all = page(&["a", "b"], "2020-02-01", "serve", 3, Some("01"));
        join(&mut all, page(&["c"], "2020-01-01", "degrade_tier", 9, Some("02")));
        join(&mut all, page(&["d"], "2020-02-01", "serve_with_warnings", 8, Some("03")));
        join(&mut all, page(&[], "2020-03-01", "serve", 1, None));
        let ids: Vec<_> = all.records.iter().map(|record| record.record_id.as_str()).collect();
        assert_eq!((ids, &all.cursor), (vec!["a", "b", "c", "d"], &None));
        let metadata = &all.query_metadata;
        assert_eq!((metadata.records_scanned, metadata.records_returned), (40, 4));
        assert_eq!(metadata.data_version, "2020-02-01, 2020-01-01");
        assert_eq!(metadata.oracle_tier, OracleTier::Secondary);
        let freshness = &metadata.freshness;
        assert_eq!(freshness.staleness_seconds, Some(9));
        assert_eq!(freshness.data_as_of, "2020-02-01T00:00:00Z".parse().ok(), "the newest of them");
        assert_eq!(all.warnings, ["it is deprecated", "`size` is 9 s old"]);
    }

    #[test]
    fn page_without_records_does_not_affect_the_joined_freshness() {
        let mut all = page(&[], "2020-03-01", "serve", 1, Some("01"));
        join(&mut all, page(&["a"], "2020-01-01", "serve_with_warnings", 9, None));
        assert_eq!((all.records.len(), all.query_metadata.data_version.as_str()), (1, "2020-01-01"));
        assert_eq!(all.warnings, ["it is deprecated", "`size` is 9 s old"]);
        assert_eq!((all.query_metadata.records_scanned, all.cursor), (20, None));
    }
}
