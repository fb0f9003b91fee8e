use crate::ground::document_files::*;

const POLICY: &str = "oracle_id: un-wpp\naxis_freshness: {}\ndefault_max_age_seconds: 60\n\
                      default_stale_behavior: fail_closed\ninvalidation_triggers: []\n";

fn fault(text: &str) -> FilePartFault {
    match read(text) {
        Ok(document) => panic!("{document:?} is accepted"),
        Err(fault) => fault,
    }
}

#[test]
fn number_is_accepted_only_in_a_form_that_json_has() {
    for number in ["60", "0", "6e1", "60.0"] {
        let json = serde_json::from_str::<u64>(number).is_ok();
        assert_eq!(read(&POLICY.replace("60", number)).is_ok(), json, "{number}");
    }
    for number in ["1_0", "0x1F", "0o17", "0b11", "+60", "060", "\"60\"", "'60'", "|\n  60"] {
        assert!(read(&POLICY.replace("60", number)).is_err(), "{number}");
    }
    assert_eq!(fault(&POLICY.replace("60", "1_0")).position, Some((3, 26)));
    let quoted = fault(&POLICY.replace("60", "\"60\"")).detail;
    assert!(quoted.starts_with("`default_max_age_seconds`: ") && quoted.contains("\"60\""), "{quoted}");
}

#[test]
fn boolean_in_quotes_is_rejected() {
    let source = "oracle_id: people\noracle_name: n\nupstream_authority: a\nupstream_url: u\ndata_license: l\n\
                  domain: d\noracle_tier: primary\nontology: {ontology_id: people, version: \"1\"}\n\
                  axes_provided: [a]\nupdate_frequency: annual\nadapter_id: store\nsnapshot: true\n";
    assert!(read(source).is_ok());
    for quoted in ["\"true\"", "'false'", "yes"] {
        assert!(read(&source.replace("true", quoted)).is_err(), "{quoted}");
    }
}

#[test]
fn unknown_field_of_another_kind_suggests_a_separator() {
    let workflow = "workflow_id: census\ndomain: people\n";
    for text in [format!("{POLICY}{workflow}"), format!("{POLICY}kind: workflow\n{workflow}")] {
        let FilePartFault { detail, .. } = fault(&text);
        assert!(detail.contains("unknown field") && detail.ends_with(SEPARATE), "{detail}");
    }
    for text in [POLICY.replace("axis_freshness", "axis_fresh"), format!("kind: source\n{POLICY}")] {
        let FilePartFault { detail, .. } = fault(&text);
        assert!(detail.contains("unknown field") && !detail.contains(SEPARATE), "{detail}");
    }
}

#[test]
fn directive_of_another_version_is_rejected_at_its_line() {
    for directive in ["%YAML 1.1", "%TAG ! tag:example.org,2026:"] {
        let FilePartFault { position, detail } = fault(&format!("# a policy\n{directive}\n"));
        assert_eq!(position, Some((2, 1)), "{detail}");
        assert!(detail.contains(directive) && detail.contains(YAML_VERSION), "{detail}");
    }
}

#[test]
fn fault_in_a_member_has_the_position_of_the_member() {
    let triggers = "invalidation_triggers:\n  - trigger_type: time_based\n    config: {ttl_seconds: 1}\n  \
                    - &x\n    trigger_type: upstream_signal\n    config:\n      webhook: /v1/signals/x\n";
    let policy = POLICY.replace("invalidation_triggers: []\n", triggers);
    assert!(read(&policy).is_ok(), "{policy}");
    for (from, to, position) in [
        ("axis_freshness: {}", "axis_freshness: {a: {b: 1}}", (2, 22)),
        ("default_max_age_seconds: 60", "default_max_age_seconds: x", (3, 26)),
        ("ttl_seconds: 1", "ttl_seconds: x", (6, 5)),
        ("webhook: /v1", "webhok: /v1", (9, 5)),
        ("  - &x\n    trigger_type: upstream_signal", "  - 5\n  - trigger_type: upstream_signal", (8, 5)),
    ] {
        let FilePartFault { position: found, detail } = fault(&policy.replacen(from, to, 1));
        assert_eq!(found, Some(position), "{to}: {detail}");
    }
}
