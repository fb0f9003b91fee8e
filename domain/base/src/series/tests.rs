use super::*;

const fn series(name: &'static str, metric: &'static str, measure: SeriesMeasure) -> MetricSeries {
    let unit = SeriesUnit::Items;
    MetricSeries { name, title: name, unit, metric, filter: |_| true, by: None, measure }
}

static JUDGED: MetricSeries = MetricSeries {
    filter: |labels| !labels.is("path", "try"),
    by: Some("tier"),
    ..series("judged", "judged_total", SeriesMeasure::RatePerMinute)
};
static APPROVED: MetricSeries = MetricSeries {
    filter: JUDGED.filter,
    ..series("approved", "judged_total", SeriesMeasure::Share(|labels| labels.is("reason", "pass")))
};
static WAITING: MetricSeries = series("waiting", "orders", SeriesMeasure::Highest);
static OPEN: MetricSeries = series("open", "circuit", SeriesMeasure::Mean);
static AGE: MetricSeries = series("age", "opened_timestamp_seconds", SeriesMeasure::Age);
static MEDIAN: MetricSeries = series("p50", "call_seconds", SeriesMeasure::Quantile(0.5));

fn all() -> SeriesHistory {
    SeriesHistory::new(vec![&JUDGED, &APPROVED, &WAITING, &OPEN, &AGE, &MEDIAN])
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// The text of a scrape: passed and failed judgments, and the value of all gauges.
fn scrape(passed: u64, failed: u64, gauge: u64) -> String {
    format!(
        "oracled_judged_total{{tier=\"full\",path=\"submit\",reason=\"pass\"}} {passed}\n\
         oracled_judged_total{{tier=\"full\",path=\"submit\",reason=\"low\"}} {failed}\n\
         oracled_judged_total{{tier=\"full\",path=\"try\",reason=\"low\"}} 1000\n\
         oracled_orders{{state=\"queued\"}} {gauge}\noracled_circuit {gauge}\n"
    )
}

/// The last `number` values of the series `name`.
fn last(
    history: &SeriesHistory,
    name: &str,
    (range, now): (SeriesRange, i64),
    number: usize,
) -> Vec<Option<f64>> {
    let answer = history.read(range, at(now));
    let found = answer.series.into_iter().find(|series| series.name == name);
    found.map_or_else(Vec::new, |series| series.values[series.values.len() - number..].to_vec())
}

#[test]
fn values_are_rates_shares_maxima_and_means_of_their_steps() {
    let mut history = all();
    for (second, passed, failed, gauge) in
        [(600, 5, 5, 0), (620, 8, 5, 4), (640, 8, 6, 1), (660, 8, 6, 1), (690, 10, 8, 3)]
    {
        history.add(&scrape(passed, failed, gauge), at(second));
    }
    let hour = (SeriesRange::Hour, 719);
    assert_eq!(last(&history, "judged", hour, 3), [None, Some(6.0), Some(4.8)]);
    assert_eq!(last(&history, "approved", hour, 3), [None, Some(0.75), Some(0.5)]);
    assert_eq!(last(&history, "waiting", hour, 3), [None, Some(4.0), Some(3.0)]);
    assert_eq!(last(&history, "open", hour, 3), [None, Some(1.666_667), Some(2.0)]);
    assert_eq!(last(&history, "waiting", (SeriesRange::Day, 719), 2), [None, Some(4.0)]);
    // no scrape was added since
    assert_eq!(last(&history, "waiting", (SeriesRange::Hour, 780), 3), [Some(3.0), None, None]);
    let answer = history.read(SeriesRange::Hour, at(719));
    assert_eq!((answer.start, answer.step_s), (at(660 - 59 * 60), 60));
    assert_eq!(answer.series[0].labels, [("tier".to_owned(), "full".to_owned())].into());
}

#[test]
fn counter_that_starts_again_counts_from_zero() {
    let mut history = all();
    history.add(&scrape(100, 0, 0), at(0));
    history.add(&scrape(3, 0, 0), at(60));
    assert_eq!(last(&history, "judged", (SeriesRange::Hour, 60), 2), [None, Some(3.0)]);
    history.add(&scrape(3, 0, 0), at(120));
    assert_eq!(last(&history, "approved", (SeriesRange::Hour, 120), 2), [Some(1.0), None]);
}

#[test]
fn quantile_is_interpolated_and_absent_without_calls() {
    let text = |counts: [u64; 3]| {
        let [low, high, all] = counts;
        format!(
            "oracled_call_seconds_bucket{{le=\"1.0\"}} {low}\noracled_call_seconds_bucket{{le=\"2.0\"}} {high}\n\
             oracled_call_seconds_bucket{{le=\"+Inf\"}} {all}\n"
        )
    };
    let mut history = all();
    for (second, counts) in [(0, [9, 9, 9]), (60, [9, 13, 13]), (120, [9, 13, 13]), (180, [9, 13, 15])] {
        history.add(&text(counts), at(second));
    }
    assert_eq!(last(&history, "p50", (SeriesRange::Hour, 180), 3), [Some(1.5), None, Some(2.0)]);
    // both parts of the step count
    assert_eq!(last(&history, "p50", (SeriesRange::Day, 180), 1), [Some(1.75)]);
}

#[test]
fn age_is_zero_without_a_time() {
    let mut history = all();
    history.add("", at(60));
    history.add("oracled_opened_timestamp_seconds 90\n", at(120));
    assert_eq!(last(&history, "age", (SeriesRange::Hour, 120), 2), [Some(0.0), Some(30.0)]);
}

#[test]
fn history_survives_a_restart_and_drops_undeclared_series() {
    let mut history = all();
    history.add(&scrape(0, 0, 7), at(60));
    let mut restored = SeriesHistory::new(vec![&WAITING]);
    restored.restore(&history.to_json()).expect("it is a history");
    assert_eq!(last(&restored, "waiting", (SeriesRange::Week, 60), 1), [Some(7.0)]);
    assert_eq!(restored.read(SeriesRange::Hour, at(60)).series.len(), 1);
    assert!(restored.restore(b"{\"hour\": 1}").is_err());
}

#[test]
fn ring_forgets_old_steps_and_those_after_a_clock_that_was_set_back() {
    let mut history = all();
    for (second, gauge) in [(0, 1), (60, 2), (120, 3)] {
        history.add(&scrape(0, 0, gauge), at(second));
    }
    history.add(&scrape(0, 0, 4), at(60));
    let hour = |now| (SeriesRange::Hour, now);
    assert_eq!(last(&history, "waiting", hour(120), 3), [Some(1.0), Some(4.0), None]);
    assert!(history.read(SeriesRange::Hour, at(60 * 62)).series.is_empty());
}
