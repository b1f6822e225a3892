//! Benches of the classifier: rule sets and traces in, figures and a check of every answer out.
//!
//! In: ClassBench files, or a family and a seed. Out: values for `cmd::bench`. The parts: `read`
//! and `write` know the files, `generate` makes sets of our own, `linear` is the referee, `policy`
//! leads to the compiler, `walk` asks the image, `measure` times it, `search`
//! looks for what hurts, `changing` changes single rules.

pub mod changing;
pub mod filter;
pub mod generate;
pub mod linear;
pub mod measure;
pub mod policy;
pub mod random;
pub mod read;
pub mod search;
pub mod walk;
pub mod write;
