//! The daemon's metrics, read from their text (OpenMetrics).

use std::collections::BTreeMap;

/// One sample of a metric.
#[derive(Debug, Clone, PartialEq)]
struct MetricSample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The samples of one scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(Vec<MetricSample>);

impl Metrics {
    /// The samples in `text`. Lines that are not samples are skipped.
    pub(crate) fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(parse_line).collect())
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &MetricSample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// The sum of the samples of `name`; `None` if there are none.
    pub(crate) fn sum(&self, name: &str) -> Option<f64> {
        let mut values = self.named(name).map(|sample| sample.value);
        let first = values.next()?;
        Some(values.fold(first, |sum, value| sum + value))
    }

    /// The sums of the samples of `name`, by the values of `labels`.
    pub(crate) fn sums_by<const N: usize>(
        &self,
        name: &str,
        labels: [&str; N],
    ) -> BTreeMap<[String; N], f64> {
        let mut sums = BTreeMap::new();
        for sample in self.named(name) {
            let values = labels.map(|label| sample.labels.get(label).cloned().unwrap_or_default());
            *sums.entry(values).or_default() += sample.value;
        }
        sums
    }

    /// The buckets of a histogram: upper limits with the number of values in each, in order.
    pub(crate) fn buckets(&self, histogram: &str) -> Vec<(String, f64)> {
        let name = format!("{histogram}_bucket");
        let mut below = 0.0;
        let buckets = self.named(&name).filter_map(|sample| Some((sample.labels.get("le")?, sample.value)));
        buckets
            .map(|(limit, total)| {
                let own = total - below;
                below = total;
                (limit.clone(), own)
            })
            .collect()
    }
}

fn parse_line(line: &str) -> Option<MetricSample> {
    let name_length = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(name_length)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(MetricSample { name: name.to_owned(), labels, value })
}

/// The labels before `}`, and the rest of the line.
fn parse_labels(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut is_escaped, mut end) = (String::new(), false, None);
        for (at, character) in after.char_indices() {
            match character {
                'n' if is_escaped => value.push('\n'),
                _ if is_escaped => value.push(character),
                '\\' => {}
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                _ => value.push(character),
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        rest = after.get(end?..)?;
        labels.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE a counter\na_total{x=\"1\",y=\"q\\\"{}\\\\\"} 3\na_total{x=\"2\"} 4 # {} 1\nb 0.5\n\
                        h_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 5\nbroken{\nz{x=\"3\"} 0\n# EOF\n";

    #[test]
    fn samples_are_read_with_escaped_labels() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(
            (metrics.sum("a_total"), metrics.sum("b"), metrics.sum("c")),
            (Some(7.0), Some(0.5), None)
        );
        let by_y = metrics.sums_by("a_total", ["y"]);
        assert_eq!(by_y, [([String::new()], 4.0), (["q\"{}\\".to_owned()], 3.0)].into());
    }

    #[test]
    fn buckets_have_their_own_counts() {
        let buckets = Metrics::parse(TEXT).buckets("h");
        assert_eq!(buckets, [("0.1".to_owned(), 1.0), ("+Inf".to_owned(), 4.0)]);
    }
}
