//! The definitions that are shipped, applied to records of their sources.

use super::*;
use crate::source::SourceRegistration;

macro_rules! document {
    ($folder:literal, $name:literal) => {
        serde_json::from_str(include_str!(concat!(
            "../../../../../examples/ground-truth/",
            $folder,
            "/",
            $name,
            ".json"
        )))
        .unwrap()
    };
}

macro_rules! example {
    ($name:literal, $ontology:literal) => {
        ready(document!("pipelines", $name), document!("sources", $name), document!("ontologies", $ontology))
    };
}

fn ready(definition: PipelineDefinition, source: SourceRegistration, ontology: Ontology) -> RecordNormalizer {
    ontology.validate().unwrap();
    source.validate(&ontology).unwrap();
    assert_eq!(
        (&definition.pipeline.oracle_id, &source.ontology),
        (&source.oracle_id, &ontology.reference())
    );
    let json = serde_json::to_value(&definition).unwrap();
    assert_eq!(
        serde_json::from_value::<PipelineDefinition>(json).unwrap(),
        definition,
        "it is read as it is written"
    );
    RecordNormalizer::new(&definition, Arc::new(ontology), &source.axes_provided).unwrap()
}

/// A record of a table with this header.
fn row(header: &str, line: &str) -> SourceValue {
    let fields = line.split(',').map(|field| SourceValue::Text(field.to_owned()));
    SourceValue::Object(header.split(',').map(str::to_owned).zip(fields).collect())
}

/// The record's id, and its content in canonical JSON.
fn normalize_to_json(normalizer: &RecordNormalizer, raw: &SourceValue) -> (String, String) {
    let normalized = normalizer.normalize(raw).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(normalized.warnings, [], "{normalized:?}");
    let json = normalized.content.to_json();
    assert_eq!(json, serde_json_canonicalizer::to_vec(&normalized.content).unwrap(), "it is canonical");
    assert_eq!(normalized.content.identity(normalizer.ontology()), Some(normalized.identity));
    (normalized.source_record_id, String::from_utf8(json).unwrap())
}

#[test]
fn world_bank_row_is_normalized() {
    let normalizer = example!("world-bank-population", "population");
    let header = "Country Name,Country Code,Year,Value";
    assert_eq!(
        normalize_to_json(&normalizer, &row(header, " Aruba ,abw,1960,54608")),
        (
            "abw/1960".into(),
            r#"{"axes":{"area":"ABW","area_name":"Aruba","population":"54608","year":"1960"}}"#.into()
        )
    );
    assert_eq!(
        normalize_to_json(&normalizer, &row(header, "Serbia,SRB,2020,6.899126E6")).1,
        r#"{"axes":{"area":"SRB","area_name":"Serbia","population":"6899126","year":"2020"},"definitions":{"population":"without Kosovo"}}"#
    );
    let refused = |line: &str| {
        let rejection = normalizer.normalize(&row(header, line)).unwrap_err();
        (rejection.rule, rejection.place.unwrap())
    };
    assert_eq!(refused("Aruba,ABW,1960,"), (RecordRule::RequiredField, "Value".into()));
    assert_eq!(refused(" ,ABW,1960,1"), (RecordRule::Mapping, "area_name".into()));
    assert_eq!(refused("Aruba,ABW,1960,..."), (RecordRule::AxisType, "population".into()));
    assert_eq!(refused("Aruba,ABW,1960.5,1"), (RecordRule::AxisType, "year".into()));
    assert_eq!(refused("Aruba,AB,1960,1"), (RecordRule::Check, "area".into()));
    assert_eq!(refused("Aruba,ABW,1812,1"), (RecordRule::Check, "year".into()));
    assert_eq!(refused("Aruba,ABW,1960,-1"), (RecordRule::Check, "population".into()));
    let audit = |log_transformations| PipelineAudit {
        log_raw_input: true,
        log_transformations,
        provenance_chain: true,
    };
    let applied = ["world-bank-population-v1", "area_name:string_normalization", "area:string_normalization"];
    assert_eq!(normalizer.transformations(audit(true)), applied);
    assert!(normalizer.transformations(audit(false)).is_empty());
}

#[test]
fn united_nations_row_is_scaled_and_mapped_by_numeric_code() {
    let normalizer = example!("un-wpp-population", "population");
    let header = "country_code,name,year,population_thousands";
    assert_eq!(
        normalize_to_json(&normalizer, &row(header, "4,Afghanistan,1950,7752.117")),
        (
            "4/1950".into(),
            r#"{"axes":{"area":"AFG","area_name":"Afghanistan","population":"7752117","year":"1950"}}"#
                .into()
        )
    );
    assert_eq!(
        normalize_to_json(&normalizer, &row(header, "688,Serbia,2020,8737.370")).1,
        r#"{"axes":{"area":"SRB","area_name":"Serbia","population":"8737370","year":"2020"},"definitions":{"population":"with Kosovo"}}"#
    );
    let unknown = normalizer.normalize(&row(header, "9999,Nowhere,2020,1")).unwrap_err();
    assert_eq!((unknown.rule, unknown.place.as_deref()), (RecordRule::EnumMapping, Some("area")));
}

#[test]
fn country_matches_its_publishers_schema() {
    let normalizer = example!("iso-3166", "countries");
    let country = json!({
        "alpha_2": "AF", "alpha_3": "AFG", "flag": "\u{1f1e6}\u{1f1eb}", "name": "Afghanistan", "numeric": "004",
        "official_name": "Islamic Republic of Afghanistan",
    });
    assert_eq!(
        normalize_to_json(&normalizer, &raw(&country)),
        (
            "AFG".into(),
            r#"{"axes":{"alpha_2":"AF","alpha_3":"AFG","name":"Afghanistan","numeric":"004","official_name":"Islamic Republic of Afghanistan"}}"#.into()
        )
    );
    for (field, value, location) in [
        ("numeric", json!("4"), Some("/numeric")),
        ("numeric", json!(4), Some("/numeric")),
        ("flag", json!("AF"), Some("/flag")),
        ("name", json!(""), Some("/name")),
        ("capital", json!("Kabul"), None),
    ] {
        let mut other = country.clone();
        other[field] = value;
        let rejection = normalizer.normalize(&raw(&other)).unwrap_err();
        assert_eq!(
            (rejection.rule, rejection.place.as_deref()),
            (RecordRule::Schema, location),
            "{rejection:?}"
        );
    }
}

#[test]
fn currency_is_normalized() {
    let normalizer = example!("iso-4217", "currencies");
    let currency = |numeric: &str| raw(&json!({ "alpha_3": "AFN", "name": "Afghani", "numeric": numeric }));
    assert_eq!(
        normalize_to_json(&normalizer, &currency("971")),
        ("AFN".into(), r#"{"axes":{"alpha_3":"AFN","name":"Afghani","numeric":"971"}}"#.into())
    );
    assert_eq!(normalizer.normalize(&currency("0971")).unwrap_err().rule, RecordRule::Check);
}

#[test]
fn food_with_list_of_nutrients_is_normalized() {
    let normalizer = example!("usda-sr", "nutrition");
    let nutrient = |name: &str, unit: &str, amount: Json| json!({ "nutrient": { "name": name, "unitName": unit }, "amount": amount });
    let food = |nutrients: Json| {
        raw(&json!({
            "ndbNumber": 1001, "description": "Butter,  salted", "foodCategory": "Dairy and Egg Products",
            "foodNutrients": nutrients,
        }))
    };
    let butter = food(json!([
        nutrient("Water", "G", json!(15.87)),
        nutrient("Energy", "KCAL", json!(717.0)),
        nutrient("Sodium, Na", "MG", json!(643.0)),
        nutrient("Vitamin B-12", "UG", json!(0.17)),
        nutrient("Vitamin D", "IU", json!(0.0)),
        nutrient("Vitamin D (D2 + D3)", "IU", json!(100)),
    ]));
    let content = concat!(
        r#"{"axes":{"energy":"717","food_category":"Dairy and Egg Products","food_id":"1001","food_name":"Butter, salted","#,
        r#""food_scheme":"ndb","nutrients.sodium.amount":"0.643","nutrients.vitamin_b12.amount":"0.00000017","#,
        r#""nutrients.vitamin_d.amount":"0.0000025","nutrients.water.amount":"15.87"}}"#
    );
    assert_eq!(normalize_to_json(&normalizer, &butter), ("ndb/1001".into(), content.into()));
    let refused = |nutrient: Json| {
        let lacks_energy = nutrient["nutrient"]["name"] != "Energy";
        let energy =
            lacks_energy.then(|| json!({"nutrient": {"name": "Energy", "unitName": "KCAL"}, "amount": 1}));
        let nutrients: Vec<_> = energy.into_iter().chain([nutrient]).collect();
        let rejection = normalizer.normalize(&food(json!(nutrients))).unwrap_err();
        (rejection.rule, rejection.place.unwrap())
    };
    let (group, water) = ("$.foodNutrients[*].amount", "nutrients.water.amount");
    assert_eq!(refused(nutrient("Unobtainium", "G", json!(1))), (RecordRule::Mapping, group.into()));
    assert_eq!(refused(nutrient("Water", "IU", json!(1))), (RecordRule::UnitConversion, water.into()));
    assert_eq!(refused(nutrient("Water", "G", json!(101))), (RecordRule::Check, water.into()));
    assert_eq!(refused(nutrient("Energy", "KCAL", json!(1001))), (RecordRule::Check, "energy".into()));
}

#[test]
fn food_with_object_of_nutrients_is_normalized() {
    let normalizer = example!("cnf", "nutrition");
    let souffle = raw(&json!({
        "food_code": 2, "food_description": "Cheese souffle",
        "nutrients": {
            "Water": { "value": 67.17, "unit": "g" },
            "Energy": { "value": 854, "unit": "kJ" },
            "Calcium, Ca": { "value": 184.0, "unit": "mg" },
            "Vitamin D (International Units)": { "value": 79.0, "unit": "iu" },
            "Vitamin D (D2 + D3)": { "value": 2.0, "unit": "\u{b5}g" },
            "Alcohol": { "value": null, "unit": "g" },
        },
    }));
    // 854 kJ are 204.1108… kcal: the decimals do not end, and the definition does not round
    assert_eq!(normalizer.normalize(&souffle).unwrap_err().rule, RecordRule::UnitConversion);
    let json = souffle.to_value().to_string().replace("854", "418.4");
    let content = concat!(
        r#"{"axes":{"energy":"100","food_id":"2","food_name":"Cheese souffle","food_scheme":"cnf","#,
        r#""nutrients.calcium.amount":"0.184","nutrients.vitamin_d.amount":"0.000002","nutrients.water.amount":"67.17"}}"#
    );
    assert_eq!(
        normalize_to_json(&normalizer, &SourceValue::parse(json.as_bytes()).unwrap()),
        ("cnf/2".into(), content.into())
    );
}
