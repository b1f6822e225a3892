//! Measuring walkers side by side.
//!
//! In: walkers, what each packet's filter is. Out: nanoseconds per lookup of every sample, and the
//! number of lookups whose answer differs from the linear search. Walkers take turns, pass by pass
//! over the whole trace, so that a busy minute of the machine meets all of them; every answer of
//! every pass is compared.

use super::walk::{Asked, Walker};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Passes over the trace that are timed.
    pub passes: usize,
}

/// What a walker did.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub name: &'static str,
    /// Nanoseconds per lookup, a number for each sample.
    pub samples: Vec<f64>,
    /// Lookups whose answers were compared.
    pub compared: usize,
    /// How many of them differ from the linear search.
    pub differ: usize,
    /// The first packet whose answer differs, and the answer.
    pub first: Option<(usize, u32)>,
}

impl Measured {
    /// The sample below which a share of the samples lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (share * (sorted.len() - 1) as f64).round() as usize;
        sorted[place]
    }
}

/// Measures all walkers. `expected` is the filter that decides each packet.
pub fn measure(
    walkers: &mut [Box<dyn Walker + '_>],
    asked: &Asked,
    expected: &[u32],
    effort: Effort,
    mut tick: impl FnMut(usize, usize),
) -> anyhow::Result<Vec<Measured>> {
    let fresh = |walker: &dyn Walker| Measured {
        name: walker.name(),
        samples: vec![],
        compared: 0,
        differ: 0,
        first: None,
    };
    let mut out: Vec<Measured> = walkers
        .iter()
        .map(|walker| fresh(walker.as_ref()))
        .collect();
    // The first pass warms up.
    for pass in 0..=effort.passes {
        tick(pass, effort.passes + 1);
        for (walker, measured) in walkers.iter_mut().zip(&mut out) {
            run(walker.as_mut(), measured, asked, expected)?;
            if pass == 0 {
                measured.samples.clear();
            }
        }
    }
    Ok(out)
}

/// Adds what another thread measured.
pub fn merge(sum: &mut Vec<Measured>, part: Vec<Measured>) {
    if sum.is_empty() {
        *sum = part;
        return;
    }
    for (sum, part) in sum.iter_mut().zip(part) {
        sum.samples.extend(part.samples);
        sum.compared += part.compared;
        sum.differ += part.differ;
        sum.first = sum.first.or(part.first);
    }
}

/// One pass over the trace.
fn run(
    walker: &mut dyn Walker,
    measured: &mut Measured,
    asked: &Asked,
    expected: &[u32],
) -> anyhow::Result<()> {
    let sample = walker.sample();
    let mut answers = vec![0u32; sample];
    let mut first = 0;
    while first < expected.len() {
        let count = sample.min(expected.len() - first);
        let spent = walker.look(first, &mut answers[..count])?;
        // A short rest at the end would be a sample of its own kind.
        if count == sample || first == 0 {
            measured.samples.push(spent / count as f64);
        }
        for (at, (answer, expected)) in answers[..count].iter().zip(&expected[first..]).enumerate()
        {
            let rule = asked.rule(*answer);
            if rule != *expected {
                measured.differ += 1;
                measured.first.get_or_insert((first + at, rule));
            }
        }
        measured.compared += count;
        first += count;
    }
    Ok(())
}
