//! The report as one HTML file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use skein_io::metrics::{Row, read_metrics};

use super::chart::{Series, line_chart};
use super::table::{Arm, render, run_name};

/// Curves of the page: metric and title.
const CURVES: &[(&str, &str)] = &[
    ("sft/loss", "SFT loss"),
    ("reward/mean", "Training reward"),
    ("reward/answer", "Answer reward"),
    ("reward/entropy", "Skill-entropy reward"),
    ("reward/skill_accuracy", "Skill accuracy"),
    ("reward/parse_rate", "Parse rate"),
    ("actor/kl", "KL to the reference"),
    ("actor/entropy", "Policy entropy"),
    ("response_length/mean", "Response length in tokens"),
    ("perf/step_seconds", "Seconds per step"),
];

const STYLE: &str = "body{font:15px system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}\
pre{background:#f6f6f4;padding:1em;overflow-x:auto}.charts{display:flex;flex-wrap:wrap;gap:12px}";

/// The page over `runs` and their `arms`.
///
/// # Errors
/// When a run's metrics cannot be read.
pub fn render_page(runs: &[PathBuf], arms: &[Arm]) -> Result<String> {
    let curves = runs.iter().map(|run| Ok((run_name(run), curves_of(run)?))).collect::<Result<Vec<_>>>()?;
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Skein report</title><style>{STYLE}</style>\
         <h1>Skein report</h1><pre>{}</pre><div class=\"charts\">",
        escape(&render(arms))
    );
    for (metric, title) in CURVES {
        let series: Vec<Series> = curves
            .iter()
            .filter_map(|(name, metrics)| Some(Series { name: name.clone(), points: metrics.get(*metric)?.clone() }))
            .collect();
        html.extend(line_chart(title, "update", &series));
    }
    html += "</div><h2>Runs</h2><ul>";
    for run in runs {
        write!(html, "<li><code>{}</code></li>", escape(&run.display().to_string())).expect("a string takes any text");
    }
    Ok(html + "</ul></html>\n")
}

/// Every metric's `(step, value)` points.
fn curves_of(run: &Path) -> Result<BTreeMap<String, Vec<(f64, f64)>>> {
    let rows = read_metrics(run)?;
    if rows.is_empty() {
        tracing::warn!("{} has no metrics: the page is without its curves", run.display());
    }
    let mut metrics: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for Row { step, values, .. } in rows {
        for (name, value) in values {
            metrics.entry(name).or_default().push((step as f64, value));
        }
    }
    Ok(metrics)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
