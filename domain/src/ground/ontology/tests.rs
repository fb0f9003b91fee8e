use super::*;
use serde_json::{Value as Json, json};

fn ontology(axes: Json) -> Result<(), BadOntology> {
    let document = json!({ "ontology_id": "things", "version": "1", "axes": axes });
    serde_json::from_value::<Ontology>(document).unwrap().validate()
}

/// An axis with other members than a plain one.
fn axis(name: &str, kind: &str, more: Json) -> Json {
    let mut axis = json!({ "axis": name, "type": kind, "class": "measured", "description": "x" });
    axis.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    axis
}

fn id() -> Json {
    axis("id", "string", json!({ "identity": true }))
}

#[test]
fn each_fault_of_an_axis_is_told_with_its_name() {
    for (bad, words) in [
        (axis("Weight", "number", json!({})), "a path is"),
        (axis("*.weight", "number", json!({})), "a path is"),
        (axis("a.*.b.*", "number", json!({})), "a path is"),
        (axis("a..b", "number", json!({})), "a path is"),
        (axis(&"a".repeat(129), "number", json!({})), "at most 128 bytes"),
        (axis("a", "number", json!({ "identity": true })), "no number"),
        (axis("a.*", "string", json!({ "identity": true })), "no group"),
        (axis("a.*", "string", json!({ "indexed": true })), "not indexed"),
        (axis("a", "string", json!({ "unit": "g" })), "only numbers"),
        (axis("a", "date", json!({ "conservative": "lower" })), "only numbers"),
        (axis("a", "number", json!({ "unit": "stone" })), "stone"),
        (axis("a", "number", json!({ "unit": "G G" })), "G G"),
        (axis("a", "enum", json!({})), "names its `values`"),
        (axis("a", "string", json!({ "values": ["x"] })), "names its `values`"),
        (axis("a", "enum", json!({ "values": ["x", "x"] })), "different words"),
        (axis("a", "enum", json!({ "values": ["x", " "] })), "different words"),
        (axis("a", "number", json!({ "max_ttl_seconds": 0 })), "1 or more"),
        (axis("a", "number", json!({ "state_sensitive": true })), "needs `max_ttl_seconds`"),
        (axis("a", "number", json!({ "precision": 128 })), "`precision` is -64 to 127"),
        (id(), "there twice"),
    ] {
        let fault = ontology(json!([id(), bad])).unwrap_err().to_string();
        assert!(fault.starts_with("axis `") && fault.contains(words), "{fault}");
    }
    let overlap = json!([id(), axis("a.*.c", "string", json!({})), axis("a.b.c", "string", json!({}))]);
    assert!(ontology(overlap).unwrap_err().to_string().contains("could be meant by"));
}

#[test]
fn an_ontology_has_axes_of_which_one_identifies() {
    assert_eq!(ontology(json!([])), Err(BadOntology::Axes(0)));
    assert_eq!(ontology(json!([axis("a", "string", json!({}))])), Err(BadOntology::NoIdentity));
    let axes: Vec<_> = (0..256).map(|n| axis(&format!("a{n}"), "string", json!({}))).chain([id()]).collect();
    assert_eq!(ontology(json!(axes)), Err(BadOntology::Axes(257)));
    let version = |version: &str| {
        let document = json!({ "ontology_id": "things", "version": version, "axes": [id()] });
        serde_json::from_value::<Ontology>(document).unwrap().validate()
    };
    assert_eq!(version("2020-01"), Ok(()));
    for bad in ["", "a b", "ü", &"1".repeat(65)] {
        assert_eq!(version(bad), Err(BadOntology::Version), "{bad}");
    }
}

#[test]
fn a_group_has_one_axis_and_a_path_for_each_key() {
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
