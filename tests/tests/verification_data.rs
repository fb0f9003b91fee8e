//! Real sources that disagree: each country and year that both the United Nations and the World Bank have, verified
//! under each strategy.

use bytes::Bytes;
use domain_base::decimal::Decimal;
use oracled_api::client::DaemonClient;
use oracled_tests::ground::{
    approve, example, ingest, open_pipeline, put_document, query_all, register_all, register_gated,
    started_run, wait_for_run, workflow,
};
use oracled_tests::{DaemonWorld, document, get, post, problem};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

const UN: &str = "un-wpp-population";
const WORLD_BANK: &str = "world-bank-population";
/// The strategies, and whether the sources are of the same tier, which some strategies require.
const STRATEGIES: [(&str, bool); 6] = [
    ("higher_tier_wins", false),
    ("most_recent", true),
    ("use_conservative", true),
    ("weighted_average", true),
    ("dispute_summary", true),
    ("require_human", true),
];
/// A difference that no strategy settles, in people. Used with `higher_tier_wins` for a seventh line.
const THRESHOLD: i64 = 1_000_000;

/// Values of both sources for one country and year.
#[derive(Debug)]
struct PopulationPair {
    area: String,
    year: String,
    un: PopulationValue,
    world_bank: PopulationValue,
}

#[derive(Debug, Clone, PartialEq)]
struct PopulationValue {
    population: Decimal,
    definition: Option<String>,
}

/// Outcome of the verification of a pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PairOutcome {
    /// Both sources have the same value.
    Agreed(Decimal),
    /// The values differ, and the strategy has selected this one.
    Settled(Decimal),
    /// The values have different definitions, and a review is opened.
    OtherDefinition,
    /// The values differ, and a review is opened.
    Escalated,
    /// The values differ, and the envelope reports the dispute.
    Disputed,
    /// Any other outcome.
    Otherwise,
}

impl PopulationPair {
    /// Expected outcome by the values of the sources and the rules of the strategy.
    fn expected(&self, strategy: &str, threshold: Option<i64>) -> PairOutcome {
        let (un, world_bank) = (&self.un.population, &self.world_bank.population);
        if self.un.definition != self.world_bank.definition {
            return if strategy == "dispute_summary" {
                PairOutcome::Disputed
            } else {
                PairOutcome::OtherDefinition
            };
        }
        if un == world_bank {
            return PairOutcome::Agreed(un.clone());
        }
        let (low, high) = (un.min(world_bank), un.max(world_bank));
        let delta = high.checked_sub(low).expect("no overflow");
        if threshold.is_some_and(|threshold| delta > Decimal::from(threshold)) {
            return PairOutcome::Escalated;
        }
        match strategy {
            // the World Bank is primary there, and was ingested last
            "higher_tier_wins" | "most_recent" => PairOutcome::Settled(world_bank.clone()),
            "use_conservative" => PairOutcome::Settled(low.clone()),
            "weighted_average" => PairOutcome::Settled(mean(un, world_bank)),
            "dispute_summary" => PairOutcome::Disputed,
            _ => PairOutcome::Escalated,
        }
    }
}

/// Mean of two whole numbers, rounded half to even.
fn mean(one: &Decimal, other: &Decimal) -> Decimal {
    let sum = one.checked_add(other).expect("no overflow").to_i64().expect("a population is a whole number");
    let half = sum.div_euclid(2);
    let is_odd = sum.rem_euclid(2) == 1;
    Decimal::from(half + i64::from(is_odd && half.rem_euclid(2) == 1))
}

/// The payloads of both sources.
struct PopulationPayloads {
    un: Bytes,
    world_bank: Bytes,
}

impl PopulationPayloads {
    /// Payloads in the folder of real data.
    fn real() -> Self {
        let folder = env::var_os("ORACLED_GROUND_DATA").map(PathBuf::from);
        let folder = folder.expect("ORACLED_GROUND_DATA names the folder").join("population");
        let read = |name: &str| Bytes::from(fs::read(folder.join(name)).expect(name));
        Self { un: read("un-wpp2019.tsv"), world_bank: read("worldbank-2026-03-06.csv") }
    }

    /// A few rows of each, in the formats of the publishers.
    fn excerpt() -> Self {
        let un = "country_code\tname\tyear\tpopulation_thousands\n\
            4\tAfghanistan\t1960\t8996.967\n498\tRepublic of Moldova\t2015\t4070.705\n\
            250\tFrance\t2015\t64453.194\n688\tSerbia\t2015\t8877.053\n8\tAlbania\t1960\t1636.054\n\
            12\tAlgeria\t1960\t11057.864\n24\tAngola\t1960\t5454.938\n";
        let world_bank = "Country Name,Country Code,Year,Value\n\
            Afghanistan,AFG,1960,9035043\nMoldova,MDA,2015,2835978\nFrance,FRA,2015,66548272\n\
            Serbia,SRB,2015,7095383\nAlbania,ALB,1960,1636054\nAlgeria,DZA,1960,11394307\n\
            Angola,AGO,1960,5454939\nAruba,ABW,1960,54922\n";
        Self { un: un.into(), world_bank: world_bank.into() }
    }
}

/// Registers, approves and ingests both sources: the United Nations first, with this tier.
async fn prepare(control: &mut DaemonClient, un_tier: &str, payloads: &PopulationPayloads) {
    let mut ontology = example("ontologies/population.json");
    let axes = ontology["axes"].as_array_mut().expect("the ontology has axes");
    let population = axes.iter_mut().find(|axis| axis["axis"] == "population").expect("the axis exists");
    population["conservative"] = json!("lower");
    let releases =
        [(UN, "2019", "2019-06-17", &payloads.un), (WORLD_BANK, "2026", "2026-03-06", &payloads.world_bank)];
    for (source, version, released_at, payload) in releases {
        let mut registration = example(&format!("sources/{source}.json"));
        if source == UN {
            registration["oracle_tier"] = json!(un_tier);
        }
        let pipeline = open_pipeline(source);
        register_all(control, &ontology, &registration, &pipeline).await;
        approve(control, source).await;
        let run = started_run(&ingest(control, source, version, released_at, payload.clone()).await);
        assert_eq!(wait_for_run(control, &run).await["state"], "completed", "{source}");
    }
}

async fn register(control: &mut DaemonClient, id: &str, resolution: Value) {
    let workflow = workflow(id, &[UN, WORLD_BANK], &json!({"conflict_resolution": resolution}));
    let answer = put_document(control, &format!("/v1/documents/workflow/{id}"), &workflow).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// All values of a source, by area and year.
async fn query_values(
    routes: &mut DaemonClient,
    source: &str,
) -> BTreeMap<(String, String), PopulationValue> {
    let answers = query_all(routes, source, &json!({"axes_requested": ["population"]})).await;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let stated_value = |(record, _): (Value, Value)| {
        let axes = &record["axes"];
        let population = text(&axes["population"]).parse().expect("a number");
        let definition = record["definitions"]["population"].as_str().map(str::to_owned);
        ((text(&axes["area"]), text(&axes["year"])), PopulationValue { population, definition })
    };
    answers.into_iter().map(stated_value).collect()
}

/// Countries and years for which both sources have a value.
async fn pairs(routes: &mut DaemonClient) -> Vec<PopulationPair> {
    let mut un = query_values(routes, UN).await;
    let shared =
        query_values(routes, WORLD_BANK).await.into_iter().filter_map(|((area, year), world_bank)| {
            let un = un.remove(&(area.clone(), year.clone()))?;
            Some(PopulationPair { area, year, un, world_bank })
        });
    shared.collect()
}

/// Outcome of a verification of `pair`, with the envelope.
async fn verify(routes: &mut DaemonClient, workflow: &str, pair: &PopulationPair) -> (PairOutcome, Value) {
    let request = json!({"workflow": workflow, "where": {"area": pair.area, "year": pair.year},
        "axes": ["population"]});
    let answer = post(routes, "/v1/verify", &request).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    let envelope = document(&answer);
    let axis = &envelope["axes"]["population"];
    let value = || axis["value"].as_str().expect("a value").parse::<Decimal>().expect("a number");
    let is_other =
        envelope["reasons"].as_array().is_some_and(|reasons| reasons.contains(&json!("definition_mismatch")));
    let outcome = match envelope["kind"].as_str().expect("the envelope has a kind") {
        "authoritative" if envelope["steps"] == json!([]) => PairOutcome::Agreed(value()),
        "authoritative" => PairOutcome::Settled(value()),
        "human_review" if is_other => PairOutcome::OtherDefinition,
        "human_review" => PairOutcome::Escalated,
        "dispute_summary" => PairOutcome::Disputed,
        _ => PairOutcome::Otherwise,
    };
    if !matches!(outcome, PairOutcome::Agreed(_) | PairOutcome::Settled(_)) {
        assert!(axis.get("value").is_none(), "an axis that is not settled has no value: {envelope}");
    }
    (outcome, envelope)
}

/// Prints a line of the table.
fn print_line(name: &str, outcomes: &[PairOutcome]) {
    let count = |is: fn(&PairOutcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    println!(
        "| {name} | {} | {} | {} | {} | {} |",
        count(|outcome| matches!(outcome, PairOutcome::Agreed(_))),
        count(|outcome| matches!(outcome, PairOutcome::Settled(_))),
        count(|outcome| matches!(outcome, PairOutcome::Escalated)),
        count(|outcome| matches!(outcome, PairOutcome::Disputed)),
        count(|outcome| matches!(outcome, PairOutcome::OtherDefinition)),
    );
}

/// Prints the values and definitions of both sources.
fn print_definitions(envelope: &Value) {
    for candidate in envelope["candidates"].as_array().into_iter().flatten() {
        let stated = &candidate["values"]["population"];
        println!(
            "{} {}: {} {}",
            envelope["where"], candidate["oracle_id"], stated["value"], stated["definition"]
        );
    }
}

/// Verifies every pair under each strategy, and checks and prints the outcomes.
async fn verify_with_strategies(payloads: &PopulationPayloads) -> BTreeMap<String, Vec<PairOutcome>> {
    let mut table = BTreeMap::new();
    for same_tier in [false, true] {
        let world = DaemonWorld::default();
        let daemon = world.serve().await;
        prepare(&mut daemon.control().await, if same_tier { "primary" } else { "secondary" }, payloads).await;
        let pairs = pairs(&mut daemon.routes().await).await;
        let field = if same_tier { "same_tier_strategy" } else { "default_strategy" };
        let mut lines: Vec<_> =
            STRATEGIES.iter().filter(|(_, same)| *same == same_tier).map(|(name, _)| (*name, None)).collect();
        if !same_tier {
            lines.push(("higher_tier_wins", Some(THRESHOLD)));
        }
        for (strategy, threshold) in lines {
            let name =
                threshold.map_or_else(|| strategy.to_owned(), |most| format!("{strategy}, up to {most}"));
            let id = strategy.replace('_', "-") + if threshold.is_some() { "-bounded" } else { "" };
            let mut resolution = json!({field: strategy});
            if let Some(threshold) = threshold {
                resolution["escalation_delta_threshold"] = json!(threshold);
            }
            register(&mut daemon.control().await, &id, resolution).await;
            let routes = &mut daemon.routes().await;
            let mut outcomes = Vec::new();
            for pair in &pairs {
                let (outcome, envelope) = verify(routes, &id, pair).await;
                assert_eq!(outcome, pair.expected(strategy, threshold), "{name}: {pair:?} {envelope}");
                if outcome == PairOutcome::OtherDefinition
                    && pair.year == "2015"
                    && strategy == "require_human"
                {
                    print_definitions(&envelope);
                }
                outcomes.push(outcome);
            }
            print_line(&name, &outcomes);
            table.insert(name, outcomes);
        }
        assert!(daemon.stop().success());
    }
    table
}

#[tokio::test]
async fn shared_values_match_each_strategy_and_definitions_are_never_settled() {
    let table = verify_with_strategies(&PopulationPayloads::excerpt()).await;
    assert_eq!(table.len(), STRATEGIES.len() + 1);
    for (name, outcomes) in table {
        assert_eq!(outcomes.len(), 7, "{name}");
        assert_eq!(
            outcomes.iter().filter(|outcome| matches!(outcome, PairOutcome::Agreed(_))).count(),
            1,
            "{name}"
        );
        let other = outcomes.iter().filter(|outcome| matches!(outcome, PairOutcome::OtherDefinition)).count();
        assert_eq!(other, if name == "dispute_summary" { 0 } else { 3 }, "{name}");
    }
}

#[tokio::test]
#[ignore = "needs real data: ORACLED_GROUND_DATA names the folder"]
async fn shared_values_in_real_data_match_each_strategy() {
    let table = verify_with_strategies(&PopulationPayloads::real()).await;
    for (name, outcomes) in table {
        assert_eq!(outcomes.len(), 2529, "{name}");
    }
}

#[tokio::test]
async fn resolution_requires_a_definition_and_its_value_has_it() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    prepare(control, "primary", &PopulationPayloads::excerpt()).await;
    let settings = json!({"axes": ["area_name", "population"],
        "conflict_resolution": {"same_tier_strategy": "require_human"}});
    let people = workflow("people", &[UN, WORLD_BANK], &settings);
    assert_eq!(put_document(control, "/v1/documents/workflow/people", &people).await.status, 200);
    let request = json!({"workflow": "people", "where": {"area": "MDA", "year": 2015},
        "axes": ["area_name", "population"]});
    let disputed = document(&post(routes, "/v1/verify", &request).await);
    let reasons = &disputed["axes"]["population"]["reasons"];
    assert!(reasons.as_array().expect("at least one").contains(&json!("definition_mismatch")), "{disputed}");
    let path = format!("/v1/reviews/{}", disputed["review_id"].as_str().expect("a review is open"));
    let review = document(&get(control, &path).await);
    let mut resolution =
        json!({"values": {"population": 2_835_978}, "reason": "the census", "valid_for_seconds": 3600});
    if review["review"]["axes"].get("area_name").is_some() {
        resolution["values"]["area_name"] = json!("Moldova");
    }
    let resolve = format!("{path}/resolve");
    let rejection = problem(&post(control, &resolve, &resolution).await, 400, "invalid_resolution");
    let detail = rejection["detail"].as_str().expect("the problem has a detail");
    assert!(detail.starts_with("`definitions.population` "), "{detail}");
    assert!(detail.ends_with("`with Transnistria`, `without Transnistria`"), "{detail}");
    resolution["definitions"] = json!({"population": "without Transnistria"});
    assert_eq!(post(control, &resolve, &resolution).await.status, 200);
    let decided = document(&post(routes, "/v1/verify", &request).await);
    let axis = &decided["axes"]["population"];
    assert_eq!(
        (&axis["value"], &axis["definition"]),
        (&json!("2835978"), &json!("without Transnistria")),
        "{decided}"
    );
    for (text, verdict) in [
        ("The population of Moldova without Transnistria in 2015 was 2,835,978.", "PASS"),
        ("The population of Moldova in 2015 was 2,835,978.", "FAIL"),
    ] {
        let body = json!({"candidate_output": text, "facts_from": [{"verify": request}], "rules": ["RULE-PREC-013"]});
        let evaluation = document(&post(routes, "/v1/rules/evaluate", &body).await);
        assert_eq!(evaluation["verdict"], verdict, "{text}: {evaluation}");
    }
}

/// Tests the workflow `population-latest`, which selects the most recent source, as of the day after the United
/// Nations' release of 2019. The later releases of the World Bank are ingested, but must not affect any answer.
#[tokio::test]
#[ignore = "needs real data: ORACLED_GROUND_DATA names the folder"]
async fn most_recent_source_of_2019_in_real_data_is_the_newest_release_of_then() {
    const AS_OF: &str = "2019-07-01";
    let folder = env::var_os("ORACLED_GROUND_DATA").map(PathBuf::from);
    let folder = folder.expect("ORACLED_GROUND_DATA names the folder").join("population");
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for source in [UN, WORLD_BANK] {
        register_gated(control, source).await;
        approve(control, source).await;
    }
    for (source, version, released_at, file) in [
        (UN, "2019", "2019-06-17", "un-wpp2019.tsv"),
        (WORLD_BANK, "2017", "2017-10-26", "worldbank-2017-10-26.csv"),
        (WORLD_BANK, "2020", "2020-04-14", "worldbank-2020-04-14.csv"),
        (WORLD_BANK, "2023", "2023-05-04", "worldbank-2023-05-04.csv"),
        (WORLD_BANK, "2026", "2026-03-06", "worldbank-2026-03-06.csv"),
    ] {
        let payload = fs::read(folder.join(file)).expect(file);
        let run = started_run(&ingest(control, source, version, released_at, payload).await);
        assert_eq!(wait_for_run(control, &run).await["state"], "completed", "{source} {version}");
    }
    let latest = example("workflows/population-latest.json");
    assert_eq!(put_document(control, "/v1/documents/workflow/population-latest", &latest).await.status, 200);
    let routes = &mut daemon.routes().await;
    let request = json!({"axes_requested": ["population"], "point_in_time": AS_OF});
    let stated_values = |answers: Vec<(Value, Value)>| {
        let key = |axes: &Value| (axes["area"].to_string(), axes["year"].to_string());
        answers.into_iter().map(|(record, _)| (key(&record["axes"]), record)).collect::<BTreeMap<_, _>>()
    };
    let un = stated_values(query_all(routes, UN, &request).await);
    let world_bank = stated_values(query_all(routes, WORLD_BANK, &request).await);
    let (mut authoritative, mut of_the_un) = (0, 0);
    for (key, record) in un.iter().filter(|(key, _)| world_bank.contains_key(*key)) {
        let request = json!({"workflow": "population-latest", "axes": ["population"], "point_in_time": AS_OF,
            "where": {"area": record["axes"]["area"], "year": record["axes"]["year"]}});
        let envelope = document(&post(routes, "/v1/verify", &request).await);
        if envelope["kind"] != "authoritative" {
            continue;
        }
        authoritative += 1;
        of_the_un += i32::from(envelope["axes"]["population"]["value"] == record["axes"]["population"]);
        assert_eq!(
            envelope["axes"]["population"]["value"], record["axes"]["population"],
            "{key:?}: {envelope}"
        );
        for candidate in envelope["candidates"].as_array().into_iter().flatten() {
            let observed_at = candidate["observed_at"].as_str().unwrap_or_default();
            assert!(observed_at < AS_OF, "{key:?}: {envelope}");
        }
    }
    println!("as of {AS_OF}: {authoritative} authoritative, {of_the_un} by the United Nations");
    assert_eq!((authoritative, of_the_un), (2297, 2297));
}
