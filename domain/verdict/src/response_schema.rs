//! The JSON Schema of a verdict, for models that take one.

use crate::label::{ProductTier, VerdictDimension, VerdictLabel};
use serde_json::{Map, Value, json};

/// The JSON Schema of a verdict of `tier`. It has only the keywords that all providers support: every member is required,
/// and lengths are not limited.
#[must_use]
pub fn response_schema(tier: ProductTier) -> Value {
    let mut members = vec![("verdict", label()), ("summary", text())];
    if tier >= ProductTier::Full {
        let dimension = object([("verdict", label()), ("analysis", text())]);
        let dimensions = VerdictDimension::ALL.map(|name| (name.into(), dimension.clone()));
        members.push(("breakdown", object(dimensions)));
    }
    if tier >= ProductTier::Strategy {
        let tests = json!({"type": "array", "items": text()});
        members
            .push(("strategy", object([("next_step", text()), ("alternative", text()), ("tests", tests)])));
    }
    object(members)
}

fn label() -> Value {
    json!({"type": "string", "enum": VerdictLabel::ALL})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// An object that has exactly `members`.
fn object<'m>(members: impl IntoIterator<Item = (&'m str, Value)>) -> Value {
    let properties: Map<String, Value> =
        members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let required: Vec<_> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::judge;
    use domain_base::payload::VerdictPayload;

    /// A document that the schema allows.
    fn instance(schema: &Value) -> Value {
        if let Some(words) = schema.get("enum") {
            return words[0].clone();
        }
        match schema["type"].as_str() {
            Some("object") => {
                let members = schema["properties"].as_object().expect("an object has members");
                members.iter().map(|(name, schema)| (name.clone(), instance(schema))).collect()
            }
            Some("array") => json!([instance(&schema["items"]), instance(&schema["items"])]),
            _ => json!("A sound and simple plan."),
        }
    }

    #[test]
    fn document_of_the_schema_has_all_judged_members_and_no_others() {
        for tier in ProductTier::ALL {
            let verdict = instance(&response_schema(tier));
            let judgment = judge(tier, VerdictPayload::raw(&verdict.to_string()));
            assert!(judgment.decision.approved, "{tier:?}: {:?}", judgment.decision);
            assert_eq!(judgment.decision.flags, []);
        }
    }

    #[test]
    fn schema_requires_every_member_and_the_words_of_a_label() {
        let strategy = response_schema(ProductTier::Strategy);
        let is_valid = |verdict: &Value| jsonschema::is_valid(&strategy, verdict);
        let whole = instance(&strategy);
        assert!(is_valid(&whole));
        for pointer in ["", "/breakdown", "/breakdown/Curvature", "/strategy"] {
            let members = whole.pointer(pointer).and_then(Value::as_object).expect("an object");
            for name in members.keys() {
                let mut cut = whole.clone();
                let object = cut.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object");
                object.remove(name);
                assert!(!is_valid(&cut), "{pointer}/{name}");
            }
        }
        let mut other = whole;
        other["verdict"] = json!("PURPLE");
        assert!(!is_valid(&other));
    }
}
