//! What is judged and stored: verdicts of usual size, and the records that their first deliveries make.

use domain::session::Original;
use domain::{Delivery, Event, GatePath, Payload, Query, Session, SessionId, Tier, judge};
use jiff::Timestamp;
use std::sync::Arc;
use store::{Expect, Record, RowKey, Write};

/// What every session asked.
pub(crate) const QUERY: &str = "Start a channel about restoring cast iron pans, two videos a week for a year, filmed in a shared workshop.";

/// A verdict of `tier`, as a model would write it.
pub(crate) const fn text(tier: Tier) -> &'static str {
    match tier {
        Tier::Quick => include_str!("payloads/quick.json").trim_ascii_end(),
        Tier::Full => include_str!("payloads/full.json").trim_ascii_end(),
        Tier::Strategy => include_str!("payloads/strategy.json").trim_ascii_end(),
    }
}

/// The id of session number `number`: all of the same length, and in no order, like a payment provider's.
pub(crate) fn session_id(number: usize) -> String {
    // the finalizer of splitmix64, which maps no two numbers to one
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("cs_live_{:016x}", mixed ^ (mixed >> 31))
}

/// The record that the first delivery of a full verdict makes, as the cache actor makes it.
pub(crate) fn record(number: usize) -> Record {
    let now = Timestamp::now();
    let session_id: SessionId = session_id(number).parse().expect("an id");
    let query = Query::new(QUERY.to_owned());
    let judgement = judge(Tier::Full, Payload::raw(text(Tier::Full)));
    let judged = Event::judged(&judgement, session_id.clone(), &query, GatePath::Submit, now);
    let approved = judgement.outcome.expect("it is a coherent verdict");
    let cached = Event::VerdictCached {
        session_id: session_id.clone(),
        tier: approved.tier(),
        verdict_label: approved.label(),
        verdict_sha256: approved.sha256().clone(),
        path: GatePath::Submit,
        timestamp: now,
    };
    let session = Session {
        session_id: session_id.clone(),
        tier: Tier::Full,
        query: query.clone(),
        customer_email: None,
        original: Some(Original::delivered(&approved, None, now)),
    };
    let expect = vec![
        Expect { row: RowKey::Verdict(session_id.clone()), revision: None },
        Expect { row: RowKey::Session(session_id.clone()), revision: None },
    ];
    let delivery = Delivery { session_id, query, approved, cached_at: now, regen: None };
    let writes = vec![Write::PutVerdict(Arc::new(delivery)), Write::PutSession(session)];
    Record { expect, events: vec![judged, cached], writes }
}
