use super::*;
use serde_json::{Value as Json, json};

fn ontology() -> Ontology {
    let axis = |name: &str, identity: bool| json!({ "axis": name, "type": "string", "class": "measured", "identity": identity, "description": "x" });
    let axes = [axis("id", true), axis("name", false)];
    serde_json::from_value(json!({ "ontology_id": "things", "version": "1", "axes": axes })).unwrap()
}

fn registration(changes: Json) -> SourceRegistration {
    let mut document = json!({
        "oracle_id": "thing-source", "oracle_name": "Things", "oracle_tier": "primary", "upstream_authority": "Bureau",
        "upstream_url": "https://things.example/", "data_license": "CC0-1.0", "domain": "things",
        "ontology": { "ontology_id": "things", "version": "1" }, "axes_provided": ["id", "name"],
        "update_frequency": "annual", "adapter_id": "store", "query_contract": "things-v1", "snapshot": true,
    });
    document.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    serde_json::from_value(document).unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn entry() -> SourceRegistryEntry {
    SourceRegistryEntry::new(registration(json!({})), "root".into(), time("2020-01-01T00:00:00Z"))
}

fn version(version: &str, released_at: &str) -> VersionRecord {
    VersionRecord {
        version: version.into(),
        released_at: time(released_at),
        ingested_at: time("2024-01-01T00:00:00Z"),
        record_count: Some(1),
        checksum: Sha256Hex::of(version.as_bytes()),
    }
}

#[test]
fn registration_error_names_fault() {
    assert_eq!(registration(json!({})).validate(&ontology()), Ok(()));
    for (change, words) in [
        (json!({ "oracle_name": " " }), "`oracle_name` is empty or too long (1 to 1024 bytes allowed)"),
        (json!({ "geographic_scope": "" }), "`geographic_scope`"),
        (json!({ "data_license": "x".repeat(1025) }), "`data_license`"),
        (json!({ "oracle_id": "human-lock" }), "`human-lock` is reserved for reviewers' decisions"),
        (json!({ "oracle_id": "human-confirmation" }), "is reserved for reviewers' decisions"),
        (json!({ "axes_provided": [] }), "`axes_provided` is empty"),
        (
            json!({ "axes_provided": ["id", "weight"] }),
            "`weight` is not an axis of things 1; its axes are: id, name",
        ),
        (json!({ "axes_provided": ["name"] }), "does not name the identity axis `id`"),
        (json!({ "axes_provided": ["id", "name", "id"] }), "`id` twice"),
        (json!({ "ontology": { "ontology_id": "things", "version": "2" } }), "things@2"),
    ] {
        let fault = registration(change).validate(&ontology()).unwrap_err().to_string();
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn source_answers_from_approval_to_deprecation_date() {
    let now = time("2024-01-01T00:00:00Z");
    let pending = entry();
    let SourceAvailability::Silent(unapproved) = pending.availability(now) else { panic!("{pending:?}") };
    assert!(matches!(
        pending.deprecate(Timestamp::MAX, now),
        Err(SourceRegistrationError::Transition { .. })
    ));
    let approved = pending.approve();
    assert_eq!(approved.availability(now), SourceAvailability::Answers);
    assert_eq!(approved.approve(), approved);

    let (date, just_before) = (time("2024-03-31T00:00:00Z"), time("2024-03-30T23:59:59Z"));
    let too_soon = approved.deprecate(just_before, now);
    assert_eq!(too_soon, Err(SourceRegistrationError::TooSoon { date: just_before, earliest: date }));
    let deprecated = approved.deprecate(date, now).unwrap();
    assert!(
        matches!(deprecated.availability(now), SourceAvailability::AnswersWithWarning(words) if words.contains("2024-03-31"))
    );
    assert!(matches!(deprecated.availability(just_before), SourceAvailability::AnswersWithWarning(_)));
    let SourceAvailability::Silent(passed) = deprecated.availability(date) else { panic!("{deprecated:?}") };
    let later = deprecated.deprecate(time("2024-06-29T00:00:00Z"), just_before).unwrap();
    assert!(
        matches!(later.availability(date), SourceAvailability::AnswersWithWarning(_)),
        "it may be put off until it has passed"
    );
    let fault = deprecated.deprecate(Timestamp::MAX, date).unwrap_err();
    assert!(matches!(fault, SourceRegistrationError::Transition { .. }), "{fault}");
    insta::assert_snapshot!([unapproved, passed, fault.to_string()].join("\n"));
    let again = deprecated.approve();
    assert_eq!((again.availability(date), again.deprecation_date), (SourceAvailability::Answers, None));
}

#[test]
fn source_with_records_keeps_fields_they_depend_on() {
    let others = json!({ "ontology": { "ontology_id": "others", "version": "1" } });
    let newer =
        json!({ "ontology": { "ontology_id": "things", "version": "2" }, "oracle_tier": "secondary" });
    let partial = json!({ "snapshot": false });
    let empty = entry().approve();
    let amended = |entry: &SourceRegistryEntry, change: &Json| {
        entry.amend(registration(change.clone()), &ontology(), &ontology(), false)
    };
    for change in [&others, &newer, &partial] {
        assert!(amended(&empty, change).is_ok());
    }
    let filled = empty.with_versions(vec![version("1", "2020-01-01T00:00:00Z")]);
    for (change, field) in [(others, "ontology_id"), (partial, "snapshot")] {
        let fault = amended(&filled, &change).unwrap_err();
        assert!(
            matches!(fault, SourceRegistrationError::Fixed { field: fixed, .. } if fixed == field),
            "{fault}"
        );
    }
    let other_id = json!({ "oracle_id": "other-source" });
    let fault = amended(&filled, &other_id).unwrap_err();
    assert!(
        matches!(fault, SourceRegistrationError::Fixed { field: "oracle_id", .. }),
        "an id is never changed"
    );
    assert!(amended(&entry(), &other_id).is_err(), "not before, either");
    let fault = amended(&entry(), &json!({ "adapter_id": "http" })).unwrap_err();
    let (before, after) = ("store".to_owned(), "http".to_owned());
    assert_eq!(fault, SourceRegistrationError::Fixed { field: "adapter_id", before, after });
    let amended = amended(&filled, &newer).unwrap();
    assert_eq!(amended.registration.oracle_tier, OracleTier::Secondary);
    assert_eq!((amended.review_status, amended.version_history.len()), (SourceReviewStatus::Approved, 1));
}

#[test]
fn registration_needs_no_query_contract() {
    let contract = |contract: Option<&str>| {
        let contract = contract.map(str::to_owned);
        SourceRegistration { query_contract: contract, ..registration(json!({})) }.validate(&ontology())
    };
    assert_eq!(contract(None), Ok(()));
    assert_eq!(contract(Some(" ")), Err(SourceRegistrationError::Text { field: "query_contract" }));
}

#[test]
fn source_with_records_rejects_incompatible_ontology() {
    let mut other = ontology();
    other.axes[1].axis = "title".into();
    let newer = registration(json!({ "ontology": { "ontology_id": "things", "version": "2" } }));
    assert!(entry().amend(newer.clone(), &ontology(), &other, false).is_ok(), "there are none");
    let read = entry().amend(newer.clone(), &ontology(), &other, true).unwrap_err();
    assert!(matches!(read, SourceRegistrationError::Ontology { .. }), "there will be some");
    let filled = entry().with_versions(vec![version("1", "2020-01-01T00:00:00Z")]);
    let fault = filled.amend(newer.clone(), &ontology(), &other, false).unwrap_err().to_string();
    for words in ["from things@1 to things@2", "axis `name`: it would be removed", "Register another source"]
    {
        assert!(fault.contains(words), "{fault}");
    }
    let mut more = ontology();
    more.axes.push(
        serde_json::from_value(
            json!({ "axis": "size", "type": "number", "class": "measured", "description": "x" }),
        )
        .unwrap(),
    );
    assert!(filled.amend(newer, &ontology(), &more, false).is_ok());
}

#[test]
fn current_version_is_newest_release_in_any_order() {
    let entry = entry().with_versions(vec![
        version("2023", "2023-05-04T00:00:00Z"),
        version("2017", "2017-10-26T00:00:00Z"),
        version("2020", "2020-04-14T00:00:00Z"),
    ]);
    let versions: Vec<_> = entry.version_history.iter().map(|known| known.version.as_str()).collect();
    assert_eq!((versions.as_slice(), &*entry.current_version), (&["2017", "2020", "2023"][..], "2023"));
}

#[test]
fn tiers_are_ordered_and_lowest_tier_stays() {
    let tiers = [OracleTier::Unverified, OracleTier::CrossDomain, OracleTier::Secondary, OracleTier::Primary];
    assert!(tiers.is_sorted());
    let lower: Vec<_> = tiers.iter().map(|tier| tier.lower()).collect();
    assert_eq!(lower, [tiers[0], tiers[0], tiers[1], tiers[2]]);
}

#[test]
fn source_entry_round_trips_with_names_of_the_seed() {
    let entry = entry().with_versions(vec![version("1", "2020-01-01T00:00:00Z")]);
    let json = serde_json::to_value(&entry).unwrap();
    for name in
        ["oracle_id", "oracle_tier", "axes_provided", "current_version", "version_history", "review_status"]
    {
        assert!(json.get(name).is_some(), "{name}");
    }
    assert_eq!(serde_json::from_value::<SourceRegistryEntry>(json).unwrap(), entry);
    let unknown =
        serde_json::from_value::<SourceRegistration>(json!({ "oracle_id": "ab", "registered_by": "me" }));
    assert!(unknown.unwrap_err().to_string().contains("registered_by"), "that is the daemon's to fill");
}

#[test]
fn update_frequencies_have_the_names_of_the_seed() {
    let words = r#"["realtime","daily","weekly","monthly","quarterly","annual","static","on_demand"]"#;
    assert_eq!(serde_json::to_string(&UpdateFrequency::VARIANTS).expect("the value serializes"), words);
    let read: Vec<UpdateFrequency> = serde_json::from_str(words).expect("valid JSON");
    assert_eq!(read, UpdateFrequency::VARIANTS);
    serde_json::from_str::<UpdateFrequency>(r#""hourly""#).expect_err("an unknown frequency");
}
