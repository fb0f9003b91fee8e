//! The header `traceparent` of outgoing requests (W3C Trace Context).
//!
//! `tracestate` is not passed on: it has opaque data of the caller's tracing system, and the calls go to systems of others.

use actors_platform::caller::current_trace;
use reqwest::RequestBuilder;
use ring::rand::{SystemRandom, generate};

/// `request` with a `traceparent` that has a new span id, if the current work is a part of a trace.
pub(super) fn add_traceparent(request: RequestBuilder) -> RequestBuilder {
    let span_id = || {
        let random = generate::<[u8; 8]>(&SystemRandom::new()).ok()?;
        Some(u64::from_be_bytes(random.expose())).filter(|span_id| *span_id != 0)
    };
    match current_trace().zip(span_id()) {
        Some((trace, span_id)) => request.header("traceparent", trace.traceparent(span_id)),
        None => request,
    }
}
