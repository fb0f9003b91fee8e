//! A report as a picture: approval bars, and for each tier the histogram of C with Ω between its bins.

use super::super::xml::Xml;
use super::histogram::{Bin, edge};
use super::report::{Approval, Report};
use oracled_domain::Tier;
use oracled_domain::verdict::tmm::OMEGA;
use std::fmt;
use std::path::Path;

// all lengths are in the picture's own units, one a pixel at its natural size
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 40.0;
/// Where bars and histograms begin, right of their labels.
const PLOT_LEFT: f64 = 176.0;
const PLOT_RIGHT: f64 = WIDTH - MARGIN;
const APPROVALS_TOP: f64 = 116.0;
const APPROVAL_ROW: f64 = 30.0;
/// Where an approval bar ends and its words begin.
const APPROVAL_RIGHT: f64 = PLOT_RIGHT - 190.0;
const PANEL_HEIGHT: f64 = 118.0;
/// From one panel's foot to the next one's head: room for the number on a full bar.
const PANEL_GAP: f64 = 34.0;
/// Between the groups of bins: piles apart from ranges, and refused apart from approved.
const BIN_GAP: f64 = 20.0;
const BIN_PADDING: f64 = 3.0;
/// Shares are ruled in steps of this, up to the first above the highest bar.
const SHARE_STEP: f64 = 0.25;

const STYLE: &str = "
  text { font-family: system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-size: 13px }
  .head { font-size: 22px; font-weight: 600 }
  .part { font-size: 15px; font-weight: 600 }
  .small { font-size: 11.5px }
  .end { text-anchor: end } .mid { text-anchor: middle }
  .card { fill: #ffffff } .ink { fill: #1d2733 } .dim { fill: #5b6875 } .track { fill: #e8ecf0 }
  .pass { fill: #2f7cb5 } .fail { fill: #d07a2d }
  .rule { stroke: #dde3e8 } .base { stroke: #8a96a3 } .omega { stroke: #1d2733; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #12181f } .ink { fill: #e4e9ee } .dim { fill: #9aa7b4 } .track { fill: #232c36 }
    .pass { fill: #5aa5dc } .fail { fill: #e29a55 }
    .rule { stroke: #28323d } .base { stroke: #66727f } .omega { stroke: #e4e9ee }
  }
";

/// The picture of `report`, a whole SVG document that needs nothing beside it.
pub(super) fn of(report: &Report) -> String {
    let tiers: Vec<(&str, &Approval, Tier)> = Tier::ALL
        .into_iter()
        .map(|tier| (tier.as_str(), report.approval.of(tier), tier))
        .filter(|(_, approval, _)| approval.verdicts > 0)
        .collect();
    let panels_top = APPROVALS_TOP + APPROVAL_ROW * (tiers.len() + 1) as f64 + 90.0;
    let panels_bottom = panels_top + (PANEL_HEIGHT + PANEL_GAP) * tiers.len() as f64 - PANEL_GAP;
    let height = panels_bottom + 76.0;
    let view = format!("0 0 {WIDTH} {height}");
    let root: [(&'static str, &dyn fmt::Display); 7] = [
        ("xmlns", &"http://www.w3.org/2000/svg"),
        ("viewBox", &view),
        ("width", &WIDTH),
        ("height", &height),
        ("role", &"img"),
        ("aria-labelledby", &"title"),
        ("aria-describedby", &"desc"),
    ];
    let mut svg = Xml::default();
    svg.element("svg", &root, |svg| {
        heading(svg, report, height);
        approvals(svg, report, &tiers);
        histogram_heading(svg, panels_top - 52.0);
        let scale = Scale::of(report);
        let mut top = panels_top;
        for (name, approval, tier) in &tiers {
            panel(svg, &Panel { name, tier: *tier, verdicts: approval.verdicts, top }, report, scale);
            top += PANEL_HEIGHT + PANEL_GAP;
        }
        omega(svg, &scale, panels_top, panels_bottom);
        axis(svg, report.histogram.bins(), &scale, panels_bottom);
    });
    svg.take()
}

fn heading(svg: &mut Xml, report: &Report, height: f64) {
    let all = &report.approval.all;
    let title = format!("Crosscheck calibration: {} of {} verdicts approved", all.approved, all.verdicts);
    let shares = Tier::ALL.map(|tier| format!("{tier}: {}", outcome(report.approval.of(tier))));
    // where the corpus lies is nobody's business who sees the picture
    let corpus = Path::new(&report.corpus).file_name().unwrap_or_default().to_string_lossy();
    let below = format!("{corpus}, judged at Ω = {:.5}, Φ = {}", report.threshold, report.phi);
    svg.words("title", &[("id", &"title")], &title);
    svg.words("desc", &[("id", &"desc")], shares.join("; "));
    svg.words("style", &[], STYLE);
    svg.leaf("rect", &[("class", &"card"), ("width", &WIDTH), ("height", &height), ("rx", &12)]);
    svg.words("text", &[("class", &"head ink"), ("x", &MARGIN), ("y", &52)], &title);
    svg.words("text", &[("class", &"dim"), ("x", &MARGIN), ("y", &76)], below);
}

/// `78 of 100 (78.0 %)`
fn outcome(approval: &Approval) -> String {
    let rate = approval.approval_rate.map(|rate| format!(" ({:.1} %)", rate * 100.0));
    format!("{} of {}{}", approval.approved, approval.verdicts, rate.unwrap_or_default())
}

fn approvals(svg: &mut Xml, report: &Report, tiers: &[(&str, &Approval, Tier)]) {
    let width = APPROVAL_RIGHT - PLOT_LEFT;
    let all = [("all tiers", &report.approval.all)];
    let rows = all.into_iter().chain(tiers.iter().map(|(name, approval, _)| (*name, *approval)));
    let mut y = APPROVALS_TOP;
    for (name, approval) in rows {
        let passed = approval.approval_rate.unwrap_or_default() * width;
        let words_y = Px(y + 13.5);
        svg.words("text", &[("class", &"ink"), ("x", &MARGIN), ("y", &words_y)], name);
        bar(svg, "track", [PLOT_LEFT, y, width, 18.0]);
        bar(svg, "pass", [PLOT_LEFT, y, passed, 18.0]);
        let x = Px(APPROVAL_RIGHT + 16.0);
        svg.words("text", &[("class", &"ink"), ("x", &x), ("y", &words_y)], outcome(approval));
        y += APPROVAL_ROW;
    }
}

fn histogram_heading(svg: &mut Xml, y: f64) {
    let words = "Coherence C, as a share of each tier's verdicts";
    svg.words("text", &[("class", &"part ink"), ("x", &MARGIN), ("y", &Px(y))], words);
    for (class, word, right) in [("fail", "refused", 170.0), ("pass", "approved", 84.0)] {
        let x = PLOT_RIGHT - right;
        bar(svg, class, [x, y - 10.5, 12.0, 12.0]);
        svg.words("text", &[("class", &"dim"), ("x", &Px(x + 18.0)), ("y", &Px(y))], word);
    }
}

/// Where things stand that the panels share.
#[derive(Clone, Copy)]
struct Scale {
    /// The share at a panel's head.
    highest_share: f64,
    /// The width of a bin.
    bin: f64,
    /// How many bins lie below Ω.
    below_omega: usize,
    /// The last bin.
    last: usize,
}

impl Scale {
    fn of(report: &Report) -> Self {
        let bins = report.histogram.bins();
        let share = |tier: Tier| {
            let highest = bins.iter().map(|bin| *bin.verdicts.of(tier)).max().unwrap_or_default();
            highest as f64 / report.approval.of(tier).verdicts.max(1) as f64
        };
        let highest = Tier::ALL.into_iter().map(share).fold(0.0, f64::max);
        Self {
            highest_share: ((highest / SHARE_STEP).ceil() * SHARE_STEP).max(SHARE_STEP),
            bin: (PLOT_RIGHT - PLOT_LEFT - 3.0 * BIN_GAP) / bins.len().max(1) as f64,
            below_omega: bins.iter().filter(|bin| !bin.at_least_omega).count(),
            last: bins.len().saturating_sub(1),
        }
    }

    /// The left end of the bin `index`: the two below zero, those up to Ω, those above it, and C = 1.
    fn x(&self, index: usize) -> f64 {
        let gaps = [2, self.below_omega, self.last].into_iter().filter(|first| index >= *first).count();
        PLOT_LEFT + self.bin * index as f64 + BIN_GAP * gaps as f64
    }
}

/// One tier's histogram.
struct Panel<'a> {
    name: &'a str,
    tier: Tier,
    verdicts: u64,
    top: f64,
}

fn panel(svg: &mut Xml, panel: &Panel<'_>, report: &Report, scale: Scale) {
    let bottom = panel.top + PANEL_HEIGHT;
    let y = |share: f64| bottom - PANEL_HEIGHT * share / scale.highest_share;
    svg.words("text", &[("class", &"part ink"), ("x", &MARGIN), ("y", &Px(panel.top + 12.0))], panel.name);
    let count = format!("{} verdicts", panel.verdicts);
    svg.words("text", &[("class", &"dim small"), ("x", &MARGIN), ("y", &Px(panel.top + 30.0))], count);
    let mut share = 0.0;
    while share <= scale.highest_share {
        let class = if share == 0.0 { "base" } else { "rule" };
        rule(svg, class, [PLOT_LEFT, y(share), PLOT_RIGHT, y(share)]);
        if share == 0.0 || share == scale.highest_share {
            let label = format!("{:.0} %", share * 100.0);
            let at = (Px(PLOT_LEFT - 10.0), Px(y(share) + 4.0));
            svg.words("text", &[("class", &"dim small end"), ("x", &at.0), ("y", &at.1)], label);
        }
        share += SHARE_STEP;
    }
    for (index, bin) in report.histogram.bins().iter().enumerate() {
        let count = *bin.verdicts.of(panel.tier);
        if count > 0 {
            let top = y(count as f64 / panel.verdicts.max(1) as f64);
            column(svg, bin, count, [scale.x(index), top, scale.bin, bottom - top]);
        }
    }
}

/// One bin's bar with its count above it.
fn column(svg: &mut Xml, bin: &Bin, count: u64, [x, y, width, height]: [f64; 4]) {
    let class = if bin.at_least_omega { "pass" } else { "fail" };
    // what is there is seen
    let height = height.max(1.5);
    bar(svg, class, [x + BIN_PADDING, y, width - 2.0 * BIN_PADDING, height]);
    let at = (Px(x + width / 2.0), Px(y - 5.0));
    svg.words("text", &[("class", &"ink small mid"), ("x", &at.0), ("y", &at.1)], count);
}

/// The threshold, through all panels.
fn omega(svg: &mut Xml, scale: &Scale, top: f64, bottom: f64) {
    let x = scale.x(scale.below_omega) - BIN_GAP / 2.0;
    rule(svg, "omega", [x, top - 14.0, x, bottom + 8.0]);
    let at = (Px(x), Px(top - 20.0));
    svg.words("text", &[("class", &"ink mid"), ("x", &at.0), ("y", &at.1)], format!("Ω = {OMEGA:.5}"));
}

/// The edges of the bins, below the last panel.
fn axis(svg: &mut Xml, bins: &[Bin], scale: &Scale, bottom: f64) {
    let mut tick = |x: f64, class: &str, label: String| {
        let class = format!("small mid {class}");
        svg.words("text", &[("class", &class), ("x", &Px(x)), ("y", &Px(bottom + 22.0))], label);
    };
    for (index, bin) in bins.iter().enumerate() {
        let (x, middle) = (scale.x(index), scale.x(index) + scale.bin / 2.0);
        if index < 2 || index == scale.last {
            let piles = ["≤ −1", "< 0"];
            tick(middle, "dim", piles.get(index).map_or_else(|| "1".to_owned(), |pile| (*pile).to_owned()));
        } else if index == scale.below_omega {
            tick(x - BIN_GAP / 2.0, "ink", edge(bin.from.unwrap_or_default()));
        } else {
            tick(x, "dim", edge(bin.from.unwrap_or_default()));
        }
    }
    let note = "Bins are narrower above Ω, where all that is approved lies.";
    let at = (MARGIN, Px(bottom + 52.0));
    svg.words("text", &[("class", &"dim small"), ("x", &at.0), ("y", &at.1)], note);
}

fn bar(svg: &mut Xml, class: &'static str, [x, y, width, height]: [f64; 4]) {
    let [x, y, width, height] = [x, y, width, height].map(Px);
    let rect: [(&'static str, &dyn fmt::Display); 6] =
        [("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height), ("rx", &2)];
    svg.leaf("rect", &rect);
}

fn rule(svg: &mut Xml, class: &'static str, [x1, y1, x2, y2]: [f64; 4]) {
    let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(Px);
    svg.leaf("line", &[("class", &class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
}

/// A length, written with one decimal.
#[derive(Clone, Copy)]
struct Px(f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}
