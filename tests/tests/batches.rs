//! `POST /v1/query:batch` and `POST /v1/verify:batch`: one answer per line, in the order of the lines.

use oracled_api::client::{DaemonClient, DaemonResponse, ResponseLines};
use oracled_api::streamed_body::StreamedBody;
use oracled_tests::stream::StreamedRequest;
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{DaemonWorld, at, document, lines, post};
use serde_json::{Value, json};

/// Posts the lines, and returns the lines of the answer.
async fn post_batch(routes: &mut DaemonClient, path: &str, requests: &[String]) -> Vec<Value> {
    let (mut sender, body) = StreamedBody::new(1);
    sender.send(requests.join("\n").into()).await.expect("the read succeeds");
    sender.finish();
    let response = routes.post_lines(path, body).await.expect("the server answers");
    let answer = DaemonResponse::read_whole(response).await.expect("the answer is complete");
    assert_eq!(answer.status, 200, "{}", document(&answer));
    lines(&answer.body)
}

fn query(at: &str) -> Value {
    json!({"oracle_id": "office-a", "request": {"axes_requested": ["population"], "point_in_time": at,
        "filters": [{"axis": "area", "operator": "eq", "value": "ABW"}]}})
}

#[track_caller]
fn assert_problem(line: &Value, number: u64, code: &str) {
    let found = (line.get("line"), line.pointer("/problem/code"), line.as_object().map(serde_json::Map::len));
    assert_eq!(found, (Some(&json!(number)), Some(&json!(code)), Some(2)), "{line}");
}

#[tokio::test]
async fn query_batch_answers_each_line_as_the_single_query() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    let routes = &mut daemon.routes().await;
    let [now, before] = [query("2026-03-07"), query("1990-01-01")];
    let requests = [
        now.to_string(),
        String::new(),
        "{".to_owned(),
        before.to_string(),
        json!({"oracle_id": "none", "request": {"axes_requested": []}}).to_string(),
    ];
    let answers = post_batch(routes, "/v1/query:batch", &requests).await;
    let numbers: Vec<_> = answers.iter().map(|answer| answer.get("line").cloned()).collect();
    assert_eq!(numbers, [1, 3, 4, 5].map(|number| Some(json!(number))));
    for (answer, request) in [(&answers[0], now), (&answers[2], before)] {
        let single = document(&post(routes, "/v1/query", &request).await);
        assert_eq!(answer.pointer("/answer/response/records"), single.pointer("/response/records"));
    }
    assert_eq!(answers[0].pointer("/answer/response/records/0/axes/population"), Some(&json!("54208")));
    assert_eq!(answers[2].pointer("/answer/response/records"), Some(&json!([])), "not valid in 1990");
    assert_problem(&answers[1], 3, "invalid_json");
    assert_problem(&answers[3], 5, "source_unknown");
}

#[tokio::test]
async fn verify_batch_decides_and_logs_each_line_in_order() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a"], json!({}))).await;
    let routes = &mut daemon.routes().await;
    let question = |year: u32| json!({"workflow": "census", "where": {"area": "ABW", "year": year}, "axes": ["population"]});
    let mut requests: Vec<_> = (0..40).map(|number| question(1960 + number % 2).to_string()).collect();
    requests.insert(7, json!({"workflow": "none", "where": {}, "axes": []}).to_string());
    let answers = post_batch(routes, "/v1/verify:batch", &requests).await;
    assert_eq!(answers.len(), 41);
    assert_problem(&answers[7], 8, "workflow_unknown");
    for (number, answer) in (1..).zip(&answers).filter(|(number, _)| *number != 8) {
        assert_eq!(answer.get("line"), Some(&json!(number)));
        let place = if number < 8 { number - 1 } else { number - 2 };
        let year = json!((1960 + place % 2).to_string());
        assert_eq!(answer.pointer("/envelope/where/year"), Some(&year), "{answer}");
        let value = answer.pointer("/envelope/axes/population/value");
        assert_eq!(value.is_some(), place % 2 == 0, "only 1960 has a value: {answer}");
    }
    let execution = answers[0].pointer("/envelope/execution_id").and_then(Value::as_str).expect("an id");
    let logged = oracled_tests::get(routes, &format!("/v1/verify/{execution}")).await;
    assert_eq!(Some(&document(&logged)), answers[0].get("envelope"));
    assert_eq!(at(&logged, "/execution_id"), execution);
}

#[tokio::test]
async fn batch_answers_lines_before_the_request_ends() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    let routes = &mut daemon.routes().await;
    let (mut sender, body) = StreamedBody::new(1);
    sender.send(format!("{}\n", query("2026-03-07")).into()).await.expect("the read succeeds");
    let response = routes.post_lines("/v1/query:batch", body).await.expect("the server answers");
    let mut answers = ResponseLines::new(response.into_body());
    let first = answers.next_line().await.expect("the connection holds").expect("a line");
    assert!(first.starts_with(b"{\"line\":1,\"answer\":"), "{first:?}");
    sender.finish();
    assert_eq!(answers.next_line().await.expect("the connection holds"), None);
}

/// Writes the whole request before it reads, as many HTTP clients do.
async fn write_then_read(world: &DaemonWorld, path: &str, requests: String) -> Vec<Value> {
    let mut stream = StreamedRequest::begin(&world.socket(), path).await;
    stream.send(requests).await.expect("the daemon reads the request");
    stream.finish().await.expect("the daemon reads the request");
    stream.rest().await
}

#[tokio::test]
async fn client_that_writes_2000_queries_before_it_reads_gets_all_answers() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    let requests = format!("{}\n", query("2026-03-07")).repeat(2000);
    let answers = write_then_read(&world, "/v1/query:batch", requests).await;
    assert_eq!(answers.len(), 2000);
    let numbers = answers.iter().map(|answer| answer["line"].as_u64().expect("a number"));
    assert!(numbers.eq(1..=2000) && answers.iter().all(|answer| answer.get("answer").is_some()));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn batch_of_a_client_that_does_not_read_ends_with_the_number_of_answers() {
    // a quarter of the memory for bodies is for one batch
    let world = DaemonWorld::with_config("[limits]\nidle_s = 16\nbody_bytes = 65536\nbodies_bytes = 4194304");
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a"], json!({}))).await;
    let question =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    for (path, request, lines) in
        [("/v1/query:batch", query("2026-03-07"), 6000), ("/v1/verify:batch", question, 3000)]
    {
        check_unread_batch(&world, path, &request, lines).await;
    }
    assert!(daemon.stop().success());
    // an evaluation reserves the memory for its longest answer, and the answer is much longer than the line
    let world = DaemonWorld::with_config("[limits]\nidle_s = 16");
    let daemon = world.serve().await;
    let amplified = json!({"candidate_output": "b.\n".repeat(300), "facts": ["a"]});
    check_unread_batch(&world, "/v1/rules/evaluate:batch", &amplified, 600).await;
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn batch_sends_each_large_answer_to_a_client_that_reads() {
    // each evaluation reserves all of the memory for answers
    let world = DaemonWorld::with_config("[limits]\nidle_s = 16\nbody_bytes = 65536\nbodies_bytes = 1048576");
    let daemon = world.serve().await;
    let amplified = json!({"candidate_output": "b.\n".repeat(500), "facts": ["a"]});
    let mut stream = StreamedRequest::begin(&world.socket(), "/v1/rules/evaluate:batch").await;
    for number in 1..=5 {
        stream.send(format!("{amplified}\n")).await.expect("the daemon reads the request");
        let answer = stream.line().await.expect("an answer");
        assert_eq!(answer.get("line"), Some(&json!(number)));
        let has_evaluation = answer.get("evaluation").is_some_and(|evaluation| !evaluation.is_null());
        let bytes = answer.to_string().len();
        assert!(has_evaluation && bytes > 100_000, "{bytes} bytes: {:?}", answer.get("problem"));
    }
    stream.finish().await.expect("the daemon reads the request");
    assert_eq!(stream.line().await, None);
    assert!(daemon.stop().success());
}

/// Writes a batch whose answers are more than the spool holds, then reads them.
async fn check_unread_batch(world: &DaemonWorld, path: &str, request: &Value, lines: usize) {
    let answers = write_then_read(world, path, format!("{request}\n").repeat(lines)).await;
    let (last, answered) = answers.split_last().expect("a line");
    assert!(answers.len() < lines, "{path}: {}", answers.len());
    assert_eq!(last.pointer("/problem/code"), Some(&json!("client_not_reading")), "{path}: {last}");
    assert_eq!(last.pointer("/problem/answered"), Some(&json!(answered.len())), "{path}");
    assert_eq!(last.get("line"), Some(&json!(answered.len() + 1)), "{path}");
    assert!(answered.iter().all(|answer| answer.get("problem").is_none()), "{path}");
}
