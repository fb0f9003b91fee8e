//! Metrics whose values are read at each scrape. Each feature has its own.

use super::problem::Problem;
use super::service::DaemonService;
use std::fmt::{Display, Write};
use std::pin::Pin;
use std::sync::Arc;

/// Reads the metrics of a feature.
pub(crate) type MetricsReader =
    fn(&Arc<DaemonService>) -> Pin<Box<dyn Future<Output = Result<MetricsText, Problem>> + Send + '_>>;

/// The readers of the features, with the names of these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScrapedMetrics(pub(crate) &'static [(&'static str, MetricsReader)]);

/// Metrics as OpenMetrics text, without its end.
#[derive(Debug, Default)]
pub(crate) struct MetricsText(String);

impl MetricsText {
    /// Adds a gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [("", value)]);
    }

    /// Adds the samples of a gauge, each with its labels (`oracle="model"`).
    pub(crate) fn gauges<L: Display, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "gauge", help, samples);
    }

    /// Adds the samples of a counter, each with its labels.
    pub(crate) fn counters<L: Display, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "counter", help, samples);
    }

    fn family<L: Display, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        let mut text = format!("# HELP oracled_{name} {help}.\n# TYPE oracled_{name} {kind}\n");
        for (labels, value) in samples {
            let labels = labels.to_string();
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            writeln!(text, "oracled_{name}{suffix}{labels} {value}").expect("a text can be extended");
        }
        self.0.push_str(&text);
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
