use super::*;
use serde_json::json;
use std::collections::BTreeSet;
use strum::VariantArray;

mod schemas;

fn policy() -> Json {
    json!({
        "oracle_id": "un-wpp", "axis_freshness": {}, "default_max_age_seconds": 60,
        "default_stale_behavior": "fail_closed", "invalidation_triggers": [],
    })
}

fn with(mut document: Json, name: &str, value: &str) -> Json {
    document[name] = value.into();
    document
}

#[test]
fn document_is_read_with_and_without_kind_and_schema() {
    let plain = AnyDocument::read(DocumentKind::FreshnessPolicy, policy()).expect("a valid policy");
    assert_eq!((plain.kind(), plain.document_id()), (DocumentKind::FreshnessPolicy, "un-wpp".to_owned()));
    let marked = with(with(policy(), "kind", "freshness_policy"), "$schema", "policy.json");
    assert_eq!(AnyDocument::read(DocumentKind::FreshnessPolicy, marked).expect("a valid policy"), plain);
    assert_eq!(plain.to_json(), policy());
}

#[test]
fn document_is_rejected_with_unknown_member_list_or_other_kind() {
    let read = |json: Json| AnyDocument::read(DocumentKind::FreshnessPolicy, json);
    assert!(read(with(policy(), "kinds", "freshness_policy")).is_err());
    assert!(read(json!(["un-wpp", {}, 60, "fail_closed", []])).is_err());
    assert!(AnyDocument::read(DocumentKind::Source, policy()).is_err());
}

#[test]
fn document_from_json_names_the_member_with_the_fault() {
    let read = |json: Json| AnyDocument::from_json(DocumentKind::FreshnessPolicy, json);
    assert_eq!(read(policy()).map(|document| document.to_json()), Ok(policy()));
    let fault = read(with(policy(), "default_max_age_seconds", "60")).expect_err("a text is no number");
    assert!(fault.starts_with("`default_max_age_seconds`: "), "{fault}");
}

#[test]
fn kind_is_found_by_its_name_or_by_its_distinguishing_member() {
    let hint = |json: Json| DocumentKindHint::deserialize(json).map(|DocumentKindHint(kind)| kind).ok();
    for kind in DocumentKind::VARIANTS {
        assert_eq!(hint(with(json!({}), kind.distinguishing_member(), "x")), Some(*kind));
        // the name decides
        assert_eq!(hint(with(json!({"pipeline": {}}), "kind", kind.into_str())), Some(*kind));
    }
    assert_eq!(hint(json!({"oracle_id": "un-wpp"})), None);
    assert_eq!(hint(json!({"kind": "sources"})), None);
    assert_eq!(hint(json!([])), None);
    let members: BTreeSet<_> =
        DocumentKind::VARIANTS.iter().map(|kind| kind.distinguishing_member()).collect();
    assert_eq!(members.len(), DocumentKind::VARIANTS.len());
}
