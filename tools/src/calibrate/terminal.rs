//! A report for people: tables, and a histogram of C drawn with block characters.

use super::report::{
    ApprovalCounts, CalibrationReport, CoherenceBin, FlagOccurrences, FlagTotal, FlagTrials, TierTotals,
};
use comfy_table::{Cell, Color, ContentArrangement, Table};
use domain_base::visible::visible_line;
use domain_verdict::label::ProductTier;
use oracled_ctl::base::output::shorten_line;
use oracled_ctl::base::output_style::{OutputStyle, write_section};
use std::io::{self, Write};

/// Maximum length of a bar, in columns.
const BAR_MAX: usize = 50;
/// Minimum space for bars, in columns.
const BAR_MIN: usize = 8;
/// Columns of padding around a cell.
const PADDING: usize = 2;
/// Maximum number of listed places of a flag.
const PLACES_LISTED: usize = 6;
/// Maximum length of a place's name, in characters.
const PLACE_CHARS: usize = 28;
/// Blocks from an eighth of a column to a whole one.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Writes `report` to `out`.
pub(crate) fn write(out: &mut dyn Write, report: &CalibrationReport, look: OutputStyle) -> io::Result<()> {
    let all = &report.approval.all;
    let name = visible_line(&report.corpus);
    writeln!(out, "{name}: {} verdicts, {} approved, {} rejected", all.verdicts, all.approved, all.refused)?;
    write_section(out, "Approval by tier", &approval_table(&report.approval, look))?;
    let title = format!("Coherence C (bins are narrower above Ω = {:.5})", report.threshold);
    write_section(out, &title, &histogram_table(report, look))?;
    write_nearest(out, report)?;
    write_section(out, "Reasons", &reason_table(report, look))?;
    write_section(out, "Flags", &flag_table(report, look))?;
    write_section(out, "Flags by place", &flag_place_table(report, look))?;
    write_section(out, &approval_flip_title(report), &approval_flip_table(report, look))?;
    write_section(out, &refusal_flip_title(report), &refusal_flip_table(report, look))
}

fn approval_table(approval: &TierTotals<ApprovalCounts>, look: OutputStyle) -> Table {
    let header = ["tier", "verdicts", "approved", "rejected", "rate"];
    let width = bar_width(look, header.iter().map(|name| name.len().max("strategy".len())));
    let mut table = look.table(&[&header[..], &[""]].concat(), &[0, 5]);
    for (tier, of_tier) in approval.named_values() {
        let rate = of_tier.approval_rate.map(|rate| format!("{:.1} %", rate * 100.0));
        table.add_row([
            Cell::new(tier),
            Cell::new(of_tier.verdicts),
            Cell::new(of_tier.approved),
            Cell::new(of_tier.refused),
            Cell::new(rate.as_deref().unwrap_or("-")),
            Cell::new(draw_bar(of_tier.approved, of_tier.verdicts, width)).fg(Color::DarkGreen),
        ]);
    }
    table
}

fn histogram_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    let bins = report.histogram.bins();
    let highest = bins.iter().map(|bin| bin.verdicts.all).max().unwrap_or_default();
    let labels = bins.iter().map(|bin| bin.label().chars().count()).max();
    let digits = highest.to_string().len();
    let counts = ["all", "quick", "full", "strategy"].map(|name| name.len().max(digits));
    let width = bar_width(look, labels.into_iter().chain(counts));
    let mut table = look.table(&["C", "", "all", "quick", "full", "strategy"], &[1]);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut above = false;
    for bin in bins {
        if bin.at_least_omega && !above {
            above = true;
            table.add_row([Cell::new("Ω"), Cell::new("╌".repeat(width))]);
        }
        table.add_row(bin_row(bin, highest, width));
    }
    table
}

fn bin_row(bin: &CoherenceBin, highest: u64, width: usize) -> Vec<Cell> {
    let color = if bin.at_least_omega { Color::DarkGreen } else { Color::DarkRed };
    let bar = Cell::new(draw_bar(bin.verdicts.all, highest, width)).fg(color);
    let counts = bin.verdicts.named_values().map(|(_, count)| count_cell(*count));
    [Cell::new(bin.label()), bar].into_iter().chain(counts).collect()
}

/// A count. A zero is left blank, so that other numbers stand out.
fn count_cell(count: u64) -> Cell {
    Cell::new(if count == 0 { String::new() } else { count.to_string() })
}

fn write_nearest(out: &mut dyn Write, report: &CalibrationReport) -> io::Result<()> {
    let score = |c: Option<f64>| c.map_or_else(|| "none".to_owned(), |c| format!("{c:.5}"));
    writeln!(
        out,
        "\n Nearest to Ω: rejected {}, approved {}.",
        score(report.highest_refused),
        score(report.lowest_approved)
    )
}

fn reason_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    let mut table = look.table(&["reason", "all", "quick", "full", "strategy"], &[0]);
    for count in &report.reasons {
        let counts = count.verdicts.named_values().map(|(_, count)| count_cell(*count));
        table.add_row([Cell::new(count.reason.into_str())].into_iter().chain(counts));
    }
    table
}

fn flag_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    // on a narrow terminal the tiers are left out, so that words do not break
    let tiers: &[ProductTier] = if look.is_narrow() { &[] } else { &ProductTier::ALL };
    let mut header = vec!["flag", "weight", "verdicts", "approved"];
    header.extend(tiers.iter().map(|tier| tier.into_str()));
    let mut table = look.table(&header, &[0, 1]);
    for named in report.flags.names() {
        let FlagOccurrences { verdicts, approved, .. } = &named.counts;
        let by_tier = tiers.iter().map(|tier| count_cell(*verdicts.get(*tier)));
        let all = [
            Cell::new(named.flag),
            Cell::new(format_weight(named)),
            Cell::new(verdicts.all),
            count_cell(*approved),
        ];
        table.add_row(all.into_iter().chain(by_tier));
    }
    table
}

/// The flags with places, as in the log, the most frequent ones first.
fn flag_place_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    let mut table = look.table(&["flag and place", "times"], &[0]);
    for named in report.flags.names() {
        let places = &named.counts.places;
        let by_frequency = places.by_frequency();
        let (listed, rest) = by_frequency.split_at(by_frequency.len().min(PLACES_LISTED));
        for (place, count) in listed {
            table.add_row([
                Cell::new(format!("{}:{}", named.flag, shorten_line(place, PLACE_CHARS))),
                Cell::new(count),
            ]);
        }
        let others = rest.iter().map(|(_, count)| count).sum::<u64>() + places.other_places;
        if others > 0 {
            table.add_row([Cell::new(format!("{} elsewhere", named.flag)), Cell::new(others)]);
        }
    }
    table
}

fn approval_flip_title(report: &CalibrationReport) -> String {
    let (of, all) = (report.flips.to_approval.by_one_flag.all, report.flips.to_approval.refused.all);
    format!("One flag less, same V_t\n{of} of {all} rejected verdicts depend on a single flag.")
}

fn approval_flip_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    trial_table(report.flips.to_approval.flags.names(), ["rejected with it", "approved without it"], look)
}

fn refusal_flip_title(report: &CalibrationReport) -> String {
    let (of, all) = (report.flips.to_refusal.by_one_v_r_flag.all, report.flips.to_refusal.approved.all);
    format!("One flag more, same V_t\n{of} of {all} approved verdicts are one V_r flag from rejection.")
}

fn refusal_flip_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    trial_table(report.flips.to_refusal.flags.names(), ["approved without it", "rejected with it"], look)
}

fn trial_table(flags: &[FlagTotal<FlagTrials>], [before, after]: [&str; 2], look: OutputStyle) -> Table {
    let mut table = look.table(&["flag", "weight", before, after], &[0, 1]);
    for named in flags {
        table.add_row([
            Cell::new(named.flag),
            Cell::new(format_weight(named)),
            Cell::new(named.counts.verdicts),
            Cell::new(named.counts.flips),
        ]);
    }
    table
}

/// The space for bars in a table with other columns of these widths.
fn bar_width(look: OutputStyle, columns: impl IntoIterator<Item = usize>) -> usize {
    let padded: usize = columns.into_iter().map(|column| column + PADDING).sum();
    usize::from(look.width).saturating_sub(padded + PADDING).clamp(BAR_MIN, BAR_MAX)
}

fn format_weight<T>(named: &FlagTotal<T>) -> String {
    if named.e_d > 0.0 {
        format!("E_D {:.1}", named.e_d)
    } else if named.v_r > 0.0 {
        format!("V_r {:.1}", named.v_r)
    } else {
        "none".to_owned()
    }
}

/// A bar of `part` in `whole`, in eighths of a column; `width` columns are the whole. A part above zero has
/// at least one eighth, so that it is visible.
fn draw_bar(part: u64, whole: u64, width: usize) -> String {
    if part == 0 || whole == 0 {
        return String::new();
    }
    let eighths = (part as f64 / whole as f64 * (width * BLOCKS.len()) as f64).round().max(1.0) as usize;
    let full = BLOCKS.last().map(|block| block.to_string().repeat(eighths / BLOCKS.len()));
    let rest = (eighths % BLOCKS.len()).checked_sub(1).and_then(|index| BLOCKS.get(index));
    full.into_iter().chain(rest.map(char::to_string)).collect()
}
