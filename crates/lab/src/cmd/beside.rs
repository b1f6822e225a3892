//! `weir-lab beside`: several builds of weir in one interleaved run.
//!
//! In: programs, families, sizes; or numbers of flows, which makes all packets those of established
//! flows. Out: what each build adds to the bare path of the same round, beside the hook alone and
//! nft's map. A change of the packet path that is worth 3 ns can't be seen between two runs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::established::open_flows;
use super::flat::{HEADERS, anyhow_refused};
use super::{Common, grouped, nanoseconds};
use crate::contender::{Contender, Loaded, Loader};
use crate::inject::Injector;
use crate::measure::{Lane, rounds};
use crate::record::Table;
use crate::rules::{Last, RuleSet, Shape};
use crate::space::Family;
use crate::stats::{differences, median};
use crate::trace::Trace;

/// Options of `beside`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// The builds
    #[arg(long, value_delimiter = ',', required = true)]
    builds: Vec<PathBuf>,
    /// Numbers of rules
    #[arg(long, value_delimiter = ',', default_values_t = [25, 100])]
    sizes: Vec<usize>,
    /// Rule-set families
    #[arg(long, value_delimiter = ',', default_value = "exp,real")]
    families: Vec<Shape>,
    /// Packets of established UDP flows, this many, instead of families
    #[arg(long, value_delimiter = ',')]
    flows: Vec<usize>,
    /// Measure nft's map too
    #[arg(long)]
    map: bool,
    /// Measure IPv6 instead of IPv4
    #[arg(long)]
    v6: bool,
}

/// Runs the command.
///
/// # Errors
/// When the machine refuses to measure, or a build refuses the rules.
pub fn run(options: &Options) -> Result<()> {
    options.common.begin()?;
    let family = if options.v6 { Family::V6 } else { Family::V4 };
    let mut headings = vec!["rules".to_owned(), "bare".to_owned(), "hook".to_owned()];
    headings.extend(options.map.then(|| "nft-map".to_owned()));
    headings.extend(options.builds.iter().map(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }));
    let mut table = Table::new(&headings);
    let mut row = |name: String, trace: &Trace, sets: &[RuleSet]| -> Result<()> {
        let mut injector = Injector::new(trace)?;
        for set in sets {
            let mut cells = vec![format!("{name} {}", grouped(set.rules.len()))];
            cells.extend(one(options, set, trace, &mut injector)?);
            table.row(cells);
        }
        Ok(())
    };
    let seed = options.common.seed;
    for &flows in &options.flows {
        let trace = Trace::udp_flows(family, flows, seed);
        let sets: Vec<_> = options
            .sizes
            .iter()
            .map(|&size| RuleSet {
                last: Last::Drop,
                ..RuleSet::generate(Shape::Stateful, size, seed, family)
            })
            .collect();
        row(format!("{} flows", grouped(flows)), &trace, &sets)?;
    }
    if options.flows.is_empty() {
        let trace = Trace::tcp(family, HEADERS, seed);
        for &shape in &options.families {
            let sets: Vec<_> = options
                .sizes
                .iter()
                .map(|&size| RuleSet::generate(shape, size, seed, family))
                .collect();
            row(shape.to_string(), &trace, &sets)?;
        }
    }
    println!(
        "Added ns per packet, medians over rounds\n\n{}",
        table.text()
    );
    Ok(())
}

fn one(
    options: &Options,
    set: &RuleSet,
    trace: &Trace,
    injector: &mut Injector,
) -> Result<Vec<String>> {
    let mut contenders = vec![Contender::None, Contender::Hook];
    contenders.extend(options.map.then_some(Contender::NftMap));
    let plain = Loader::default();
    let mut loaded: Vec<Loaded> = Vec::new();
    for contender in contenders {
        loaded.push(plain.load(contender, set)?.map_err(anyhow_refused)?);
    }
    for build in &options.builds {
        let loader = Loader {
            weir: Some(build.clone()),
            group: None,
        };
        let one = loader.load(Contender::Weir, set)?;
        loaded.push(one.map_err(anyhow_refused)?);
    }
    let mut sockets = Vec::new();
    if !options.flows.is_empty() {
        for one in &loaded {
            sockets.push(open_flows(one, trace)?);
        }
    }
    let lanes: Vec<_> = loaded.iter().map(Lane::Path).collect();
    let results = rounds(&lanes, injector, options.common.limits())?;
    let added = results[1..]
        .iter()
        .map(|path| nanoseconds(median(&differences(path, &results[0]))));
    Ok([nanoseconds(median(&results[0]))]
        .into_iter()
        .chain(added)
        .collect())
}
