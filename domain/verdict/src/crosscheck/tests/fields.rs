use crate::crosscheck::*;

#[test]
fn strip_keeps_every_other_byte() {
    for (text, expected) in [
        (r#"{"verdict":1,"summary":2}"#, r#"{"verdict":1,"summary":2}"#),
        (r#"{ "x" : {"verdict":1} , "verdict" : 1 }"#, r#"{ "verdict" : 1 }"#),
        (r#"{"x":",","y":[","], "verdict":1}"#, r#"{ "verdict":1}"#),
        ("{\"verdict\":1\n,\"x\":2\t, \"summary\":3 ,\"y\":4 }", "{\"verdict\":1\t, \"summary\":3 }"),
        (r#"{"\u0076erdict":1.10,"verdict\u0000":2}"#, r#"{"\u0076erdict":1.10}"#),
        (r#"{"x":1}"#, "{}"),
        (r#"{ }"#, "{ }"),
        ("[1]", "[1]"),
    ] {
        assert_eq!(strip(VerdictLevel::Root(ProductTier::Quick), text), expected, "{text}");
    }
    let nested = r#"{"breakdown":{ "Mood":{}, "Curvature":{"x":1,"verdict":2}},"strategy":{}}"#;
    let expected = r#"{"breakdown":{ "Curvature":{"verdict":2}}}"#;
    assert_eq!(strip(VerdictLevel::Root(ProductTier::Full), nested), expected);
}
