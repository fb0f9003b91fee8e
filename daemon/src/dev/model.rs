//! A substitute for a model: a server on the loopback with Gemini's API that returns recorded answers of a real model.

use crate::verdict::config::models::ModelSection;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::{PromptTemplate, build_verdict_prompt};
use domain_verdict::query::CustomerQuery;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, io, path};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// The query that the real model judged, for a full verdict.
pub(super) const QUERY: &str = "Put all of my retirement savings into one friend's restaurant.";
/// The two answers of the real model, both at temperature 0.
const RECORDED: [&str; 2] = [include_str!("recorded-first.json"), include_str!("recorded-again.json")];
/// The name of the real model.
const RECORDED_OF: &str = "recorded-qwen2.5-coder-1.5b-instruct";
/// Maximum size of a request, in bytes.
const BODY_MAX_BYTES: usize = 2 << 20;
/// The API key that Gemini's API requires; this server does not check it.
const KEY: &str = "made-up";
/// The end of the path of a generation request.
const METHOD: &str = ":generateContent";

/// The server. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct RecordedModel {
    address: SocketAddr,
    recording: Arc<RecordedModelState>,
    serving: AbortHandle,
}

#[derive(Debug)]
struct RecordedModelState {
    /// The only prompt with recorded answers.
    prompt: String,
    /// Number of answers so far.
    answered: AtomicUsize,
    down: AtomicBool,
}

impl RecordedModel {
    /// Starts the server.
    pub(super) async fn start() -> io::Result<Self> {
        let query = CustomerQuery::new(QUERY.into());
        let prompt = build_verdict_prompt(PromptTemplate::built_in(), ProductTier::Full, &query);
        let prompt = prompt.map_err(io::Error::other)?.text().to_owned();
        let (answered, down) = (AtomicUsize::new(0), AtomicBool::new(false));
        let recording = Arc::new(RecordedModelState { prompt, answered, down });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/v1beta/models/{model}", get(describe).post(generate))
            .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
            .with_state(Arc::clone(&recording));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await }).abort_handle();
        Ok(Self { address, recording, serving })
    }

    /// The base URL of the server.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Configures this server as the model, with a key file in `dir`.
    pub(super) fn configure(&self, config: &mut ModelSection, dir: &path::Path) -> io::Result<()> {
        let key_file = dir.join("model-key");
        fs::write(&key_file, KEY)?;
        config.base_url = Some(self.url());
        config.api_key_file = Some(key_file);
        Ok(())
    }

    /// Sets whether the server fails from now on.
    pub(super) fn set_down(&self, down: bool) {
        self.recording.down.store(down, Ordering::Relaxed);
    }
}

impl Drop for RecordedModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers a probe.
async fn describe(State(recording): State<Arc<RecordedModelState>>, Path(model): Path<String>) -> Response {
    let described = || Json(json!({"name": format!("models/{model}")})).into_response();
    recording.outage_response().unwrap_or_else(described)
}

async fn generate(
    State(recording): State<Arc<RecordedModelState>>,
    Path(call): Path<String>,
    body: Bytes,
) -> Response {
    if let Some(down) = recording.outage_response() {
        return down;
    }
    if !call.ends_with(METHOD) {
        return error_response(StatusCode::NOT_FOUND, "NOT_FOUND", "the method does not exist");
    }
    let question: Value = serde_json::from_slice(&body).unwrap_or_default();
    let prompt = question.pointer("/contents/0/parts/0/text").and_then(Value::as_str);
    if prompt != Some(&recording.prompt) {
        let message = "this model is a recording with answers to one prompt only";
        return error_response(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", message);
    }
    Json(gemini_answer(recording.next_answer())).into_response()
}

impl RecordedModelState {
    /// The error response while the server is set to fail.
    fn outage_response(&self) -> Option<Response> {
        let message = "the recorded model is down for the demonstration";
        let down = self.down.load(Ordering::Relaxed);
        down.then(|| error_response(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message))
    }

    /// The next recorded answer; after the last one, the first again.
    fn next_answer(&self) -> &'static str {
        let answered = self.answered.fetch_add(1, Ordering::Relaxed);
        RECORDED.iter().cycle().nth(answered % RECORDED.len()).copied().unwrap_or_default()
    }
}

fn gemini_answer(text: &str) -> Value {
    json!({
        "candidates": [{
            "content": {"parts": [{"text": text}], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
        }],
        "modelVersion": RECORDED_OF,
    })
}

fn error_response(code: StatusCode, status: &str, message: &str) -> Response {
    let error = json!({"code": code.as_u16(), "message": message, "status": status, "details": []});
    (code, Json(json!({"error": error}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_platform::clock::Clock;
    use actors_upstream::{
        GeminiClient, ModelAttempt, ModelClient, ModelTextError, RequestFailure, RequestFailureKind,
    };
    use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL};
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn call_model(
        model: &RecordedModel,
        tier: ProductTier,
        query: &str,
    ) -> Result<String, ModelTextError> {
        let gemini = GeminiClient::new(&model.url(), "v1beta".into(), KEY.into(), Clock::system());
        let query = CustomerQuery::new(query.into());
        let prompt = build_verdict_prompt(PromptTemplate::built_in(), tier, &query);
        let prompt = prompt.expect("the tier has a text");
        let settings = GenerationSettings::locked(LOCKED_MODEL.into());
        match gemini.expect("a client").attempt(&prompt, &settings, PATIENCE).await {
            ModelAttempt::AnswerReceived(_, text) => text,
            ModelAttempt::NoAnswerReceived(failure) => Err(ModelTextError::Failed(failure)),
        }
    }

    async fn probe_model(model: &RecordedModel) -> Result<(), RequestFailure> {
        let gemini = GeminiClient::new(&model.url(), "v1beta".into(), KEY.into(), Clock::system());
        gemini.expect("a client").probe(LOCKED_MODEL, PATIENCE).await
    }

    #[tokio::test]
    async fn recorded_model_returns_its_answers_in_sequence() {
        let model = RecordedModel::start().await.expect("the server starts");
        let [first, again] = RECORDED.map(|text| Ok(text.to_owned()));
        for answer in [&first, &again, &first] {
            assert_eq!(call_model(&model, ProductTier::Full, QUERY).await, *answer);
        }
    }

    #[tokio::test]
    async fn recorded_model_rejects_prompts_without_recorded_answer() {
        let model = RecordedModel::start().await.expect("the server starts");
        for (tier, query) in [(ProductTier::Quick, QUERY), (ProductTier::Full, "Sell honey?")] {
            let refused = call_model(&model, tier, query).await;
            assert!(
                matches!(
                    &refused,
                    Err(ModelTextError::Failed(RequestFailure { kind: RequestFailureKind::Status(400), .. }))
                ),
                "{refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn recorded_model_fails_calls_and_probes_while_down() {
        let model = RecordedModel::start().await.expect("the server starts");
        probe_model(&model).await.expect("the model exists");
        model.set_down(true);
        assert_eq!(
            probe_model(&model).await.map_err(|failure| failure.kind),
            Err(RequestFailureKind::Status(503))
        );
        let down = call_model(&model, ProductTier::Full, QUERY).await;
        assert!(
            matches!(
                &down,
                Err(ModelTextError::Failed(RequestFailure { kind: RequestFailureKind::Status(503), .. }))
            ),
            "{down:?}"
        );
        model.set_down(false);
        call_model(&model, ProductTier::Full, QUERY).await.expect("the model answers again");
    }
}
