//! Chapters about verdicts: delivered, rejected, generated, lost and regenerated; and a model that fails.

use super::model::QUERY as RECORDED_QUERY;
use super::upstreams::DevModel;
use super::walk::{ChapterLines, DevWalk, text};
use domain_verdict::divergence::DISCLAIMER;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

const GOOD: &str = include_str!("good.json");
/// GREEN with a positive summary, over five RED dimensions without analyses.
const CONTRADICTING: &str = include_str!("contradicting.json");
/// The answer of a real model, cut at its token limit.
const TRUNCATED: &str = include_str!("truncated.txt");
const QUERY: &str = "A neighbourhood tool library run by volunteers out of a shipping container.";
const TRUNCATED_QUERY: &str = "Adopt a second rescue dog while working from home three days a week.";
/// The recipient. The domain `.invalid` is reserved, so no one has this address.
const CUSTOMER: &str = "customer@example.invalid";
const ORACLES: &str = "/v1/health/oracles";
/// Maximum number of calls until the circuit opens: an order lists its last ten attempts.
const CALLS_MAX: u32 = 10;

pub(super) async fn deliver_verdict(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let path = format!("/v1/verdicts/{}", walk.id("good"));
    let verdict: Value = serde_json::from_str(GOOD)?;
    let submission = json!({"tier": "full", "query": QUERY, "verdict": verdict});
    let first = walk.post(&path, &submission, StatusCode::CREATED).await?;
    walk.check(&first, "/decision/coherence_score", 1.0)?;
    let again = walk.post(&path, &submission, StatusCode::OK).await?;
    walk.check(&again, "/replayed", true)?;
    walk.check(&again, "/verdict", verdict)?;
    Ok(vec![
        format_summary(&first),
        format!(
            "coherence {}, at least {:.4} required; a second submission returns the same verdict",
            text(&first, "/decision/coherence_score"),
            first.pointer("/decision/threshold").and_then(Value::as_f64).unwrap_or_default(),
        ),
    ])
}

pub(super) async fn refuse_verdicts(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let mut lines = Vec::new();
    let contradicting: Value = serde_json::from_str(CONTRADICTING)?;
    for (name, title, submission, reason) in [
        (
            "contradicting",
            "GREEN over RED dimensions",
            json!({"tier": "full", "query": QUERY, "verdict": contradicting}),
            "dimension_conflict",
        ),
        (
            "truncated",
            "cut off at the token limit",
            json!({"tier": "full", "query": TRUNCATED_QUERY, "raw": TRUNCATED}),
            "degenerate_manifold",
        ),
    ] {
        let path = format!("/v1/verdicts/{}", walk.id(name));
        let refused = walk.post(&path, &submission, StatusCode::UNPROCESSABLE_ENTITY).await?;
        walk.check(&refused, "/code", "crosscheck_rejected")?;
        walk.check(&refused, "/decision/crosscheck_reason", reason)?;
        let flags = refused.pointer("/decision/flags").and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str);
        let mut flags: Vec<_> = flags.filter_map(|flag| flag.split(':').next()).collect();
        flags.dedup();
        let coherence = text(&refused, "/decision/coherence_score");
        lines.push(format!("{title}: coherence {coherence}, {}", flags.join(", ")));
    }
    Ok(lines)
}

pub(super) async fn generate_verdict(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let session = walk.id("generated");
    let request = json!({"tier": "full", "query": RECORDED_QUERY, "customer_email": CUSTOMER});
    let generated = walk.order(&session, &request).await?;
    walk.check(&generated, "/verdict/verdict", "NULL")?;
    let mail = walk.mail(&format!("verdict:{session}")).await?;
    Ok([format_summary(&generated)].into_iter().chain(mail).collect())
}

pub(super) async fn regenerate_verdict(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let session = walk.id("generated");
    let path = format!("/v1/verdicts/{session}");
    let purged = walk.control(Method::DELETE, &path, "", StatusCode::OK).await?;
    walk.check(&purged, "/purged", true)?;
    let regenerated = walk.get(&path).await?;
    walk.check(&regenerated, "/verdict/verdict", "RED")?;
    walk.check(&regenerated, "/original_verdict", "NULL")?;
    walk.check(&regenerated, "/divergence_level", "significant")?;
    walk.check(&regenerated, "/disclaimer", DISCLAIMER)?;
    let difference = format!(
        "delivered: {}, regenerated: {}; divergence: {}",
        text(&regenerated, "/original_verdict"),
        text(&regenerated, "/verdict/verdict"),
        text(&regenerated, "/divergence_level"),
    );
    let mail = walk.mail(&format!("divergence:{session}:")).await?;
    Ok([difference].into_iter().chain(mail).collect())
}

/// The recorded model fails until its circuit opens, then recovers. A request waits meanwhile.
pub(super) async fn simulate_outage(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let session = walk.id("later");
    let request = json!({"tier": "full", "query": RECORDED_QUERY});
    let order_path = format!("/v1/orders/{session}");
    let retry = json!({"action": "retry", "reason": "the walk does not wait"}).to_string();
    set_down(walk, true);
    let waiting = walk.post_in_background(&format!("/v1/verdicts/{session}"), &request).await?;
    // the request has arrived
    walk.wait_for("/v1/orders?limit=1", "/items/0/session_id", &session).await?;
    let mut calls = 0;
    let (open, error) = loop {
        let outcome = format!("/last_attempts/{calls}/outcome");
        let order = walk.wait_for(&order_path, &outcome, "model_unavailable").await?;
        let error = text(&order, &format!("/last_attempts/{calls}/cause"));
        calls += 1;
        let oracles = walk.control(Method::GET, ORACLES, "", StatusCode::OK).await?;
        if text(&oracles, "/0/status") == "circuit_open" || calls == CALLS_MAX {
            break (oracles, error);
        }
        walk.control(Method::POST, &order_path, &retry, StatusCode::OK).await?;
    };
    set_down(walk, false);
    let failures = text(&open, "/0/consecutive_failures");
    walk.check(&open, "/0/status", "circuit_open")?;
    walk.wait_for(ORACLES, "/0/status", "unhealthy").await?;
    walk.control(Method::POST, &order_path, &retry, StatusCode::OK).await?;
    let generated: Value = waiting.await??.json()?;
    walk.wait_for(&order_path, "/state", "delivered").await?;
    walk.wait_for(ORACLES, "/0/status", "healthy").await?;
    Ok(vec![
        error,
        format!(
            "circuit open after {failures} failures, closed after a probe; the waiting request gets {}",
            format_summary(&generated)
        ),
    ])
}

fn set_down(walk: &DevWalk<'_>, down: bool) {
    if let DevModel::Recorded { model, .. } = &walk.outside.model {
        model.set_down(down);
    }
}

/// The verdict of a response, and the beginning of its summary.
fn format_summary(response: &Value) -> String {
    format!("{}: {}", text(response, "/verdict/verdict"), text(response, "/verdict/summary"))
}
