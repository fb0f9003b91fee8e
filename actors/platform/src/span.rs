//! Spans: the parts of a trace that this daemon records, such as a request, a commit, or a call of a model.
//!
//! A span begins with [`Span::child`] in the current trace, and ends when it is dropped. [`Span::run`] runs work inside it. Only the
//! daemon that exports traces calls [`record_spans`]; in others, and in traces that are not sampled, a span is empty and costs a read of
//! a variable.
//!
//! The API of opentelemetry is not used here: its current context belongs to a thread, and does not follow messages to actors.

use crate::caller::{current_trace, run_in_trace};
use crate::clock::{monotonic, time_of_day};
use crate::key_file::random_tag;
use domain_base::caller::{SpanId, TraceContext, TraceId, TraceParent};
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// Receives the spans that have ended. It must not block.
pub trait SpanSink: Debug + Send + Sync {
    fn take(&self, span: EndedSpan);
}

#[derive(Debug)]
struct SpanRecorder {
    /// The part of the traces that begin here and are recorded, from 0 to 1.
    sample_ratio: f64,
    sink: Arc<dyn SpanSink>,
}

static RECORDER: OnceLock<SpanRecorder> = OnceLock::new();

/// Records spans from now on, for the whole process: those of `sample_ratio` of the traces that begin here, and those of the traces of
/// others that are sampled. A second call has no effect.
pub fn record_spans(sample_ratio: f64, sink: Arc<dyn SpanSink>) {
    drop(RECORDER.set(SpanRecorder { sample_ratio, sink }));
}

/// The relation of a span to other systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The daemon answers a request.
    Server,
    /// The daemon waits for the answer of another system.
    Client,
    Internal,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    Text(Cow<'static, str>),
    Number(i64),
    Flag(bool),
}

impl From<&'static str> for SpanValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for SpanValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for SpanValue {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for SpanValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedSpan {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    pub parent_id: Option<SpanId>,
    /// Whether the parent is a span of the caller of a request.
    pub has_remote_parent: bool,
    pub kind: SpanKind,
    pub name: Cow<'static, str>,
    pub began_at: SystemTime,
    pub took: Duration,
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// The class of the failure, with few values; `None` if the work succeeded.
    pub failure: Option<Cow<'static, str>>,
}

#[derive(Debug)]
struct OpenSpan {
    began: Instant,
    sink: Arc<dyn SpanSink>,
    /// The span as it ends, but for its duration.
    end: EndedSpan,
}

/// A span in progress. It ends when it is dropped.
#[derive(Debug, Default)]
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<OpenSpan>>);

impl Span {
    /// A span of the current trace; an empty one if there is none, or if it is not recorded.
    pub fn child(kind: SpanKind, name: &'static str) -> Self {
        let Some(recorder) = RECORDER.get() else { return Self(None) };
        let Some(trace) = current_trace().filter(|trace| trace.is_sampled) else { return Self(None) };
        recorder.open(kind, name, (trace.trace_id, trace.span_id, false))
    }

    /// A span of the current trace, or the first one of a new trace.
    pub fn child_or_root(kind: SpanKind, name: &'static str) -> Self {
        let Some(recorder) = RECORDER.get() else { return Self(None) };
        if current_trace().is_some() { Self::child(kind, name) } else { recorder.open_root(kind, name) }
    }

    /// The span of a request: a part of its caller's trace, or the first one of a new trace.
    pub fn of_request(caller: Option<&TraceParent>) -> Self {
        let (kind, name) = (SpanKind::Server, "");
        match (RECORDER.get(), caller) {
            (None, _) => Self(None),
            (Some(recorder), None) => recorder.open_root(kind, name),
            (Some(recorder), Some(TraceParent { trace, parent_id })) if trace.is_sampled => {
                recorder.open(kind, name, (trace.trace_id.clone(), Some(parent_id.clone()), true))
            }
            (Some(_), Some(_)) => Self(None),
        }
    }

    /// The trace with this span as the current one; `None` if the span is empty.
    #[must_use]
    pub fn context(&self) -> Option<TraceContext> {
        let EndedSpan { trace_id, span_id, .. } = &self.0.as_ref()?.end;
        let (trace_id, span_id) = (trace_id.clone(), Some(span_id.clone()));
        Some(TraceContext { trace_id, is_sampled: true, span_id })
    }

    /// Runs `work` inside the span.
    pub fn run<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        run_in_trace(self.context(), work)
    }

    /// Replaces the name, for one that has a value.
    pub fn rename(&mut self, name: impl FnOnce() -> String) {
        if let Some(open) = &mut self.0 {
            open.end.name = Cow::Owned(name());
        }
    }

    /// Adds an attribute.
    pub fn set(&mut self, key: &'static str, value: impl Into<SpanValue>) {
        if let Some(open) = &mut self.0 {
            open.end.attributes.push((key, value.into()));
        }
    }

    /// Adds an attribute whose value is a text that is copied.
    pub fn set_text(&mut self, key: &'static str, value: &(impl ToString + ?Sized)) {
        if let Some(open) = &mut self.0 {
            open.end.attributes.push((key, value.to_string().into()));
        }
    }

    /// Notes that the work failed. `class` has few values, and no text of others.
    pub fn fail(&mut self, class: impl Into<Cow<'static, str>>) {
        if let Some(open) = &mut self.0 {
            open.end.failure = Some(class.into());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(OpenSpan { began, sink, mut end }) = self.0.take().map(|open| *open) {
            end.took = monotonic().duration_since(began);
            sink.take(end);
        }
    }
}

impl SpanRecorder {
    fn open(
        &self,
        kind: SpanKind,
        name: &'static str,
        (trace_id, parent_id, has_remote_parent): (TraceId, Option<SpanId>, bool),
    ) -> Span {
        let Some(span_id) = SpanId::new(random_tag()) else { return Span(None) };
        let (began_at, took) = (time_of_day(), Duration::ZERO);
        let (name, attributes, failure) = (Cow::Borrowed(name), Vec::new(), None);
        let end = EndedSpan {
            trace_id,
            span_id,
            parent_id,
            has_remote_parent,
            kind,
            name,
            began_at,
            took,
            attributes,
            failure,
        };
        Span(Some(Box::new(OpenSpan { began: monotonic(), sink: Arc::clone(&self.sink), end })))
    }

    /// The first span of a new trace, if the trace is sampled.
    fn open_root(&self, kind: SpanKind, name: &'static str) -> Span {
        if self.sample_ratio <= 0.0 {
            return Span(None);
        }
        let random = random_tag();
        if !is_sampled(random, self.sample_ratio) {
            return Span(None);
        }
        let trace_id = TraceId::new(u128::from(random_tag()) << 64 | u128::from(random));
        trace_id.map_or(Span(None), |trace_id| self.open(kind, name, (trace_id, None, false)))
    }
}

/// Whether the trace is recorded whose id ends with `random`: other services with the same ratio decide alike.
fn is_sampled(random: u64, ratio: f64) -> bool {
    ratio >= 1.0 || ((random >> 1) as f64) < ratio * (1_u64 << 63) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct KeptSpans(Mutex<Vec<EndedSpan>>);

    impl SpanSink for KeptSpans {
        fn take(&self, span: EndedSpan) {
            self.0.lock().expect("the lock is not poisoned").push(span);
        }
    }

    #[test]
    fn ratio_selects_its_part_of_the_traces() {
        for (ratio, expected) in [(0.0, 0), (0.25, 25), (0.5, 50), (1.0, 100)] {
            let ids = (0..100_u64).map(|n| n * (u64::MAX / 100));
            assert_eq!(ids.filter(|id| is_sampled(*id, ratio)).count(), expected, "{ratio}");
        }
        assert!(is_sampled(u64::MAX, 1.0) && !is_sampled(u64::MAX, 0.999));
    }

    #[tokio::test]
    async fn span_has_the_parent_inside_which_it_began() {
        let kept = Arc::new(KeptSpans::default());
        drop(Span::of_request(None));
        record_spans(1.0, Arc::<KeptSpans>::clone(&kept));
        assert!(Span::child(SpanKind::Internal, "without a trace").context().is_none());
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let caller = TraceParent::parse(header).expect("a valid header");
        let mut request = Span::of_request(Some(&caller));
        request.rename(|| "GET /".to_owned());
        let work = async {
            let inner = Span::child(SpanKind::Client, "inner");
            inner.run(async { drop(Span::child_or_root(SpanKind::Internal, "innermost")) }).await;
        };
        request.run(work).await;
        drop(request);
        let unsampled = TraceParent::parse(&header.replace("-01", "-00")).expect("a valid header");
        assert!(Span::of_request(Some(&unsampled)).context().is_none());
        let spans = kept.0.lock().expect("the lock is not poisoned");
        let [innermost, inner, request] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((&*request.name, request.parent_id.as_ref()), ("GET /", Some(&caller.parent_id)));
        assert_eq!(inner.parent_id.as_ref(), Some(&request.span_id));
        assert_eq!(innermost.parent_id.as_ref(), Some(&inner.span_id));
        assert!(spans.iter().all(|span| span.trace_id == caller.trace.trace_id), "{spans:?}");
        assert_eq!((request.has_remote_parent, inner.has_remote_parent), (true, false));
    }
}
