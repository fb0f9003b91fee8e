use super::*;
use crate::crosscheck::judge;
use crate::label::ProductTier;
use crate::query::CustomerQuery;
use domain_base::payload::VerdictPayload;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
}

fn mail(kind: MailKind) -> OutboxMail {
    let verdict = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;
    let delivery = VerdictDelivery {
        session_id: "cs_1".parse().expect("a valid id"),
        query: CustomerQuery::new("Sell honey?".into()),
        approved: judge(ProductTier::Quick, VerdictPayload::raw(verdict))
            .outcome
            .expect("the verdict passes the crosscheck"),
        cached_at: at(0),
        regen: None,
        evaluation_sha256: None,
    };
    OutboxMail::queued(kind, Arc::new(delivery), "a@b".to_owned().try_into().expect("an address"))
}

fn failure() -> MailSendFailure {
    MailSendFailure {
        kind: RequestFailureKind::Status(502),
        cause: "status 502".into(),
        fault: MailFailureCause::Service,
        retry_after: None,
    }
}

#[test]
fn idempotency_key_is_unique_by_verdict_and_divergence() {
    assert_eq!(mail(MailKind::Verdict).state.mail_id.as_str(), "verdict:cs_1");
    let notice = mail(MailKind::DivergenceNotice).state.mail_id;
    assert_eq!(notice.as_str(), "divergence:cs_1:1800000000000000");
    assert_eq!(notice.to_string().parse(), Ok(notice));
    for bad in ["", "a b", "é", "a\n", &"x".repeat(385)] {
        assert!(bad.parse::<MailId>().is_err(), "{bad:?}");
    }
}

#[test]
fn regen_gap_04_notice_is_retried_after_60_s_and_then_dead() {
    let queued = mail(MailKind::DivergenceNotice).state;
    assert_eq!(queued.tries.next_attempt_at, Some(at(0)));
    let once = queued.record_failure(&failure(), at(3), DAY);
    assert_eq!((once.tries.attempts, once.tries.next_attempt_at), (1, Some(at(63))));
    for asked_s in [0, 3, 600] {
        let busy = MailSendFailure { retry_after: Some(SignedDuration::from_secs(asked_s)), ..failure() };
        assert_eq!(queued.record_failure(&busy, at(3), DAY), once, "whatever the mail service asks for");
    }
    let twice = once.record_failure(&failure(), at(63), DAY);
    assert_eq!((twice.tries.attempts, twice.tries.next_attempt_at), (2, None));
    assert!(twice.tries.is_dead());
    assert_eq!(twice.tries.last_error, Some("status 502".into()));
}

#[test]
fn notice_that_waited_longer_than_max_age_is_dead() {
    let after_a_day = at(DAY.as_secs() + 1);
    for kind in [MailKind::DivergenceNotice, MailKind::RecallNotice] {
        let queued = mail(kind).state;
        assert_eq!(queued.expire(at(DAY.as_secs()), DAY), None);
        let expired = queued.expire(after_a_day, DAY).expect("it is too old");
        assert!(expired.tries.is_dead() && expired.tries.attempts == 0, "{expired:?}");
        assert_eq!(expired.expire(after_a_day, DAY), None);
        let requeued = MailState { tries: expired.tries.requeued(after_a_day), ..expired.clone() };
        assert_eq!(requeued.expire(after_a_day, DAY), None, "its age counts from then on");
    }
    assert_eq!(mail(MailKind::Verdict).state.expire(after_a_day, DAY), None);
}

#[test]
fn verdict_mail_is_retried_with_growing_pauses_until_max_age() {
    let mut state = mail(MailKind::Verdict).state;
    let (mut now, mut pauses) = (at(0), Vec::new());
    while let Some(next) = state.record_failure(&failure(), now, DAY).tries.next_attempt_at {
        pauses.push(next.duration_since(now).as_secs());
        state = state.record_failure(&failure(), now, DAY);
        now = next;
    }
    assert_eq!(pauses.get(..11), Some(&[2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900][..]));
    let age = now.duration_since(at(0));
    assert!(age <= DAY && age > DAY - SignedDuration::from_mins(15), "{age:?}");
}

#[test]
fn unsendable_mail_is_dead_at_once_and_retry_after_is_respected() {
    let queued = mail(MailKind::Verdict).state;
    assert!(
        queued
            .record_failure(
                &MailSendFailure { fault: MailFailureCause::MailForGood, ..failure() },
                at(1),
                DAY
            )
            .tries
            .is_dead()
    );
    let delayed_failure = MailSendFailure { retry_after: Some(SignedDuration::from_secs(300)), ..failure() };
    assert_eq!(queued.record_failure(&delayed_failure, at(1), DAY).tries.next_attempt_at, Some(at(301)));
    let delayed_failure = MailSendFailure { retry_after: Some(SignedDuration::MAX), ..failure() };
    assert_eq!(
        queued.record_failure(&delayed_failure, at(1), DAY).tries.next_attempt_at,
        Some(at(3601)),
        "but no more than an hour"
    );
}

#[test]
fn mail_due_beyond_longest_wait_is_due_now() {
    let queued = mail(MailKind::Verdict).state;
    let queued_later =
        MessageAttempts { next_attempt_at: Some(at(50)), tried_at: Some(at(10)), ..queued.tries.clone() };
    assert_eq!(queued_later.due_at(at(20)), Some(at(50)));
    assert_eq!(queued_later.due_at(at(5)), Some(at(5)), "the clock was set back since the last attempt");
    let tries = |next_attempt_at| MessageAttempts { next_attempt_at, ..queued.tries.clone() };
    let due = |next: i64| tries(Some(at(next))).due_at(at(0));
    for next in [-1_000_000, 0, 1, 3600] {
        assert_eq!(due(next), Some(at(next)));
    }
    for next in [3601, 1_000_000_000] {
        assert_eq!(due(next), Some(at(0)));
    }
    assert_eq!(tries(None).due_at(at(0)), None, "a dead letter is never due");
}

#[test]
fn mail_failure_hides_the_address_in_every_form() {
    let hidden = |address: &str, cause: &str| {
        let address = address.to_owned().try_into().expect("an address");
        MailSendFailure { cause: cause.into(), ..failure() }.hide_address(&address)
    };
    for (cause, shown) in [
        ("451 4.7.1 <jo.e+1@b.org>: Greylisted", "451 4.7.1 <[address]>: Greylisted"),
        ("Jo.E+1@B.ORG is not jo.e+1@b.org", "[address] is not [address]"),
        ("to=jo.e%2B1%40b.org&x=1", "to=[address]&x=1"),
        ("%3c%4ao.e%2b1%40b%2Eorg%3e", "%3c[address]%3e"),
        ("cut: jo.e+1@b.or", "cut: [address]"),
        ("cut: jo.", "cut: [address]"),
        ("cut: jo.e%2B1%4", "cut: [address]"),
        ("no: jo", "no: jo"),
        ("jo.e+1@c.org", "[text with the address]"),
        ("\u{e9}%", "\u{e9}%"),
        ("", ""),
    ] {
        assert_eq!(hidden("jo.e+1@b.org", cause).cause.reveal(), shown, "{cause}");
    }
    for (cause, shown) in [("550 \u{c9}%25@X.y", "550 [address]"), ("%C3%A9%2525%40x.y", "[address]")] {
        assert_eq!(hidden("\u{e9}%25@x.y", cause).cause.reveal(), shown, "{cause}");
    }
    let delayed_failure =
        MailSendFailure { retry_after: Some(DAY), fault: MailFailureCause::MailForGood, ..failure() };
    let address = "a@b".to_owned().try_into().expect("an address");
    assert_eq!(delayed_failure.clone().hide_address(&address), delayed_failure, "nothing else changes");
}

#[test]
fn requeued_mail_starts_with_zero_attempts() {
    let queued = mail(MailKind::DivergenceNotice).state;
    let dead = queued.record_failure(&failure(), at(0), DAY).record_failure(&failure(), at(60), DAY);
    let again = dead.tries.requeued(at(500));
    assert_eq!((again.attempts, again.next_attempt_at, again.is_dead()), (0, Some(at(500)), false));
    assert_eq!(again.queued_at, queued.tries.queued_at);
}

#[test]
fn mail_reads_back_with_verdict_judged_again() {
    let text = serde_json::to_string(&mail(MailKind::Verdict)).expect("the value serializes");
    let back: OutboxMail = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(serde_json::to_string(&back).expect("the value serializes"), text);
    assert!(serde_json::from_str::<OutboxMail>(&text.replace("GREEN", "PURPLE")).is_err());
}

#[test]
fn rejection_with_disguised_address_keeps_only_its_codes() {
    let address = "Customer.One@example.org";
    for form in [
        "customer.one at example.org",
        "customer.one (at) example.org",
        "customer.one @ example.org",
        "user customer.one is unknown",
        "customer\u{200b}.one\u{ff20}example.org",
        "customer.one&#64;example.org",
        "&#99;ustomer.one&#x40;example.org",
        r"\u0063ustomer.one\u0040example.org",
        r"\x63ustomer.one\x40example.org",
        "=63ustomer.one=40example.org",
        "%2563ustomer.one%2540example.org",
        "Q3VzdG9tZXIuT25lQGV4YW1wbGUub3Jn",
        "to=Y3VzdG9tZXIub25lQGV4YW1wbGUub3Jn&x",
        "customer .one@example.org",
        "customer_one=example.org@relay",
    ] {
        let cause = format!("status 550 5.1.1: <{form}>: no such mailbox");
        let fault = MailFailureCause::MailForGood;
        let failure = MailSendFailure { cause: UpstreamText::new(cause), fault, ..failure() };
        let hidden = failure.hide_address(&address.to_owned().try_into().expect("an address")).cause;
        assert_eq!(hidden.reveal(), "550 5.1.1 [text with the address]", "{form}");
    }
}
