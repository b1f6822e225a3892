//! TEMP
use crate::exit::Exit;
use crate::output::Output;
/// TEMP
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    pub json: bool,
}
/// TEMP
pub fn run(_: &Args, _: &mut Output) -> anyhow::Result<Exit> {
    Ok(Exit::Done)
}
