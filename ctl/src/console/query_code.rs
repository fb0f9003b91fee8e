//! A query as code for a program: curl, Node and Python.

use maud::{Markup, html};
use oracled_domain::ground::query::OracleQuery;
use std::path::Path;

pub(super) fn render_code(socket: &Path, query: &OracleQuery) -> Markup {
    let forms = [("curl", curl(socket, query)), ("Node", node(query)), ("Python", python(query))];
    html! {
        section aria-labelledby="code" {
            h2 #code { "The same query in a program" }
            @for (name, code) in forms { h3 { (name) } pre tabindex="0" { (code) } }
        }
    }
}

/// The JSON of the query without members that have their defaults.
fn json(query: &OracleQuery) -> serde_json::Value {
    let mut document = serde_json::to_value(query).unwrap_or_default();
    if let Some(request) = document.get_mut("request").and_then(|request| request.as_object_mut()) {
        request
            .retain(|_, value| *value != serde_json::Value::Bool(false) && *value != serde_json::json!([]));
    }
    document
}

fn curl(socket: &Path, query: &OracleQuery) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    format!(
        "curl --unix-socket {} http://localhost/v1/query \\\n  -H 'Content-Type: application/json' -d {}",
        quoted(&socket.display().to_string()),
        quoted(&json(query).to_string())
    )
}

fn node(query: &OracleQuery) -> String {
    let request = serde_json::to_string_pretty(&json(query)).unwrap_or_default();
    format!(
        "import {{ OracledClient }} from \"oracled-client\";\n\nconst oracled = new OracledClient();\n\
         const answer = await oracled.querySource({request});\nconsole.log(answer.body.response.records);\noracled.close();"
    )
}

fn python(query: &OracleQuery) -> String {
    // a JSON text is also a Python literal, except for these words
    let mut request = String::new();
    write_python(&json(query), &mut request);
    format!(
        "from oracled import Client\n\nwith Client() as client:\n    answer = client.query_source({request})\n    \
         print(answer.body[\"response\"][\"records\"])"
    )
}

/// Writes a JSON value as a literal of Python.
fn write_python(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                write_python(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (number, (name, member)) in members.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                out.push_str(&format!("{}: ", Value::from(name.as_str())));
                write_python(member, out);
            }
            out.push('}');
        }
        // numbers; and strings, whose escapes Python reads alike
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn query_is_quoted_for_each_language() {
        let query: OracleQuery = serde_json::from_value(json!({
            "oracle_id": "people",
            "request": {"axes_requested": ["population"], "latest": true,
                "filters": [{"axis": "name", "operator": "eq", "value": "d'Or \"x\""}]},
        }))
        .expect("a valid query");
        let shell = curl(Path::new("/run/o'x"), &query);
        assert!(shell.contains(r"'/run/o'\''x'") && shell.contains(r#"d'\''Or \"x\""#), "{shell}");
        let code = python(&query);
        assert!(code.contains(r#""latest": True"#) && code.contains(r#""d'Or \"x\"""#), "{code}");
        assert!(node(&query).contains(r#""latest": true"#));
        assert!(!code.contains("include_provenance"), "defaults are left out: {code}");
    }
}
