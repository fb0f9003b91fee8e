use super::*;
use crate::ontology::OntologyError;
use crate::value::AxisValue;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

fn ontology(templates: Json) -> Ontology {
    let axis =
        |axis: &str, kind: &str| json!({"axis": axis, "type": kind, "class": "measured", "description": "x"});
    let mut area = axis("area", "string");
    area["identity"] = json!(true);
    let mut mass = axis("mass", "number");
    mass["unit"] = json!("kg");
    let mut amount = axis("nutrients.*.amount", "number");
    amount["unit"] = json!("g");
    let axes = [
        area,
        axis("year", "integer"),
        mass,
        axis("on", "date"),
        axis("open", "boolean"),
        amount,
        axis("nutrients.*.method", "string"),
        axis("gases.*.share", "number"),
    ];
    let document =
        json!({"ontology_id": "things", "version": "1", "axes": axes, "fact_templates": templates});
    serde_json::from_value(document).unwrap()
}

fn with(template: &str) -> Ontology {
    ontology(json!([{"template_id": "it", "template": template}]))
}

fn record() -> (BTreeMap<String, AxisValue>, BTreeMap<String, String>) {
    let axes = json!({
        "area": "SRB", "year": "2015", "mass": "44250000.5", "on": "2020-01-31", "open": true,
        "nutrients.fat.amount": "0.5", "nutrients.vitamin_b-12.amount": "0.0000006",
        "nutrients.fat.method": "by weight", "gases.co2.share": "410",
    });
    let definitions = BTreeMap::from([
        ("mass".to_owned(), "without Kosovo".to_owned()),
        ("gases.co2.share".to_owned(), "dry".to_owned()),
    ]);
    (serde_json::from_value(axes).unwrap(), definitions)
}

fn facts(template: &str) -> Vec<String> {
    let ontology = with(template);
    assert_eq!(ontology.validate(), Ok(()), "{template}");
    let (axes, definitions) = record();
    let templates = ParsedFactTemplate::all(&ontology);
    assert_eq!(templates.len(), 1, "{template}");
    let rendered = templates[0].render(&axes, &definitions).unwrap();
    rendered.into_iter().map(|RenderedFact { text, .. }| text).collect()
}

#[test]
fn template_renders_exact_values() {
    let definition = "{mass:definition}";
    for (template, fact) in [
        ("{area} in {year}", "SRB in 2015"),
        ("on {on}: {open}", "on 2020-01-31: true"),
        ("{{{area}}} is {{}}", "{SRB} is {}"),
        ("{mass} {mass:unit}, {mass:definition}", "44250000.5 kg, without Kosovo"),
        ("{mass:grouped} {mass:definition}", "44,250,000.5 without Kosovo"),
        ("{year:grouped}", "2,015"),
        ("{nutrients.fat.amount} {nutrients.fat.amount:unit}", "0.5 g"),
        ("{mass:unit}", "kg"),
        (definition, "without Kosovo"),
    ] {
        assert_eq!(facts(template), [fact], "{template}");
    }
}

#[test]
fn template_rounds_half_up_and_never_to_zero() {
    for (form, fact) in [
        ("million:1", Some("44.3")),
        ("million:0", Some("44")),
        ("million:2", Some("44.25")),
        ("million:9", Some("44.2500005")),
        ("thousand:0:grouped", Some("44,250")),
        ("round:0:grouped", Some("44,250,001")),
        ("round:-5:grouped", Some("44,300,000")),
        ("billion:1", None),
    ] {
        let template = format!("{{mass:{form}}} {{mass:definition}}");
        let expected: Vec<_> = fact.map(|fact| format!("{fact} without Kosovo")).into_iter().collect();
        assert_eq!(facts(&template), expected, "{form}");
    }
    let of = |form: &str, number: &str| NumberFormat::read(form).unwrap().of(&number.parse().unwrap());
    for (form, number, text) in [
        ("million:1", "44250000", Some("44.3")),
        ("million:1", "44249999.999", Some("44.2")),
        ("million:1", "-44250000", Some("-44.3")),
        ("million:1", "44000000", Some("44")),
        ("million:1", "0", Some("0")),
        ("million:1", "49999", None),
        ("grouped", "-1234567.1234", Some("-1,234,567.1234")),
        ("grouped", "-123456", Some("-123,456")),
        ("grouped", "999", Some("999")),
        ("grouped", "0.0001234", Some("0.0001234")),
    ] {
        assert_eq!(of(form, number).as_deref(), text, "{form} of {number}");
    }
}

#[test]
fn group_template_gives_a_fact_for_each_complete_key() {
    assert_eq!(
        facts("{area} has {nutrients.*.amount} g {*:words}"),
        ["SRB has 0.5 g fat", "SRB has 0.0000006 g vitamin b 12"]
    );
    assert_eq!(facts("{*}: {nutrients.*.amount}, {nutrients.*.method}"), ["fat: 0.5, by weight"]);
    assert!(facts("{nutrients.water.amount}").is_empty());
}

#[test]
fn template_renders_defined_value_only_with_its_definition() {
    assert!(facts("{area} has {mass}").is_empty());
    assert!(facts("{area} has {mass:million:1} million").is_empty());
    assert!(facts("{*} is {gases.*.share}").is_empty());
    assert_eq!(facts("{*} {gases.*.share:definition} is {gases.*.share}"), ["co2 dry is 410"]);
    // a value without a definition does not match a template with one either
    assert!(facts("{nutrients.fat.amount} {nutrients.fat.amount:definition}").is_empty());
    assert!(facts("{year}, {mass:definition}, {nutrients.*.amount:definition}").is_empty());
}

#[test]
fn template_error_names_fault_and_allowed_form() {
    let long = format!("{{area}}{}", "x".repeat(TEMPLATE_MAX_BYTES));
    for (template, words) in [
        ("", "it has 0 bytes (1 to 512 allowed)"),
        (long.as_str(), "it has 518 bytes (1 to 512 allowed)"),
        ("nothing", "names no axis, so it would give the same fact"),
        ("{area", "a `{` is not closed"),
        ("{area}}", "a `}` has no `{`"),
        ("{areas}", "`{areas}` does not name an axis; the axes are: area, year"),
        ("{}", "`{}` does not name an axis"),
        ("{nutrients.*}", "does not name an axis"),
        ("{area:grouped}", "only a number can have this form, but the axis has type string"),
        ("{on:round:0}", "only a number can have this form, but the axis has type date"),
        ("{area:unit}", "the axis has no unit"),
        ("{mass:million}", "with `round:N`, `thousand:N`, `million:N`, `billion:N`"),
        ("{mass:million:x}", "rounding to N decimal places"),
        ("{mass:million:128}", "-64 to 127"),
        ("{mass:dozen:1}", "rounding to N decimal places"),
        ("{mass:million:1grouped}", "rounding to N decimal places"),
        ("{mass:}", "rounding to N decimal places"),
        ("{*} {area}", "names no path with `*`"),
        ("{*} {nutrients.fat.amount}", "names no path with `*`"),
        ("{*:upper} {nutrients.*.amount}", "`{*}` and `{*:words}`"),
        ("{nutrients.*.amount} {gases.*.share}", "belong to different groups"),
    ] {
        let fault = with(template).validate().unwrap_err().to_string();
        assert!(fault.starts_with("template `it`: ") && fault.contains(words), "{template}: {fault}");
    }
    let one = json!({"template_id": "it", "template": "{area}"});
    let twice = ontology(json!([one, one])).validate().unwrap_err();
    assert!(
        matches!(&twice, OntologyError::Template { template_id, fault } if template_id.to_string() == "it" && fault.contains("twice")),
        "{twice}"
    );
    let many: Vec<_> =
        (0..=TEMPLATES_MAX).map(|n| json!({"template_id": format!("t{n}"), "template": "{area}"})).collect();
    assert!(matches!(ontology(json!(many)).validate(), Err(OntologyError::Templates(65))));
}

#[test]
fn template_reports_fact_that_is_too_long() {
    let ontology = with("{area}{area}");
    let area = |bytes: usize| BTreeMap::from([("area".to_owned(), AxisValue::Text("x".repeat(bytes)))]);
    let rendered = |bytes| ParsedFactTemplate::all(&ontology)[0].render(&area(bytes), &BTreeMap::new());
    assert_eq!(rendered(FACT_MAX_BYTES / 2).unwrap().len(), 1);
    let fault = rendered(FACT_MAX_BYTES / 2 + 1).unwrap_err();
    assert_eq!((fault.template_id.to_string().as_str(), fault.bytes), ("it", 2050));
}

#[test]
fn template_needs_only_requested_axes_and_identities() {
    let is_renderable = |template: &str, axes: &[&str]| {
        let axes: Vec<_> = axes.iter().map(|axis| (*axis).to_owned()).collect();
        let ontology = with(template);
        ParsedFactTemplate::all(&ontology).iter().any(|template| template.is_renderable_from(&axes))
    };
    assert!(is_renderable("{area}", &["mass"]));
    assert!(is_renderable("{area} {mass}", &["mass"]));
    assert!(!is_renderable("{area} {mass} {year}", &["mass"]));
    assert!(is_renderable("{nutrients.*.amount}", &["nutrients.fat.amount"]));
    assert!(is_renderable("{nutrients.fat.amount}", &["nutrients.*.amount"]));
    assert!(is_renderable("{nutrients.fat.amount}", &["nutrients.fat.amount"]));
    assert!(!is_renderable("{nutrients.fat.amount}", &["nutrients.water.amount"]));
    assert!(!is_renderable("{nutrients.*.amount}", &["nutrients.*.method"]));
}

#[test]
fn ontology_without_templates_keeps_its_digest() {
    let document = json!({"ontology_id": "things", "version": "1", "axes": [
        {"axis": "area", "type": "string", "class": "measured", "identity": true, "description": "x"}]});
    let ontology: Ontology = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&ontology).unwrap(), document);
    assert_eq!(
        domain_base::digest::digest_of_json(&ontology),
        domain_base::digest::Sha256Hex::of(serde_json::to_string(&document).unwrap().as_bytes())
    );
    // templates do not change the meaning of records
    let mut with_templates = with("{area}");
    with_templates.axes = ontology.axes.clone();
    assert_eq!(with_templates.check_compatible_with(&ontology), Ok(()));
    assert_eq!(ontology.check_compatible_with(&with_templates), Ok(()));
}
