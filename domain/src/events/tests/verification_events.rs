use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::EventKind;
use domain_ground::source::OracleTier::{Primary, Secondary};
use domain_upstream::event::InteractionStatus;
use domain_verification::event::{
    AlteredEntryError, AnswerRemovalEntry, CachedAnswersRemoved, CommentEntry, DismissalEntry,
    ResolutionEntry, ReviewCommented, ReviewDismissed, ReviewEntry, ReviewOpened, ReviewResolved,
    ReviewRevoked, RevocationEntry, SourceAsked, SourceCallEntry, VerificationDecided, VerificationEntry,
};
use domain_verification::review::{ReviewResolution, Verifier};
use domain_verification::{CallTimeLimit, DecisionInputs, OracleReply, ReviewCase, decide};
use serde_json::json;
use support::{ago, answers, call, inputs, now, ontology, workflow};

#[path = "../../../verification/src/tests/support.rs"]
#[allow(dead_code, reason = "these tests use some of the builders")]
mod support;

/// Two primary oracles that disagree, one that did not answer, and one that was not queried.
fn disagreement() -> DecisionInputs {
    let workflow = workflow(&["dose"], &["lab-a", "lab-b", "lab-c", "lab-d"], json!({}));
    let mut inputs = inputs(workflow, &["dose"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
    answers(&mut inputs, "lab-b", Primary, &[("dose", "12")]);
    let mut silent = call(Secondary, &["dose"], OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    (silent.latency_ms, silent.ended_at) = (5000, None);
    inputs.calls.insert("lab-c".parse().expect("a valid id"), silent);
    let mut unasked =
        call(Secondary, &["dose"], OracleReply::NotAsked { cause: "it is not approved".into() });
    unasked.asked_at = None;
    inputs.calls.insert("lab-d".parse().expect("a valid id"), unasked);
    inputs
}

pub(super) fn all(peer: PeerCredentials) -> Vec<EventKind> {
    let timestamp = now();
    let inputs = disagreement();
    let envelope = decide(&inputs);
    let review = ReviewCase::of(&inputs, &envelope).expect("a reviewer decides");
    let resolution = ReviewResolution {
        values: [("dose".to_owned(), json!(11))].into(),
        definitions: [].into(),
        own_value: true,
        reason: "measured again".into(),
        valid_for_seconds: 3600,
        rule: None,
    };
    let verifier_name = Some("anna".to_owned());
    let reviewer = Verifier { id: "1000", name: verifier_name.as_deref() };
    let locks = review.resolve(ontology(), &resolution, reviewer, timestamp).expect("the value is valid");
    let interaction = SourceCallEntry::all(&inputs, &envelope).remove(0);
    let review_id = review.review_id.clone();
    kinds![
        SourceAsked(interaction),
        VerificationDecided(VerificationEntry::of(inputs, &envelope)),
        ReviewOpened(ReviewEntry { review_id: review_id.clone(), review: Box::new(review) }),
        ReviewResolved(ResolutionEntry {
            review_id: review_id.clone(),
            resolution,
            locks: locks.clone(),
            verifier_name: verifier_name.clone(),
            peer,
        }),
        ReviewRevoked(RevocationEntry {
            review_id: review_id.clone(),
            reason: "misread".into(),
            locks,
            verifier_name: verifier_name.clone(),
            peer,
        }),
        ReviewDismissed(DismissalEntry {
            review_id: review_id.clone(),
            reason: "they agree by now".into(),
            verifier_name: verifier_name.clone(),
            peer,
        }),
        ReviewCommented(CommentEntry {
            review_id,
            text: "the laboratory confirms it".into(),
            author_name: verifier_name,
            peer,
        }),
        CachedAnswersRemoved(AnswerRemovalEntry { count: 3 }),
    ]
}

#[test]
fn source_call_entry_has_the_field_names_of_the_rfc() {
    let inputs = disagreement();
    let entries = SourceCallEntry::all(&inputs, &decide(&inputs));
    let requests: Vec<_> = entries.iter().map(|entry| (entry.oracle_id.as_str(), entry.status)).collect();
    let expected = [
        ("lab-a", InteractionStatus::Conflict),
        ("lab-b", InteractionStatus::Conflict),
        ("lab-c", InteractionStatus::Timeout),
    ];
    assert_eq!(requests, expected);
    let entry = serde_json::to_value(&entries[2]).expect("the value serializes");
    assert_eq!(
        entry,
        json!({
            "execution_id": "verify:1", "oracle_id": "lab-c", "oracle_version": "unknown",
            "request_timestamp": ago(1), "response_timestamp": null, "latency_ms": 5000, "status": "timeout",
            "error_code": "timed_out", "cache_hit": false, "stale_data_used": false,
            "soft_timeout_exceeded": true, "workflow_id": "intake"
        })
    );
    assert_eq!(entries[0].oracle_version.reveal(), "7");
    assert_eq!(entries[0].response_hash, Some(Sha256Hex::of(b"lab-a")));
}

#[test]
fn envelope_is_rebuilt_from_its_entry_and_an_altered_entry_is_detected() {
    let inputs = disagreement();
    let envelope = decide(&inputs);
    let line =
        serde_json::to_string(&VerificationEntry::of(inputs, &envelope)).expect("the value serializes");
    let read = |line: &str| serde_json::from_str::<VerificationEntry>(line).expect("valid JSON");
    let entry = read(&line);
    assert_eq!(entry.read_envelope().expect("it is the same").to_json(), envelope.to_json());
    assert!(entry.is_reproduced());
    let (of_envelope, of_inputs) = line.split_once("\"inputs\":").expect("it has both");
    let changed = |text: &str| {
        let changed = text.replace("\"value\":\"12\"", "\"value\":\"13\"");
        assert_ne!(changed, text);
        changed
    };
    let other_inputs = read(&format!("{of_envelope}\"inputs\":{}", changed(of_inputs)));
    assert!(other_inputs.read_envelope().is_err() && !other_inputs.is_reproduced());
    let other_envelope = read(&format!("{}\"inputs\":{of_inputs}", changed(of_envelope)));
    assert!(other_envelope.read_envelope().is_err() && !other_envelope.is_reproduced());
    let other_digest = VerificationEntry { envelope_sha256: Sha256Hex::of(b"another"), ..entry };
    assert_eq!(other_digest.read_envelope(), Err(AlteredEntryError { execution_id: envelope.execution_id }));
}

#[test]
fn every_event_except_source_call_requires_its_entry() {
    let peer = PeerCredentials { uid: 1, gid: 2, pid: None };
    for kind in all(peer) {
        let name = kind.name();
        assert_eq!(kind.needs_commit(), name != "source_asked", "{name}");
    }
}
