use crate::events::read_event;
use domain_audit::event::{ControlAction, ServiceStopped, StorageRecovered};
use domain_audit::leaf::*;
use domain_base::caller::{PeerCredentials, RequestCaller};
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventKind};
use domain_base::session_id::SessionId;
use domain_ground::event::{PruneEntry, SourcePruned};
use domain_verdict::event::{MessageQueued, OrderRetried, SessionAddressChanged};
use domain_verdict::mail::{MailId, MailKind};
use domain_verdict::outbox::{MessageEntry, MessageKind};
use std::borrow::Cow;

/// A line and its leaf, written out so that no change of the program changes the leaf of a stored line.
const LINE: &str = r#"{"seq":7,"event":"order_placed","tier":"quick","query_preview":"Sell \"honey\"?","has_email":false,"session_id":"cs_1","timestamp":"2026-11-20T10:00:00Z","caller":{"uid":1,"gid":2,"pid":3,"request_id":"r1"},"salts":{"query_preview":"000102030405060708090a0b0c0d0e0f","caller":"101112131415161718191a1b1c1d1e1f"}}"#;
const LEAF: &str = r#"{"seq":7,"event":"order_placed","tier":"quick","query_preview":{"sha256":"QUERY"},"has_email":false,"session_id":"cs_1","timestamp":"2026-11-20T10:00:00Z","caller":{"sha256":"CALLER"}}"#;

fn leaf() -> String {
    let query = Sha256Hex::of(br#"000102030405060708090a0b0c0d0e0f"Sell \"honey\"?""#);
    let caller =
        Sha256Hex::of(br#"101112131415161718191a1b1c1d1e1f{"uid":1,"gid":2,"pid":3,"request_id":"r1"}"#);
    LEAF.replace("QUERY", query.as_str()).replace("CALLER", caller.as_str())
}

#[test]
fn leaf_has_a_salted_hash_in_place_of_each_salted_value() {
    assert_eq!(leaf_of(LINE).expect("an entry"), leaf());
    assert_eq!(leaf_of(&leaf()).expect("an entry"), leaf(), "an erased line is its own leaf");
}

#[test]
fn hidden_values_leave_the_leaf_unchanged() {
    let without_caller = hide_values(LINE, |name| name == CALLER).expect("an entry");
    assert!(without_caller.contains("honey") && !without_caller.contains("r1"), "{without_caller}");
    assert_eq!(leaf_of(&without_caller).expect("an entry"), leaf());
    assert_eq!(hidden_members(&without_caller), Ok(vec!["caller".to_owned()]));
    let erased = hide_values(&without_caller, |_| true).expect("an entry");
    assert_eq!(erased, leaf());
    assert_eq!(hidden_members(&erased), Ok(vec!["query_preview".to_owned(), "caller".to_owned()]));
    assert_eq!(hidden_members(LINE), Ok(vec![]));
    assert_eq!(hide_values(&erased, |_| true).expect("an entry"), erased);
}

#[test]
fn leaf_depends_on_each_salt_and_each_member() {
    for (from, to) in [
        ("0e0f\"", "0e0e\""),
        ("honey", "money"),
        ("quick", "full"),
        ("cs_1", "cs_2"),
        ("7", "8"),
        ("r1", "r2"),
        (r#","caller":"101112131415161718191a1b1c1d1e1f""#, ""),
        (r#""query_preview":"0001"#, r#""event":"0001"#),
    ] {
        let changed = LINE.replacen(from, to, 1);
        assert_ne!(changed, LINE, "{from}");
        assert_ne!(leaf_of(&changed).expect("an entry"), leaf(), "{from}");
    }
}

#[test]
fn line_without_salts_is_its_own_leaf() {
    for line in [
        r#"{"seq":1,"event":"service_stopped","timestamp":"2026-11-20T10:00:00Z"}"#,
        r#"{"seq":1,"envelope":{"salts":{"sea":"NaCl"}}}"#,
    ] {
        assert!(matches!(leaf_of(line), Ok(Cow::Borrowed(leaf)) if leaf == line), "{line}");
    }
}

#[test]
fn damaged_line_with_salts_is_an_error() {
    let many: String = (0..300).map(|n| format!(r#""m{n}":1,"#)).collect();
    for damaged in [
        &LINE[..LINE.len() - 1],
        &format!("{LINE}\n"),
        &LINE.replace("\"tier\":\"quick\"", "\"event\":\"service_stopped\""),
        &LINE.replace(",\"tier", ", \"tier"),
        &LINE.replace("{\"seq\":7", &format!("{{{many}\"seq\":7")),
        // the leaf would not change
        &LINE.replace("\"000102030405060708090a0b0c0d0e0f\"", "5"),
        &LINE.replace("0a0b", "0A0b"),
        &LINE.replace("\"0001", "\"\\u0030001"),
        &LINE.replace("\"salts\":{", "\"salts\":{ "),
        &LINE.replace("\"salts\":{", "\"salts\":{\"other\":\"000102030405060708090a0b0c0d0e0f\","),
        // `salts` is not the last member
        &LINE.replace("}}", "},\"end\":7}"),
        r#"{"seq":1,"salts":{}}"#,
    ] {
        assert!(leaf_of(damaged).is_err(), "{damaged}");
        assert!(hide_values(damaged, |_| true).is_err(), "{damaged}");
    }
}

#[test]
fn entry_text_has_the_leaf_of_its_line() {
    let peer = PeerCredentials { uid: 1, gid: 2, pid: None };
    let caller = RequestCaller {
        peer,
        socket: None,
        host: None,
        application: None,
        request_id: "r1".into(),
        trace_id: None,
        is_trace_sampled: false,
        owner_uid: None,
    };
    let at = "2026-11-20T10:00:00Z".parse().expect("a valid time");
    let salted = |secret, covers_session_ids| EntrySalts { secret: [secret; 16], covers_session_ids };
    let rows = RowDigests::from([
        ("regens/cs_1".to_owned(), None),
        ("sessions/cs_1".to_owned(), Some(Sha256Hex::of(b"row"))),
    ]);
    for kind in [
        EventKind::from(ServiceStopped {}),
        OrderRetried { reason: "a \"reason\"".into(), user_name: Some("anna".into()), peer }.into(),
        SessionAddressChanged { before: None, after: Some(Sha256Hex::of(b"x")) }.into(),
    ] {
        for (caller, rows) in
            [(None, None), (Some(&caller), None), (None, Some(&rows)), (Some(&caller), Some(&rows))]
        {
            let event = AuditEvent::new(at, None, kind.clone());
            let additions = EntryAdditions { caller, rows, ..EntryAdditions::default() };
            let EntryText { line, leaf } = entry_text(9, &event, additions, &salted(1, false));
            assert_eq!(leaf_of(&line).expect("an entry"), leaf, "{line}");
            let other = entry_text(9, &event, additions, &salted(2, false));
            let is_salted = line.contains(SALTS);
            assert_eq!(
                is_salted,
                caller.is_some() || rows.is_some() || !kind.event_type().erasable.is_empty(),
                "{line}"
            );
            assert_eq!(other.leaf != leaf, is_salted, "{line}");
            let read = read_event(&line).expect("an event");
            assert_eq!(read.as_ref(), Some(&event));
            let logged = rows.map_or(LoggedRows::None, |rows| LoggedRows::Open(rows.clone()));
            assert_eq!(LoggedRows::read(&line), Ok(logged));
            let hidden = if rows.is_some() { LoggedRows::Hidden } else { LoggedRows::None };
            assert_eq!(LoggedRows::read(&leaf), Ok(hidden));
        }
    }
    let changed = SessionAddressChanged { before: None, after: Some(Sha256Hex::of(b"x")) };
    let line =
        entry_text(1, &AuditEvent::new(at, None, changed), EntryAdditions::default(), &salted(1, false)).line;
    assert!(line.contains(r#""before":null"#) && !line.contains(r#""before":""#), "{line}");
}

#[test]
fn session_ids_are_erased_only_where_the_log_commits_to_them() {
    let at = "2026-11-20T10:00:00Z".parse().expect("a valid time");
    let session_id: SessionId = "cs_1".parse().expect("a valid id");
    let queued = MessageQueued(MessageEntry {
        message_id: MailId::verdict(&session_id).into(),
        kind: MessageKind::Mail(MailKind::Verdict),
        application: None,
        endpoint: None,
    });
    let event = AuditEvent::new(at, session_id, queued);
    for covers_session_ids in [false, true] {
        let salts = EntrySalts { secret: [1; 16], covers_session_ids };
        let EntryText { line, leaf } = entry_text(9, &event, EntryAdditions::default(), &salts);
        assert_eq!(leaf_of(&line).expect("an entry"), leaf, "{line}");
        let erased = hide_values(&line, |_| true).expect("an entry");
        assert_eq!(!erased.contains("cs_1"), covers_session_ids, "{erased}");
        let hidden = hidden_members(&erased).expect("an entry");
        assert_eq!(hidden, if covers_session_ids { vec!["message_id", "session_id"] } else { Vec::new() });
    }
    let stopped = AuditEvent::new(at, None, ServiceStopped {});
    let salts = EntrySalts { secret: [1; 16], covers_session_ids: true };
    let EntryText { line, leaf } = entry_text(9, &stopped, EntryAdditions::default(), &salts);
    assert_eq!(line, leaf);
}

#[test]
fn links_are_erased_with_session_ids_and_shown_with_them() {
    let at = "2026-11-20T10:00:00Z".parse().expect("a valid time");
    let session_id: SessionId = "cs_1".parse().expect("a valid id");
    let event = AuditEvent::new(at, session_id, SessionAddressChanged { before: None, after: None });
    let hash = Sha256Hex::of(b"leaf");
    let links =
        [EntryLink { seq: 4, leaf_sha256: hash.clone() }, EntryLink { seq: 8, leaf_sha256: hash.clone() }];
    let peer = PeerCredentials { uid: 1, gid: 2, pid: None };
    let caller = RequestCaller {
        peer,
        socket: None,
        host: None,
        application: None,
        request_id: "r1".into(),
        trace_id: None,
        is_trace_sampled: false,
        owner_uid: None,
    };
    let member =
        format!(r#""links":[{{"seq":4,"leaf_sha256":"{hash}"}},{{"seq":8,"leaf_sha256":"{hash}"}}]"#);
    for covers_session_ids in [false, true] {
        let salts = EntrySalts { secret: [1; 16], covers_session_ids };
        let additions = EntryAdditions { links: &links, caller: Some(&caller), ..EntryAdditions::default() };
        let EntryText { line, leaf } = entry_text(9, &event, additions, &salts);
        assert!(line.contains(&format!(r#"{member},"caller""#)), "{line}");
        assert_eq!(read_event(&line).expect("an event"), Some(event.clone()));
        assert_eq!(leaf_of(&line).expect("an entry"), leaf);
        assert_eq!(leaf.contains(&member), !covers_session_ids, "{leaf}");
        // a reader without the caller sees them
        let shown = hide_values(&line, is_addition).expect("an entry");
        assert!(shown.contains(&member) && !shown.contains("r1"), "{shown}");
        // with its session, or withheld with it
        for is_hidden in [&(|_: &str| true) as &dyn Fn(&str) -> bool, &|name| SESSION_IDS.contains(&name)] {
            let erased = hide_values(&line, is_hidden).expect("an entry");
            assert_eq!(erased.contains("cs_1"), !covers_session_ids, "{erased}");
            assert_eq!(erased.contains(hash.as_str()), !covers_session_ids, "{erased}");
            assert_eq!(leaf_of(&erased).expect("an entry"), leaf);
        }
        let none = entry_text(9, &event, EntryAdditions::default(), &salts).line;
        assert!(!none.contains(LINKS), "{none}");
    }
}

#[test]
fn leaf_of_an_entry_with_long_values_fits_into_a_tile() {
    let peer = PeerCredentials { uid: 1, gid: 2, pid: Some(3) };
    let pruned = PruneEntry {
        oracle_id: "worldbank".parse().expect("an id"),
        before: "2026-11-20T10:00:00Z".parse().expect("a time"),
        versions: 0,
        payloads: (0..5000u32).map(|n| Sha256Hex::of(&n.to_be_bytes())).collect(),
        peer: Some(peer),
    };
    let half = "x".repeat(LEAF_BYTES_MAX / 2);
    let cause = StorageRecovered {
        cause: half.clone(),
        failed_at: "2026-11-20T10:00:00Z".parse().expect("a time"),
        fallback_entries: 0,
        lost_rows: None,
    };
    let action = ControlAction { action: half.clone(), detail: half, peer: Some(peer) };
    let salts = EntrySalts { secret: [7; 16], covers_session_ids: false };
    for (kind, hidden) in [
        (EventKind::from(SourcePruned(pruned)), &["payloads"][..]),
        (action.into(), &["detail"]),
        (cause.into(), &[]),
    ] {
        let event = AuditEvent::new("2026-11-20T10:00:00Z".parse().expect("a time"), None, kind);
        let EntryText { line, leaf } = entry_text(9, &event, EntryAdditions::default(), &salts);
        assert!(leaf.len() <= LEAF_BYTES_MAX, "{} bytes", leaf.len());
        assert_eq!(leaf_of(&line).expect("an entry"), leaf);
        assert_eq!(hidden_members(&leaf).expect("an object"), hidden);
        assert!(hidden_members(&line).expect("an object").is_empty(), "the line has all values");
    }
}
