//! The report as one HTML file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

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
    let curves = runs.iter().map(|run| Ok((run_name(run), read_metrics(run)?))).collect::<Result<Vec<_>>>()?;
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
fn read_metrics(run: &Path) -> Result<BTreeMap<String, Vec<(f64, f64)>>> {
    let path = run.join("metrics.jsonl");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut metrics: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let record: BTreeMap<String, Value> =
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), index + 1))?;
        let step = record.get("step").and_then(Value::as_f64).unwrap_or(index as f64);
        for (name, value) in record {
            if let Some(value) = value.as_f64().filter(|_| name != "step") {
                metrics.entry(name).or_default().push((step, value));
            }
        }
    }
    Ok(metrics)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
