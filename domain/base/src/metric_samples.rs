//! The samples in OpenMetrics text, as `/metrics` has it.

use std::collections::BTreeMap;

/// The labels of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricLabels(BTreeMap<String, String>);

impl MetricLabels {
    /// The value of a label; `None` if the sample lacks it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether the label has this value.
    #[must_use]
    pub fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }
}

/// One sample of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    pub name: String,
    pub labels: MetricLabels,
    pub value: f64,
}

/// The samples in `text`. Lines that are not samples are skipped.
pub fn parse_samples(text: &str) -> impl Iterator<Item = MetricSample> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(parse_line)
}

fn parse_line(line: &str) -> Option<MetricSample> {
    let (name, rest) = line.split_at_checked(line.find(['{', ' '])?)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (MetricLabels::default(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(MetricSample { name: name.to_owned(), labels, value })
}

/// The labels before `}`, and the rest of the line.
fn parse_labels(text: &str) -> Option<(MetricLabels, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((MetricLabels(labels), rest));
        }
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut characters) = (String::new(), after.chars());
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => match characters.next()? {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                character => value.push(character),
            }
        }
        rest = characters.as_str();
        labels.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_escaped_labels() {
        let text = "# TYPE a counter\na_total{x=\"1\",y=\"q\\\"{}\\\\\\n\"} 3\na_total{x=\"2\"} 4 # {} 1\nb 0.5\n\
                    h_bucket{le=\"+Inf\"} 5\nbroken{\nbroken{x=\"1\nbroken x\n# EOF\n";
        let samples: Vec<_> = parse_samples(text).collect();
        let short: Vec<_> = samples.iter().map(|sample| (sample.name.as_str(), sample.value)).collect();
        assert_eq!(short, [("a_total", 3.0), ("a_total", 4.0), ("b", 0.5), ("h_bucket", 5.0)]);
        assert_eq!(samples[0].labels.get("y"), Some("q\"{}\\\n"));
        assert!(samples[1].labels.is("x", "2") && samples[2].labels.get("x").is_none());
    }
}
