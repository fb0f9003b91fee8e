//! Strategies for fuzz tests: requests that are nearly valid, and requests that are far from it.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const DIMENSIONS: [&str; 5] = ["Stability", "Turbulence", "Change Rate", "Completion", "Curvature"];

/// Any JSON value, up to 4 levels deep.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        label(),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(key(), inner, 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// A key that verdicts have, or any other key.
fn key() -> impl Strategy<Value = String> {
    let known = [
        "verdict",
        "summary",
        "breakdown",
        "analysis",
        "strategy",
        "next_step",
        "alternative",
        "tests",
        "Stability",
        "Turbulence",
        "Change Rate",
        "Completion",
        "Curvature",
    ];
    prop_oneof![3 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,8}"]
}

/// One of the four labels, or a similar text.
fn label() -> impl Strategy<Value = Value> {
    proptest::sample::select(vec!["GREEN", "AMBER", "RED", "NULL", "green", " RED", "PURPLE", ""])
        .prop_map(Value::from)
}

/// Text of up to 60 characters, sometimes blank or short.
fn prose() -> impl Strategy<Value = Value> {
    prop_oneof![3 => "[a-zäß漢 .]{10,60}", 1 => "[ \\t]{0,3}", 1 => ".{0,12}"].prop_map(Value::from)
}

/// A verdict of any tier. Each part is complete, missing, or replaced by another value.
pub fn verdict() -> impl Strategy<Value = Value> {
    let dimension = object(vec![("verdict", label().boxed()), ("analysis", prose().boxed())]);
    let dimensions = DIMENSIONS.into_iter().chain(["Mood"]);
    let breakdown = object(dimensions.map(|name| (name, dimension.clone().boxed())).collect());
    let strategy = object(vec![
        ("next_step", prose().boxed()),
        ("alternative", prose().boxed()),
        ("tests", vec(prop_oneof![prose(), value()], 0..4).prop_map(Value::from).boxed()),
    ]);
    object(vec![
        ("verdict", label().boxed()),
        ("summary", prose().boxed()),
        ("breakdown", breakdown.boxed()),
        ("strategy", strategy.boxed()),
    ])
}

/// A verdict that passes for every tier.
pub fn sound_verdict() -> impl Strategy<Value = Value> {
    let label = proptest::sample::select(vec!["GREEN", "AMBER", "RED", "NULL"]);
    (label, "[a-zäß漢 ]{1,60}").prop_map(|(label, text)| {
        let text = format!("It is said: {text}");
        let dimension = json!({"verdict": label, "analysis": text});
        let breakdown = DIMENSIONS.map(|name| (name.to_owned(), dimension.clone()));
        json!({
            "verdict": label, "summary": text, "breakdown": Map::from_iter(breakdown),
            "strategy": {"next_step": text, "alternative": text, "tests": [text, text]},
        })
    })
}

/// Possible output of a model: a verdict, a truncated or fenced verdict, or other text.
pub fn model_text() -> impl Strategy<Value = String> {
    let cut = (verdict(), any::<proptest::sample::Index>()).prop_map(|(verdict, at)| {
        let text = verdict.to_string();
        let chars = text.chars().count();
        text.chars().take(at.index(chars)).collect()
    });
    prop_oneof![
        2 => sound_verdict().prop_map(|verdict| verdict.to_string()),
        3 => verdict().prop_map(|verdict| verdict.to_string()),
        1 => verdict().prop_map(|verdict| format!("```json\n{verdict:#}\n```")),
        1 => cut,
        1 => value().prop_map(|value| value.to_string()),
        1 => any::<String>(),
    ]
}

/// Body of a submission, mostly valid. `with_session_id` adds a session id.
pub fn body(with_session_id: bool) -> impl Strategy<Value = Value> {
    let tier = || proptest::sample::select(vec!["quick", "full", "strategy"]).prop_map(Value::from);
    let query = || ".{0,40}".prop_map(Value::from);
    let payload = prop_oneof![
        3 => sound_verdict().prop_map(|verdict| ("verdict", verdict)),
        3 => verdict().prop_map(|verdict| ("verdict", verdict)),
        4 => model_text().prop_map(|text| ("raw", text.into())),
        1 => value().prop_map(|value| ("verdict", value)),
    ];
    let whole = (tier(), query(), payload).prop_map(move |(tier, query, (name, payload))| {
        let mut members = Map::from_iter([("tier".into(), tier), ("query".into(), query)]);
        members.insert(name.into(), payload);
        if with_session_id {
            members.insert("session_id".into(), json!("fuzz"));
        }
        Value::Object(members)
    });
    // removes one field and adds one
    let field = || {
        let names = ["session_id", "tier", "query", "verdict", "raw", "customer_email", "colour"];
        proptest::sample::select(names.to_vec())
    };
    let damaged = (whole.clone(), option::of(field()), option::of((field(), value())));
    let damaged = damaged.prop_map(|(mut body, out, put)| {
        if let (Value::Object(members), Some(name)) = (&mut body, out) {
            members.remove(name);
        }
        if let (Value::Object(members), Some((name, value))) = (&mut body, put) {
            members.insert(name.into(), value);
        }
        body
    });
    prop_oneof![3 => whole, 1 => damaged]
}

/// Bytes of a request body: JSON of the right shape, of another shape, truncated JSON, or other bytes.
pub fn bytes(with_session_id: bool) -> impl Strategy<Value = Vec<u8>> {
    let json = || body(with_session_id).prop_map(|body| body.to_string().into_bytes());
    let cut = (json(), any::<proptest::sample::Index>()).prop_map(|(mut bytes, at)| {
        bytes.truncate(at.index(bytes.len()));
        bytes
    });
    prop_oneof![
        8 => json(),
        1 => cut,
        1 => value().prop_map(|value| value.to_string().into_bytes()),
        1 => vec(any::<u8>(), 0..200),
    ]
}

/// An object with these members. Each member is mostly as given, sometimes missing or any value.
fn object(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> + Clone {
    let (names, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let values: Vec<_> = values
        .into_iter()
        .map(|value_| {
            prop_oneof![12 => value_.prop_map(Some), 1 => Just(None), 1 => value().prop_map(Some)].boxed()
        })
        .collect();
    values.prop_map(move |values| {
        let members = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::Object(members.collect())
    })
}
