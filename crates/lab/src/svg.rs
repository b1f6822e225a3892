//! Pictures: panels of marks over categories, on a logarithmic axis, as SVG.
//!
//! In: series of values, some of them missing. Out: the text of an SVG file without scripts, fonts
//! or anything else from outside. Not a plotting library: it draws the lab's two kinds of picture.

use std::fmt::Write;

const WIDTH: f64 = 940.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const HEIGHT: f64 = 210.0;
const GAP: f64 = 54.0;
const TOP: f64 = 52.0;
const LEGEND: f64 = 20.0;
const FONT: &str = "font-family=\"sans-serif\"";

/// Values of one contender, one a category.
#[derive(Debug, Clone)]
pub struct Series {
    label: String,
    colour: &'static str,
    values: Vec<Option<f64>>,
    hollow: bool,
}

impl Series {
    /// A series of filled marks.
    pub fn new(label: &str, colour: &'static str, values: Vec<Option<f64>>) -> Series {
        Series {
            label: label.to_owned(),
            colour,
            values,
            hollow: false,
        }
    }

    /// The same with hollow marks.
    #[must_use]
    pub fn hollow(mut self) -> Series {
        self.hollow = true;
        self
    }

    fn has_values(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }
}

/// Series over the same categories.
#[derive(Debug, Clone)]
pub struct Panel {
    title: String,
    unit: String,
    categories: Vec<String>,
    series: Vec<Series>,
}

impl Panel {
    /// A panel without series.
    pub fn new(title: &str, unit: &str, categories: Vec<String>) -> Panel {
        Panel {
            title: title.to_owned(),
            unit: unit.to_owned(),
            categories,
            series: Vec::new(),
        }
    }

    /// Adds a series; one without any value is left out.
    pub fn add(&mut self, series: Series) {
        if series.has_values() {
            self.series.push(series);
        }
    }

    /// The powers of ten that hold all values, as exponents.
    fn decades(&self) -> (i32, i32) {
        let values = self
            .series
            .iter()
            .flat_map(|series| series.values.iter().flatten());
        let logs: Vec<f64> = values
            .filter(|value| **value > 0.0)
            .map(|v| v.log10())
            .collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return (0, 1);
        }
        let (low, high) = (low.floor() as i32, high.ceil() as i32);
        (low, high.max(low + 1))
    }
}

/// Panels below each other.
#[derive(Debug, Clone)]
pub struct Chart {
    title: String,
    note: String,
    panels: Vec<Panel>,
}

impl Chart {
    /// A chart without panels.
    pub fn new(title: &str, note: &str) -> Chart {
        Chart {
            title: title.to_owned(),
            note: note.to_owned(),
            panels: Vec::new(),
        }
    }

    /// Adds a panel.
    pub fn panel(&mut self, panel: Panel) {
        self.panels.push(panel);
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let height = TOP + self.panels.len() as f64 * (HEIGHT + GAP + LEGEND) + 8.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\">\n<rect width=\"100%\" height=\"100%\" \
             fill=\"white\"/>\n"
        );
        text(
            &mut out,
            (LEFT, 22.0),
            16.0,
            "start",
            "#111111",
            &self.title,
        );
        text(&mut out, (LEFT, 40.0), 10.0, "start", "#666666", &self.note);
        for (at, panel) in self.panels.iter().enumerate() {
            draw(
                &mut out,
                panel,
                TOP + at as f64 * (HEIGHT + GAP + LEGEND) + LEGEND,
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn text(out: &mut String, at: (f64, f64), size: f64, anchor: &str, colour: &str, words: &str) {
    let (x, y) = at;
    let words = escaped(words);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" {FONT} font-size=\"{size}\" text-anchor=\"{anchor}\" \
         fill=\"{colour}\">{words}</text>"
    );
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// A power of ten for people: 0.01, 10, 1,000 as 1k.
fn tick(exponent: i32) -> String {
    match exponent {
        ..0 => format!("{:.*}", -exponent as usize, 10f64.powi(exponent)),
        0..3 => format!("{}", 10u64.pow(exponent as u32)),
        3..6 => format!("{}k", 10u64.pow(exponent as u32 - 3)),
        _ => format!("{}M", 10u64.pow(exponent as u32 - 6)),
    }
}

/// In how many rows names stand that are so far apart, so that long ones do not meet.
fn rows_of_names(names: &[String], step: f64) -> usize {
    let longest = names.iter().map(|name| name.chars().count()).max();
    let width = longest.unwrap_or(0) as f64 * 6.2 + 4.0;
    ((width / step).ceil() as usize).clamp(1, 3)
}

fn draw(out: &mut String, panel: &Panel, top: f64) {
    let (low, high) = panel.decades();
    let bottom = top + HEIGHT;
    let right = WIDTH - RIGHT;
    let y = |value: f64| {
        let share = (value.log10() - f64::from(low)) / f64::from(high - low);
        bottom - share * HEIGHT
    };
    legend(out, panel, top - 8.0);
    for exponent in low..=high {
        let base = 10f64.powi(exponent);
        line(out, (LEFT, y(base)), (right, y(base)), "#bbbbbb");
        text(
            out,
            (LEFT - 6.0, y(base) + 4.0),
            11.0,
            "end",
            "#444444",
            &tick(exponent),
        );
        for part in 2..10 {
            let value = base * f64::from(part);
            if exponent < high {
                line(out, (LEFT, y(value)), (right, y(value)), "#eeeeee");
            }
        }
    }
    text(
        out,
        (LEFT - 6.0, top - 8.0),
        11.0,
        "end",
        "#444444",
        &panel.unit,
    );
    let step = (right - LEFT) / panel.categories.len().max(1) as f64;
    let rows = rows_of_names(&panel.categories, step);
    for (at, category) in panel.categories.iter().enumerate() {
        let middle = LEFT + (at as f64 + 0.5) * step;
        let below = bottom + 16.0 + (at % rows) as f64 * 13.0;
        text(out, (middle, below), 11.0, "middle", "#222222", category);
        let count = panel.series.len() as f64;
        for (number, series) in panel.series.iter().enumerate() {
            // Marks of a category stand side by side, so that equal ones can both be seen.
            let aside = (number as f64 - (count - 1.0) / 2.0) * (step / (count + 2.0)).min(10.0);
            if let Some(value) = series.values[at].filter(|value| *value > 0.0) {
                mark(out, series, (middle + aside, y(value)), 4.0);
            }
        }
    }
}

fn mark(out: &mut String, series: &Series, at: (f64, f64), radius: f64) {
    let fill = if series.hollow {
        "white"
    } else {
        series.colour
    };
    let (x, y) = at;
    let colour = series.colour;
    let _ = writeln!(
        out,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" \
         stroke=\"{colour}\" stroke-width=\"1.5\"/>"
    );
}

/// The title of a panel to the left, its series to the right of it.
fn legend(out: &mut String, panel: &Panel, y: f64) {
    text(out, (LEFT + 4.0, y), 13.0, "start", "#111111", &panel.title);
    let mut x = LEFT + 24.0 + panel.title.chars().count() as f64 * 7.2;
    for series in &panel.series {
        mark(out, series, (x, y - 4.0), 4.0);
        text(out, (x + 8.0, y), 10.0, "start", "#222222", &series.label);
        x += 24.0 + series.label.chars().count() as f64 * 5.4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_have_no_mark_and_missing_series_no_legend() {
        let names = vec!["a".to_owned(), "b<c".to_owned()];
        let mut panel = Panel::new("1,000 rules", "ns", names);
        panel.add(Series::new("one", "#111111", vec![Some(12.0), None]));
        panel.add(Series::new("none", "#222222", vec![None, None]));
        assert_eq!(panel.decades(), (1, 2));
        let mut chart = Chart::new("title", "note");
        chart.panel(panel);
        let svg = chart.svg();
        // One mark and one in the legend.
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(svg.contains("b&lt;c") && !svg.contains("none"), "{svg}");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn names_that_would_meet_stand_in_rows() {
        let names = |count: usize| vec!["acl1-blocks".to_owned(); count];
        let rows = |count: usize| rows_of_names(&names(count), 860.0 / count as f64);
        assert_eq!([4, 11, 12, 23, 24, 40].map(rows), [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn ticks_are_short() {
        let ticks: Vec<String> = [-2, 0, 1, 3, 5, 6].map(tick).to_vec();
        assert_eq!(ticks, ["0.01", "1", "10", "1k", "100k", "1M"]);
    }
}
