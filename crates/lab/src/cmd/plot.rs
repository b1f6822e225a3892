//! `weir-lab plot`: draws the pictures of the classifier from its records.
//!
//! In: the records of `weir-lab classify`; those of the processor of the newest one count, and of
//! several the newest figure of a cell. Out: SVG files, drawn by `crate::svg`. Beside ours stand
//! the best figures of published classifiers, from `definitions/peers.csv`: taken on another
//! machine, and said so in the picture.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::grouped;
use crate::svg::{Chart, Panel, Series};

/// Figures of others: `family,rules,contender,ns`.
const PEERS: &str = include_str!("../../definitions/peers.csv");

/// Options of `plot`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Records to draw from [default: all of `weir-lab classify` in crates/lab/record]
    records: Vec<PathBuf>,
    /// Where the pictures go
    #[arg(long, value_name = "FOLDER", default_value = "crates/lab/record/plots")]
    out: PathBuf,
}

/// (family, rules, contender, metric).
type Cell = (String, usize, String, String);

/// Runs the command.
///
/// # Errors
/// When there is no record, or a picture cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let records = match options.records.is_empty() {
        true => all_records(Path::new(super::RECORDS))?,
        false => options.records.clone(),
    };
    let mut texts = Vec::new();
    for path in &records {
        let text = fs::read_to_string(path);
        texts.push(text.with_context(|| format!("cannot read {}", path.display()))?);
    }
    let machine = texts.iter().rev().find_map(|text| processor(text));
    let machine = machine.unwrap_or_default();
    let mut cells = BTreeMap::new();
    for text in texts.iter().filter(|text| processor(text) == Some(machine)) {
        read(text, &mut cells);
    }
    ensure!(!cells.is_empty(), "no figures in {} records", records.len());
    fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot make {}", options.out.display()))?;
    let newest = records.iter().filter_map(|path| path.file_name()).max();
    let newest = newest.map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let note = format!("{machine}; newest record {newest}");
    for (name, chart) in [
        ("classify-ns", lookups(&cells, &note)),
        ("classify-cost", costs(&cells, &note)),
    ] {
        let path = options.out.join(format!("{name}.svg"));
        fs::write(&path, chart.svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The records of the classifier, oldest first.
fn all_records(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.retain(|path| path.to_string_lossy().ends_with("-classify.csv"));
    paths.sort();
    Ok(paths)
}

/// The processor that a record's head names.
fn processor(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("# processor: "))
}

/// Takes the cells of a record.
fn read(text: &str, cells: &mut BTreeMap<Cell, f64>) {
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(',').collect();
        let [shape, "4", rules, contender, _, metric, value] = fields[..] else {
            continue;
        };
        if let (Ok(rules), Ok(value)) = (rules.parse(), value.parse()) {
            let name = |text: &str| text.to_owned();
            cells.insert((name(shape), rules, name(contender), name(metric)), value);
        }
    }
}

/// The families of a size, in the order of their names.
fn families(cells: &BTreeMap<Cell, f64>, rules: usize) -> Vec<String> {
    let mut names: Vec<String> = cells
        .keys()
        .filter(|cell| cell.1 == rules)
        .map(|cell| cell.0.clone())
        .collect();
    names.dedup();
    names
}

fn sizes(cells: &BTreeMap<Cell, f64>) -> Vec<usize> {
    let mut sizes: Vec<usize> = cells.keys().map(|cell| cell.1).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

const WALKERS: [(&str, &str, &str); 4] = [
    ("scalar", "one at a time", "#1b6ca8"),
    ("vector", "with vectors", "#7b3fa0"),
    ("batch", "batches of 32", "#2a9d5c"),
    ("ebpf", "eBPF", "#d1495b"),
];

/// Nanoseconds per lookup, a panel for each size.
fn lookups(cells: &BTreeMap<Cell, f64>, note: &str) -> Chart {
    let mut chart = Chart::new("Nanoseconds per lookup, one core", note);
    for rules in sizes(cells) {
        let names = families(cells, rules);
        let mut panel = Panel::new(&format!("{} rules", grouped(rules)), "ns", names.clone());
        for (name, label, colour) in WALKERS {
            let value = |family: &String| {
                let cell = (family.clone(), rules, name.into(), "ns_per_lookup".into());
                cells.get(&cell).copied()
            };
            panel.add(Series::new(
                label,
                colour,
                names.iter().map(value).collect(),
            ));
        }
        let same = |family: &String| {
            let ours = cells
                .iter()
                .filter(|(cell, _)| cell.0 == *family && cell.1 == rules);
            let peers = ours.filter(|(cell, _)| cell.2.starts_with("rte_acl"));
            let ns = peers
                .filter(|(cell, _)| cell.3 == "ns_per_lookup")
                .map(|(_, ns)| *ns);
            ns.min_by(f64::total_cmp)
        };
        let label = "DPDK rte_acl, same machine";
        panel.add(Series::new(label, "#111111", names.iter().map(same).collect()).hollow());
        let peer = |family: &String| best_peer(family, rules);
        let label = "best published, other machine";
        panel.add(Series::new(label, "#777777", names.iter().map(peer).collect()).hollow());
        chart.panel(panel);
    }
    chart
}

/// The lowest figure of others for a family and a size.
fn best_peer(family: &str, rules: usize) -> Option<f64> {
    let lines = PEERS.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [shape, size, _, ns] = fields[..] else {
            return None;
        };
        let wanted = shape == family && size.parse() == Ok(rules);
        wanted.then(|| ns.parse::<f64>().ok()).flatten()
    });
    lines.min_by(f64::total_cmp)
}

/// Memory and build time, a line of marks for each size.
fn costs(cells: &BTreeMap<Cell, f64>, note: &str) -> Chart {
    let mut chart = Chart::new("What an image takes", note);
    let mut names: Vec<String> = cells.keys().map(|cell| cell.0.clone()).collect();
    names.sort();
    names.dedup();
    let colours = [
        "#1b6ca8", "#2a9d5c", "#d1495b", "#7b3fa0", "#b8860b", "#444444",
    ];
    let panels = [
        ("Bytes per rule", "bytes", "image_bytes", true),
        ("Seconds to compile", "s", "build_seconds", false),
        (
            "Loads of the dearest packet, at most",
            "loads",
            "worst_loads",
            false,
        ),
    ];
    for (title, unit, metric, each) in panels {
        let mut panel = Panel::new(title, unit, names.clone());
        for (rules, colour) in sizes(cells).into_iter().zip(colours) {
            let value = |family: &String| {
                let cell = (family.clone(), rules, "weir".into(), metric.into());
                let value = cells.get(&cell).copied();
                value.map(|value| if each { value / rules as f64 } else { value })
            };
            let label = format!("{} rules", grouped(rules));
            panel.add(Series::new(
                &label,
                colour,
                names.iter().map(value).collect(),
            ));
        }
        chart.panel(panel);
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_figure_of_a_cell_counts() {
        let mut cells = BTreeMap::new();
        let head = "# weir-lab classify\n# processor: P (1/2/3)\nshape,family,rules\n";
        let line = |ns| format!("{head}acl1,4,1000,scalar,0,ns_per_lookup,{ns}\n");
        assert_eq!(processor(&line("9.5")), Some("P (1/2/3)"));
        read(&line("9.5"), &mut cells);
        read(&line("7.5"), &mut cells);
        assert_eq!(cells.values().copied().collect::<Vec<_>>(), [7.5]);
        assert_eq!(
            (families(&cells, 1000), sizes(&cells)),
            (vec!["acl1".into()], vec![1000])
        );
        let chart = lookups(&cells, "note").svg();
        assert!(
            chart.contains("acl1") && chart.contains("1,000 rules"),
            "{chart}"
        );
    }

    #[test]
    fn peers_are_known_for_every_usual_cell() {
        for family in ["acl1", "acl5", "fw1", "fw5", "ipc1", "ipc2"] {
            for rules in [1_000, 10_000, 100_000] {
                assert!(
                    best_peer(family, rules).is_some_and(|ns| ns > 1.0),
                    "{family} {rules}"
                );
            }
        }
        assert_eq!(best_peer("acl1", 7), None);
    }
}
