use super::*;
use crate::gates::ReleaseGates;
use crate::record::RecordContent;
use crate::run::{GateBreach, RunCounts};
use crate::value::AxisValue;

fn ontology() -> Ontology {
    serde_json::from_value(serde_json::json!({
        "ontology_id": "food", "version": "1", "axes": [
            {"axis": "id", "type": "string", "class": "measured", "identity": true, "description": "the food"},
            {"axis": "energy", "type": "number", "class": "measured", "description": "energy"},
            {"axis": "name", "type": "string", "class": "measured", "description": "name"},
            {"axis": "nutrients.*.amount", "type": "number", "class": "measured", "description": "amounts"}
        ]
    }))
    .expect("a valid ontology")
}

type Values<'v> = &'v [(&'v str, String)];

fn row(values: Values<'_>, ontology: &Ontology) -> Vec<u8> {
    let axes = values.iter().map(|(path, value)| ((*path).to_owned(), AxisValue::Text(value.clone())));
    RecordContent { axes: axes.collect(), ..RecordContent::default() }
        .to_row(1, ontology)
        .expect("the values belong to the ontology")
}

/// The effects of records whose values change as given.
fn effects<'v>(
    records: impl IntoIterator<Item = (Vec<(&'v str, String)>, Vec<(&'v str, String)>)>,
) -> AxisEffects {
    let ontology = ontology();
    let mut gauge = AxisEffectGauge::new(&ontology);
    for (before, after) in records {
        let (before, after) = (row(&before, &ontology), row(&after, &ontology));
        let read = |bytes| ContentRow::read(bytes).expect("a row");
        gauge.compare(&read(&before), &read(&after));
    }
    gauge.into_effects()
}

/// The effects of records whose energy changes as given.
fn energy(changes: impl IntoIterator<Item = (String, String)>) -> AxisEffect {
    let records = changes.into_iter().map(|(old, new)| (vec![("energy", old)], vec![("energy", new)]));
    effects(records).axes.remove("energy").expect("the axis was filled")
}

fn breaches(effects: &AxisEffects) -> Vec<GateBreach> {
    ReleaseGates::default().breaches(&RunCounts::default(), effects, None)
}

fn common(changes: impl IntoIterator<Item = (String, String)>) -> Option<(CommonChangeKind, String, u64)> {
    energy(changes).common_change.map(|common| (common.of, common.value, common.numbers))
}

#[test]
fn gauge_counts_unfilled_and_changed_values_of_each_axis() {
    let text = |text: &str| text.to_owned();
    let found = effects([
        (vec![("energy", text("1")), ("name", text("a"))], vec![("energy", text("1"))]),
        (vec![("energy", text("0")), ("name", text("a"))], vec![("energy", text("2")), ("name", text("b"))]),
        (vec![("name", text("a"))], vec![("energy", text("2")), ("name", text("a"))]),
    ]);
    let counts = |axis: &str| {
        let effect = &found.axes[axis];
        (effect.filled, effect.unfilled, effect.changed, effect.numbers)
    };
    assert_eq!(counts("energy"), (2, 0, 1, 1), "zeros are not compared, and a new value changes none");
    assert_eq!(counts("name"), (3, 1, 2, 0));
    assert!(found.keys.is_empty());
}

#[test]
fn gauge_finds_the_common_factor_within_the_last_digits() {
    let numbers = || (0..40).map(|number| 13 + 7 * number);
    let changed = |change: &dyn Fn(i32) -> (String, String)| common(numbers().map(change));
    let factor = |value: &str| Some((CommonChangeKind::Factor, value.to_owned(), 40));
    assert_eq!(changed(&|n| (n.to_string(), (n * 1000).to_string())), factor("1000"));
    assert_eq!(changed(&|n| (format!("{n}.5"), format!("-{n}.5"))), factor("-1"));
    // published in thousands before, and in units now
    assert_eq!(changed(&|n| (n.to_string(), (n * 1000 + 17 * n % 400).to_string())), factor("1000"));
    // a conversion that is rounded to one place
    let joules = |n: i32| (n.to_string(), format!("{:.1}", f64::from(n) * 4.184));
    assert!(matches!(changed(&joules), Some((CommonChangeKind::Factor, _, 40))), "{:?}", changed(&joules));
    // exchange rates that are quoted the other way round
    let inverse = |n: i32| (n.to_string(), format!("{:.6}", 1.0 / f64::from(n)));
    assert_eq!(changed(&inverse), Some((CommonChangeKind::Product, "1".into(), 40)));
    assert_eq!(changed(&|n| (n.to_string(), n.to_string())), None);
    assert_eq!(changed(&|n| (n.to_string(), (n + 1).to_string())), None, "within the last digit");
    assert_eq!(changed(&|n| (n.to_string(), "0".into())), None);
    let unrelated = changed(&|n| (n.to_string(), (n + n * n % 83 + 9).to_string())).expect("some are alike");
    assert!(unrelated.2 <= 20, "{unrelated:?}");
}

#[test]
fn gates_hold_a_common_factor_only_of_twenty_and_more_than_half() {
    let held = |scaled: u32, others: u32| {
        let change = |n: u32| {
            ("energy", (1000 + n).to_string(), ((1000 + n) * if n < scaled { 10 } else { 1 }).to_string())
        };
        let records = (0..scaled + others).map(change);
        let records = records.map(|(axis, old, new)| (vec![(axis, old)], vec![(axis, new)]));
        breaches(&effects(records))
    };
    assert_eq!(held(19, 0), []);
    assert_eq!(held(20, 20), []);
    let expected = |numbers, compared| {
        [GateBreach::CommonFactor { axis: "energy".into(), factor: "10".into(), numbers, compared }]
    };
    assert_eq!(held(20, 0), expected(20, 20));
    assert_eq!(held(21, 20), expected(21, 41));
    // if there are more numbers, a sample of them is searched
    let [GateBreach::CommonFactor { factor, numbers, compared, .. }] = &held(30_000, 25_000)[..] else {
        panic!("the run is not held")
    };
    assert_eq!((factor.as_str(), *numbers, *compared), ("10", 30_000, 55_000));
    assert_eq!(held(25_000, 30_000), []);
}

#[test]
fn sample_of_changes_is_even_over_periodic_records() {
    // every fourth number is scaled by 10, each other one by its own factor
    let changes = (0..80_000_u64).map(|n| {
        let old = 100_000 + n;
        let new = if n % 4 == 0 { old * 10 } else { old * 11 + mixed(n) % old };
        (old.to_string(), new.to_string())
    });
    let (of, value, numbers) = common(changes).expect("a common factor");
    assert_eq!((of, value.as_str()), (CommonChangeKind::Factor, "10"));
    assert!((18_000..22_000).contains(&numbers), "{numbers}");
}

#[test]
fn gates_apply_to_each_key_of_a_group() {
    let text = |number: u32| number.to_string();
    let food = |n: u32, after: bool| {
        let mut values = vec![("nutrients.a.amount", text(n + 1))];
        // one of three nutrients is renamed, another one gets another unit
        values.push((if after { "nutrients.B.amount" } else { "nutrients.b.amount" }, text(n + 2)));
        values.push(("nutrients.b-2.amount", text((n + 3) * if after { 1000 } else { 1 })));
        values
    };
    let found = breaches(&effects((0..30).map(|n| (food(n, false), food(n, true)))));
    let ratio = "0.5".parse().expect("a number");
    let (axis, factor) = ("nutrients.b-2.amount".to_owned(), "1000".to_owned());
    assert_eq!(
        found,
        [
            GateBreach::CommonFactor { axis, factor, numbers: 30, compared: 30 },
            GateBreach::MaxUnfilledRatio {
                axis: "nutrients.b.amount".into(),
                unfilled: 30,
                filled: 30,
                allowed: ratio
            },
        ]
    );
    // values of keys that are too rare by themselves count for the group
    let rare = |n: u32, unit: u32| {
        vec![
            ("id", text(n)),
            (["nutrients.c.amount", "nutrients.d.amount"][(n % 2) as usize], text((n + 9) * unit)),
        ]
    };
    let found = breaches(&effects((0..30).map(|n| (rare(n, 1), rare(n, 1000)))));
    let axis = "nutrients.*.amount".to_owned();
    assert_eq!(found, [GateBreach::CommonFactor { axis, factor: "1000".into(), numbers: 30, compared: 30 }]);
}

#[test]
fn gates_of_an_axis_replace_its_default_limits() {
    let gates: ReleaseGates = serde_json::from_value(serde_json::json!({"axes": {
        "energy": {"max_unfilled_ratio": "0.05"}, "name": {"max_changed_values_ratio": "0.1"}
    }}))
    .expect("valid gates");
    let records = |n: u32| {
        let before = vec![("energy", (n * n + 1).to_string()), ("name", "a".to_owned())];
        let after = if n < 3 { vec![] } else { before.clone() };
        (before, after)
    };
    let effects = effects((0..20).map(records));
    assert_eq!(breaches(&effects), [], "the default allows half");
    let found = gates.breaches(&RunCounts::default(), &effects, None);
    let [
        GateBreach::MaxUnfilledRatio { unfilled: 3, filled: 20, .. },
        GateBreach::MaxChangedValuesRatio { changed: 3, compared: 20, .. },
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
}

#[test]
fn gates_of_an_axis_count_all_compared_records() {
    let gates: ReleaseGates =
        serde_json::from_value(serde_json::json!({"axes": {"energy": {"max_changed_values_ratio": "0.1"}}}))
            .expect("valid gates");
    // three of the records have a value
    let records = |count: u32, after: &'static str| {
        (0..count).map(move |n| {
            let value = |value: &str| vec![("energy", value.to_owned())];
            if n < 3 {
                (value("7"), if after.is_empty() { vec![] } else { value(after) })
            } else {
                (vec![], vec![])
            }
        })
    };
    let found = |count, after| gates.breaches(&RunCounts::default(), &effects(records(count, after)), None);
    assert_eq!(found(30, "8"), [], "3 of 30 records are the limit");
    let [GateBreach::MaxChangedValuesRatio { changed: 3, compared: 29, .. }] = &found(29, "8")[..] else {
        panic!("the limit is exceeded")
    };
    let [GateBreach::MaxUnfilledRatio { unfilled: 3, filled: 3, .. }] = &found(30, "")[..] else {
        panic!("all values are emptied")
    };
    assert_eq!(found(19, ""), [], "too few records are compared");
}

#[test]
fn common_change_has_the_fewest_digits() {
    for (least, most, text) in
        [(999.2, 1001.0, "1000"), (4.1839, 4.18405, "4.184"), (-1.01, -0.98, "-1"), (0.5, 0.5, "0.5")]
    {
        assert_eq!(shortest_within(least, most), text);
    }
}
