use super::*;
use serde_json::json;
use std::collections::BTreeSet;

mod schemas;

fn policy() -> Json {
    json!({
        "oracle_id": "un-wpp", "axis_freshness": {}, "default_max_age_seconds": 60,
        "default_stale_behavior": "fail_closed", "invalidation_triggers": [],
    })
}

fn kind(name: &str) -> DocumentKind {
    DocumentKind::find(name).expect("a known kind")
}

fn with(mut document: Json, name: &str, value: &str) -> Json {
    document[name] = value.into();
    document
}

#[test]
fn document_is_read_with_and_without_kind_and_schema() {
    let plain = kind("freshness_policy").read(policy()).expect("a valid policy");
    assert_eq!((plain.document_type().name, plain.document_id()), ("freshness_policy", "un-wpp".to_owned()));
    let marked = with(with(policy(), "kind", "freshness_policy"), "$schema", "policy.json");
    assert_eq!(kind("freshness_policy").read(marked).expect("a valid policy"), plain);
    assert_eq!(plain.to_json(), policy());
}

#[test]
fn document_is_rejected_with_unknown_member_list_or_other_kind() {
    let read = |json: Json| kind("freshness_policy").read(json);
    assert!(read(with(policy(), "kinds", "freshness_policy")).is_err());
    assert!(read(json!(["un-wpp", {}, 60, "fail_closed", []])).is_err());
    assert!(kind("source").read(policy()).is_err());
}

#[test]
fn document_from_json_names_the_member_with_the_fault() {
    let read = |json: Json| kind("freshness_policy").read_json(json);
    assert_eq!(read(policy()).expect("a policy").to_json(), policy());
    let fault = read(with(policy(), "default_max_age_seconds", "60")).expect_err("a text is no number");
    assert_eq!(fault.path.to_string(), "default_max_age_seconds", "{fault}");
}

#[test]
fn kind_is_found_by_its_name_or_by_its_distinguishing_member() {
    let hint = |json: Json| DocumentKindHint::deserialize(json).map(|DocumentKindHint(kind)| kind).ok();
    for kind in DocumentKind::all() {
        assert_eq!(hint(with(json!({}), kind.distinguishing_member, "x")), Some(kind));
        // the name decides
        assert_eq!(hint(with(json!({"pipeline": {}}), "kind", kind.name)), Some(kind));
    }
    assert_eq!(hint(json!({"oracle_id": "un-wpp"})), None);
    assert_eq!(hint(json!({"kind": "sources"})), None);
    assert_eq!(hint(json!([])), None);
    let members: BTreeSet<_> = DocumentKind::all().map(|kind| kind.distinguishing_member).collect();
    assert_eq!(members.len(), DocumentKind::names().len());
}
