use super::*;
use crate::crosscheck::judge;
use crate::delivery::VerdictDelivery;
use crate::mail::OutboxMail;
use crate::query::CustomerQuery;
use domain_base::payload::VerdictPayload;
use serde_json::{Value, json};
use std::sync::Arc;

fn template(mails: Value) -> MailTemplate {
    let document = json!({"template_id": "shop-en", "version": 1, "language": "en", "mails": mails});
    serde_json::from_value(document).expect("a template")
}

/// A template of verdict mails.
fn verdict_template(subject: &str, text: &str, html: &str) -> MailTemplate {
    template(json!({"verdict": {"subject": subject, "text": text, "html": html}}))
}

fn mail_about(query: &str, verdict: &str) -> OutboxMail {
    let delivery = VerdictDelivery {
        query: CustomerQuery::new(query.to_owned()),
        approved: judge(ProductTier::Quick, VerdictPayload::raw(verdict))
            .outcome
            .expect("an approved verdict"),
        ..(*sample_mail(MailKind::Verdict, ProductTier::Quick).delivery).clone()
    };
    let to = "a@example.org".to_owned().try_into().expect("an address");
    OutboxMail::queued(MailKind::Verdict, Arc::new(delivery), to)
}

fn rendered(template: &MailTemplate, mail: &OutboxMail) -> MailContent {
    template.render(mail, None).expect("it renders").expect("it has a text for the kind")
}

/// The fault of a template whose plain text is `text`.
fn fault(text: &str) -> String {
    template(json!({"verdict": {"subject": "s", "text": text}})).validate().expect_err("a fault").to_string()
}

#[test]
fn html_is_escaped_and_plain_text_is_not() {
    let text = "{{ query }} {{ verdict.summary }}";
    let template = verdict_template(text, text, "<p>{{ query }}</p><b title=\"{{ verdict.summary }}\">");
    let mail = mail_about(
        "<script>alert(1)</script>",
        r#"{"verdict":"GREEN","summary":"A \"sound\" & <i>simple</i> plan."}"#,
    );
    let content = rendered(&template, &mail);
    let plain = "<script>alert(1)</script> A \"sound\" & <i>simple</i> plan.";
    assert_eq!((content.subject.as_str(), content.text.as_str()), (plain, plain));
    let html = content.html.expect("it has HTML");
    assert_eq!(
        html,
        "<p>&lt;script&gt;alert(1)&lt;&#x2f;script&gt;</p>\
         <b title=\"A &quot;sound&quot; &amp; &lt;i&gt;simple&lt;&#x2f;i&gt; plan.\">"
    );
}

#[test]
fn value_that_is_no_text_is_escaped_in_html() {
    let template = verdict_template("s", "t", "{{ verdict }}{{ verdict|items }}");
    let mail = mail_about("<b>", r#"{"verdict":"GREEN","summary":"A sound and <simple> plan."}"#);
    let html = rendered(&template, &mail).html.expect("it has HTML");
    assert!(!html.contains(['<', '>', '"']), "{html}");
}

#[test]
fn members_of_the_verdict_keep_their_order() {
    let members = "{% for name, value in verdict|items %}{{ name }} {% endfor %}";
    let template = verdict_template("s", members, "h");
    let mail = mail_about("Honey?", r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#);
    assert_eq!(rendered(&template, &mail).text.trim(), "verdict summary");
}

#[test]
fn subject_is_one_short_line_without_control_characters() {
    let template = verdict_template("On:\n {{ query }}\n", "{{ query }}", "h");
    let mail = mail_about(
        "Honey?\r\nBcc: x@y.org\u{0}\u{85}\u{2028}\u{7f}!",
        r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#,
    );
    let content = rendered(&template, &mail);
    assert_eq!(content.subject, r"On: Honey? Bcc: x@y.org\u{0}\u{85}\u{2028}\u{7f}!");
    assert_eq!(content.text, "Honey?\nBcc: x@y.org\\u{0}\\u{85}\\u{2028}\\u{7f}!");
    let long = mail_about(&"é".repeat(5000), r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#);
    assert_eq!(rendered(&template, &long).subject.chars().count(), 255);
}

#[test]
fn template_with_unknown_variable_is_rejected_with_part_line_and_remedy() {
    let texts = [
        "Hello,\n{{ customer }}",
        // in a branch that no sample reaches
        "Hello,\n{% if verdict_label == 'RED' %}\n{{ customer }}{% endif %}",
        "{% if disclaimr %}x{% endif %}",
        "{{ verdict.breakdown.Stability.analysis }}",
        "{% include 'x' %}",
    ];
    insta::assert_snapshot!(texts.map(fault).join("\n"));
}

#[test]
fn template_with_broken_syntax_or_endless_loop_is_rejected() {
    let each = "{% for c in session_id %}";
    let many = each.repeat(7) + &"{% endfor %}".repeat(7);
    let long = each.repeat(3) + &"x".repeat(50_000) + &"{% endfor %}".repeat(3);
    let texts = ["a\nb\n{% if tier %}", "{{ query|shout }}", &many, &long, "{{ query // 2 }}"];
    insta::assert_snapshot!(texts.map(fault).join("\n"));
}

#[test]
fn deeply_nested_template_is_rejected() {
    for text in [
        "{% for c in query recursive %}{{ loop(query) }}{% endfor %}".to_owned(),
        format!("{{{{ {}1 }}}}", "-".repeat(60_000)),
        format!("{{% if {}tier %}}{{% endif %}}", "not ".repeat(14_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        "{% if tier %}".repeat(5000),
    ] {
        fault(&text);
    }
}

#[test]
fn template_that_could_build_large_values_is_rejected() {
    for (text, part) in [
        ("{{ query ~ query }}", "`~`"),
        ("{{ query * 9 }}", "`*`"),
        ("{{ query + query }}", "`+`"),
        ("{{ query[:2] }}", "`[`"),
        ("{{ {'a': query} }}", "`{`"),
        ("a\n{% set a = query %}", "line 2: the block `set`"),
        ("{%- with a = query -%}{% endwith %}", "`with`"),
        ("{% macro a() %}{% endmacro %}", "`macro`"),
        ("{% autoescape false %}{{ query }}{% endautoescape %}", "`autoescape`"),
        ("{{ query|replace('e', 'eeee') }}", "replace"),
        ("{{ query|indent(7000000000) }}", "indent"),
        ("{{ range(9) }}", "range"),
        ("{{ query|safe }}", "safe"),
    ] {
        let fault = fault(text);
        assert!(fault.contains(part), "{text}: {fault}");
    }
    let text = "{# ~ [ #}{% raw %}{{ a ~ b }}{% endraw %}{{ \"~*+[]{}}\" }}{{- query|upper -}}{% if tier == 'quick' %}~{% endif %}";
    let parts = json!({"subject": "s", "text": text});
    assert_eq!(template(json!({"verdict": parts})).validate(), Ok(()));
}

#[test]
fn template_needs_a_version_a_mail_and_parts_within_limits() {
    let valid = json!({"subject": "s", "text": "t"});
    assert_eq!(template(json!({"verdict": valid})).validate(), Ok(()));
    assert_eq!(template(json!({"divergence_notice": valid})).validate(), Ok(()));
    assert_eq!(template(json!({"recall_notice": valid})).validate(), Ok(()));
    let unknown = json!({"subject": "s", "text": "{{ statement.then }}"});
    assert!(matches!(
        template(json!({"recall_notice": unknown})).validate(),
        Err(MailTemplateError::Render { tier: ProductTier::Quick, .. })
    ));
    assert_eq!(template(json!({})).validate(), Err(MailTemplateError::NoMail));
    let first = MailTemplate { version: 0, ..template(json!({"verdict": valid})) };
    assert_eq!(first.validate(), Err(MailTemplateError::Version));
    for (part, bytes, max) in [("subject", 1025, 1024), ("text", 65_537, 65_536), ("html", 65_537, 65_536)] {
        for text in [" \n".to_owned(), "x".repeat(bytes)] {
            let mut parts = valid.clone();
            parts[part] = json!(text);
            let fault = MailTemplateError::Length {
                part: format!("mails.divergence_notice.{part}"),
                bytes: text.len(),
                max,
            };
            assert_eq!(template(json!({"divergence_notice": parts})).validate(), Err(fault));
        }
    }
}

#[test]
fn template_has_a_value_for_each_documented_variable() {
    let text = "{{ session_id }} {{ tier }} {{ kind }} {{ language }} {{ verdict_label }} {{ original_verdict }} \
                {{ cached_at }} {{ contact }}\n{% if disclaimer %}\n{{ disclaimer }}\n{% endif %}\n{{ query }}";
    let parts = json!({"subject": "s", "text": text});
    let template = template(json!({"verdict": parts, "divergence_notice": parts}));
    assert_eq!(template.validate(), Ok(()));
    let text = |kind| {
        let mail = sample_mail(kind, ProductTier::Strategy);
        let content = template.render(&mail, Some("help@example.org")).expect("it renders");
        content.expect("it has a text").text
    };
    assert_eq!(
        text(MailKind::Verdict),
        "sample strategy verdict en GREEN  2026-01-01T00:00:00Z help@example.org\nSell honey & jam?"
    );
    let notice = text(MailKind::DivergenceNotice);
    assert!(notice.starts_with("sample strategy divergence_notice en GREEN RED "), "{notice}");
    assert!(notice.contains("\nNOTE: "), "{notice}");
}

#[test]
fn recall_notice_has_the_statements_then_and_now() {
    let text = "{{ kind }} {{ verdict_label }} {{ result }}\n{% for s in statements %}\n\
                {{ s.source }}|{{ s.claim }}|{{ s.then }}|{% if s.now %}{{ s.now }}{% else %}withdrawn{% endif %}|{{ s.result }}\n\
                {% endfor %}";
    let template = template(json!({"recall_notice": {"subject": "s", "text": text}}));
    assert_eq!(template.validate(), Ok(()));
    let content = rendered(&template, &sample_mail(MailKind::RecallNotice, ProductTier::Quick));
    let lines = [
        "recall_notice GREEN now_contradicted",
        "office|Bees make honey.|Bees make honey|Bees make wax|now_contradicted",
        "office|||withdrawn|now_contradicted",
    ];
    assert_eq!(content.text.lines().collect::<Vec<_>>(), lines);
    // other mails have no statements
    let parts = json!({"subject": "s", "text": format!("{text}-")});
    let verdict = rendered(
        &self::template(json!({"verdict": parts})),
        &sample_mail(MailKind::Verdict, ProductTier::Quick),
    );
    assert_eq!(verdict.text, "verdict GREEN \n-");
}

#[test]
fn mail_of_a_kind_without_text_is_not_rendered() {
    let template = template(json!({"divergence_notice": {"subject": "s", "text": "t"}}));
    let mail = sample_mail(MailKind::Verdict, ProductTier::Quick);
    assert_eq!(template.render(&mail, None), Ok(None));
}

#[test]
fn template_is_selected_by_language_or_else_the_first() {
    let in_language = |tag: &str| MailTemplate {
        language: tag.to_owned().try_into().expect("a tag"),
        ..template(json!({"verdict": {"subject": "s", "text": "t"}}))
    };
    let templates = ["en", "de", "de-AT", "zh-Hant"].map(in_language);
    for (language, selected) in [
        (Some("en"), "en"),
        (Some("DE-at"), "de-AT"),
        (Some("de-CH-1901"), "de"),
        (Some("zh-Hant-TW"), "zh-Hant"),
        (Some("zh"), "en"),
        (Some("fr"), "en"),
        (None, "en"),
    ] {
        let language = language.map(|tag| tag.to_owned().try_into().expect("a tag"));
        let found = select_mail_template(&templates, language.as_ref()).expect("a template");
        assert_eq!(found.language.as_str(), selected, "{language:?}");
    }
    assert_eq!(select_mail_template(&[], None), None);
}
