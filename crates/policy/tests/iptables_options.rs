//! The page that walks through the options of iptables (`docs/iptables-options.md`) forgets none:
//! each module and each option that is read stands in a row of its kind, and a module that is
//! refused as a whole is marked so.

use std::path::Path;
use weir_policy::dialect::iptables::grammar::{self, ModuleSpec, Role, Tier};

/// One row of a table: names of modules, what it says of options, and the mark with its advice.
struct Row {
    names: Vec<String>,
    options: String,
    mark: String,
}

/// The rows under a heading; an empty first cell belongs to the module above.
fn rows(page: &str, heading: &str) -> Vec<Row> {
    let part = page
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .expect("heading");
    let part = part.split("\n## ").next().expect("a part");
    let mut rows: Vec<Row> = Vec::new();
    for line in part.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, options, mark] = cells[..] else {
            panic!("three cells: {line}");
        };
        let names = match (name, rows.last()) {
            ("", Some(above)) => above.names.clone(),
            _ => {
                let names = name
                    .split(", ")
                    .map(|name| name.split(" (").next().unwrap_or(name));
                names.map(str::to_owned).collect()
            }
        };
        rows.push(Row {
            names,
            options: options.to_owned(),
            mark: mark.to_owned(),
        });
    }
    rows
}

/// Options by which `--set-xmark` and the like are also written, and names that stand for all.
fn is_said(rows: &[&Row], option: &str) -> bool {
    let quoted = format!("--{option}");
    rows.iter().any(|row| {
        let words: Vec<&str> = row.options.split(['`', ' ', ',']).collect();
        matches!(row.options.as_str(), "all" | "set, inc, dec") || words.contains(&quoted.as_str())
    })
}

fn missing(spec: &ModuleSpec, rows: &[Row], wrong: &mut Vec<String>) {
    let own: Vec<&Row> = rows
        .iter()
        .filter(|row| row.names.iter().any(|name| name == spec.name))
        .collect();
    if own.is_empty() {
        wrong.push(format!("{} has no row", spec.name));
    }
    for option in spec
        .options
        .iter()
        .filter(|option| !is_said(&own, option.name))
    {
        wrong.push(format!("{} has no --{}", spec.name, option.name));
    }
    let refused = own.iter().all(|row| !row.mark.starts_with('E'));
    if (spec.tier == Tier::Known) != refused && spec.name != "SYNPROXY" {
        let noted = own.iter().any(|row| row.mark.starts_with(['N', 'P']));
        if !noted {
            wrong.push(format!(
                "{} is marked otherwise than it is taken",
                spec.name
            ));
        }
    }
}

#[test]
fn every_option_has_its_place_on_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/iptables-options.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (matches, targets) = (rows(&page, "Matches"), rows(&page, "Targets"));
    let mut wrong = Vec::new();
    for spec in grammar::all() {
        let rows = match spec.role {
            Role::Match => &matches,
            Role::Target => &targets,
        };
        missing(spec, rows, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
