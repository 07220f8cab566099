//! Line charts as SVG, for pages that people open without a network.

use plotters::coord::Shift;
use plotters::prelude::*;

/// One line of a chart: its name and its points.
pub struct Series {
    /// Shown in the legend.
    pub name: String,
    /// `(x, y)`; points that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

const SIZE: (u32, u32) = (560, 300);
const COLOURS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(214, 96, 36), RGBColor(44, 140, 60), RGBColor(130, 80, 160)];

/// The chart as an SVG element, or `None` when there is no point to draw.
pub fn line_chart(title: &str, x_label: &str, series: &[Series]) -> Option<String> {
    let finite: Vec<(&str, Vec<(f64, f64)>)> = series
        .iter()
        .map(|one| {
            // The drawing library puts NaN at the bottom of the axis without a word.
            let points = one.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
            (one.name.as_str(), points)
        })
        .collect();
    let all = || finite.iter().flat_map(|(_, points)| points.iter());
    let (mut low, mut high) = range(all().map(|point| point.1))?;
    let (left, right) = range(all().map(|point| point.0))?;
    let margin = ((high - low) * 0.08).max(1e-3);
    (low, high) = (low - margin, high + margin);
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    draw(&area, title, x_label, &finite, left..right.max(left + 1.0), low..high)
        .expect("drawing into a string meets no I/O");
    drop(area);
    Some(svg)
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn draw(
    area: &DrawingArea<SVGBackend, Shift>,
    title: &str,
    x_label: &str,
    series: &[(&str, Vec<(f64, f64)>)],
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(48)
        .build_cartesian_2d(x, y)?;
    chart.configure_mesh().x_desc(x_label).light_line_style(RGBColor(240, 240, 240)).draw()?;
    for ((name, points), colour) in series.iter().zip(COLOURS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_lines_and_leaves_out_what_is_not_a_number() {
        let series = [Series { name: "GRPO".into(), points: vec![(0.0, 0.1), (1.0, f64::NAN), (2.0, 0.3)] }];
        let svg = line_chart("reward", "update", &series).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("GRPO"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
        assert!(line_chart("reward", "update", &[]).is_none());
    }
}
