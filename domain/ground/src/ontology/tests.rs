use super::*;
use crate::axis::{GROUP_KEY_MAX_BYTES, is_group_key};
use serde_json::{Value as Json, json};

fn ontology(axes: Json) -> Result<(), OntologyError> {
    let document = json!({ "ontology_id": "things", "version": "1", "axes": axes });
    serde_json::from_value::<Ontology>(document).unwrap().validate()
}

/// A measured axis of type `kind`, with the members `more`.
fn axis(name: &str, kind: &str, more: Json) -> Json {
    let mut axis = json!({ "axis": name, "type": kind, "class": "measured", "description": "x" });
    axis.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    axis
}

fn id() -> Json {
    axis("id", "string", json!({ "identity": true }))
}

#[test]
fn axis_error_names_axis_and_fault() {
    for (bad, words) in [
        (axis("Weight", "number", json!({})), "the path is invalid"),
        (axis("*.weight", "number", json!({})), "the path is invalid"),
        (axis("a.*.b.*", "number", json!({})), "the path is invalid"),
        (axis("a..b", "number", json!({})), "the path is invalid"),
        (axis(&"a".repeat(129), "number", json!({})), "at most 128 bytes"),
        (axis("a", "number", json!({ "identity": true })), "of type `number`"),
        (axis("a.*", "string", json!({ "identity": true })), "cannot be a group"),
        (axis("a.*", "string", json!({ "indexed": true })), "cannot be indexed"),
        (axis("a", "string", json!({ "unit": "g" })), "only numeric axes"),
        (axis("a", "date", json!({ "conservative": "lower" })), "only numeric axes"),
        (axis("a", "number", json!({ "unit": "stone" })), "stone"),
        (axis("a", "number", json!({ "unit": "G G" })), "G G"),
        (axis("a", "enum", json!({})), "`values` is required for an `enum`"),
        (axis("a", "string", json!({ "values": ["x"] })), "`values` is required for an `enum`"),
        (axis("a", "enum", json!({ "values": ["x", "x"] })), "must be distinct"),
        (axis("a", "enum", json!({ "values": ["x", " "] })), "must be distinct"),
        (axis("a", "number", json!({ "max_ttl_seconds": 0 })), "1 or more"),
        (axis("a", "number", json!({ "state_sensitive": true })), "requires `max_ttl_seconds`"),
        (axis("a", "number", json!({ "precision": 128 })), "(-64 to 127 allowed)"),
        (id(), "defined twice"),
    ] {
        let fault = ontology(json!([id(), bad])).unwrap_err().to_string();
        assert!(fault.starts_with("axis `") && fault.contains(words), "{fault}");
    }
    let overlap = json!([id(), axis("a.*.c", "string", json!({})), axis("a.b.c", "string", json!({}))]);
    let fault = ontology(overlap).unwrap_err();
    assert!(matches!(&fault, OntologyError::Axis { axis, .. } if axis == "a.*.c"), "{fault}");
    assert!(fault.to_string().contains("`a.b.c`"), "{fault}");
}

#[test]
fn ontology_requires_axes_and_an_identity() {
    assert_eq!(ontology(json!([])), Err(OntologyError::Axes(0)));
    assert_eq!(ontology(json!([axis("a", "string", json!({}))])), Err(OntologyError::NoIdentity));
    let axes: Vec<_> = (0..256).map(|n| axis(&format!("a{n}"), "string", json!({}))).chain([id()]).collect();
    assert_eq!(ontology(json!(axes)), Err(OntologyError::Axes(257)));
    let version = |version: &str| {
        let document = json!({ "ontology_id": "things", "version": version, "axes": [id()] });
        serde_json::from_value::<Ontology>(document).unwrap().validate()
    };
    assert_eq!(version("2020-01"), Ok(()));
    for bad in ["", "a b", "ü", &"1".repeat(65)] {
        assert_eq!(version(bad), Err(OntologyError::Version(bad.into())), "{bad}");
    }
}

#[test]
fn group_axis_has_a_path_for_each_key() {
    let group = axis("nutrients.*.amount", "number", json!({}));
    let document = json!({ "ontology_id": "things", "version": "1", "axes": [id(), group] });
    let ontology: Ontology = serde_json::from_value(document).unwrap();
    let group = &ontology.axes[1];
    assert_eq!(group.at_key("water"), "nutrients.water.amount");
    assert_eq!(ontology.axes[0].at_key("water"), "id");
    for (path, key) in [
        ("nutrients.water.amount", Some("water")),
        ("nutrients.b-12_X.amount", Some("b-12_X")),
        ("nutrients.a.b.amount", None),
        ("nutrients..amount", None),
        ("nutrients.*.amount", None),
        ("nutrients.amount", None),
        ("id", None),
    ] {
        assert_eq!(group.key_in(path), key, "{path}");
        assert_eq!(
            ontology.axis(path).map(|axis| axis.is_group()),
            match path {
                "id" => Some(false),
                "nutrients.*.amount" => Some(true),
                _ => key.map(|_| true),
            }
        );
    }
    assert!(
        is_group_key(&"k".repeat(GROUP_KEY_MAX_BYTES)) && !is_group_key(&"k".repeat(GROUP_KEY_MAX_BYTES + 1))
    );
}

#[test]
fn version_is_compatible_if_records_keep_their_meaning() {
    let read = |axes: &Json| {
        let document = json!({ "ontology_id": "things", "version": "1", "axes": axes });
        let ontology = serde_json::from_value::<Ontology>(document).unwrap();
        assert_eq!(ontology.validate(), Ok(()));
        ontology
    };
    let older = json!([
        id(),
        axis("year", "integer", json!({ "identity": true })),
        axis("name", "string", json!({ "indexed": true })),
        axis("weight", "number", json!({ "unit": "g", "precision": 1 })),
        axis("kind", "enum", json!({ "values": ["one", "two"] })),
    ]);
    let with = |change: &dyn Fn(&mut Vec<Json>)| {
        let mut axes = older.as_array().unwrap().clone();
        change(&mut axes);
        read(&json!(axes)).check_compatible_with(&read(&older)).map_err(|fault| fault.to_string())
    };
    let set = |index: usize, member: &str, value: Json| {
        let member = member.to_owned();
        with(&move |axes| axes[index][&member] = value.clone())
    };
    let plain = |name: &str| axis(name, "string", json!({}));
    for stored in [
        with(&|_| {}),
        with(&|axes| axes.push(plain("more"))),
        with(&|axes| axes.push(axis("more", "string", json!({ "indexed": true })))),
        set(4, "values", json!(["two", "three", "one"])),
        set(3, "precision", json!(2)),
        set(3, "max_ttl_seconds", json!(60)),
        set(3, "conservative", json!("lower")),
        set(3, "description", json!("y")),
    ] {
        assert_eq!(stored, Ok(()));
    }
    let identity = axis("more", "string", json!({ "identity": true }));
    for (refused, words) in [
        (set(3, "unit", json!("kg")), "axis `weight`: `unit` would change from g to kg"),
        (set(3, "unit", json!(null)), "axis `weight`: `unit` would change from g to none"),
        (set(1, "type", json!("string")), "axis `year`: `type` would change from integer to string"),
        (
            set(3, "class", json!("self_reported")),
            "axis `weight`: `class` would change from measured to self_reported",
        ),
        (set(1, "identity", json!(false)), "axis `year`: `identity` would change from true to false"),
        (set(4, "identity", json!(true)), "axis `kind`: `identity` would change from false to true"),
        (set(2, "indexed", json!(false)), "axis `name`: `indexed` would change from true to false"),
        (set(4, "indexed", json!(true)), "axis `kind`: `indexed` would change from false to true"),
        (set(4, "values", json!(["one", "three"])), "axis `kind`: `two` would be removed from `values`"),
        (with(&|axes| axes.swap(0, 1)), "axis `id`: its position would change from 0 to 1"),
        (with(&|axes| axes.insert(2, plain("more"))), "axis `name`: its position would change from 2 to 3"),
        (with(&|axes| drop(axes.pop())), "axis `kind`: it would be removed"),
        (with(&|axes| axes[3]["axis"] = json!("mass")), "axis `weight`: it would be removed"),
        (with(&|axes| axes.push(identity.clone())), "axis `more`: it would be a new identity axis"),
    ] {
        let fault = refused.unwrap_err();
        assert!(fault.starts_with(words), "{fault}");
    }
}
