//! The eBPF lookup under `BPF_PROG_TEST_RUN`: nanoseconds over the empty program.

use super::{Asked, Walker};
use weir_engine::lookup::Key;
use weir_plane::bench::{Bench, Header};

/// The lookup in the kernel.
pub struct Kernel {
    bench: Bench,
}

impl Kernel {
    /// Loads the programs, the image and the packets; the reason when that can't be.
    pub fn new(asked: &Asked<'_>) -> Result<Self, String> {
        let header = |key: &Key| {
            let halves = |address: u128| [(address >> 64) as u64, address as u64];
            Header {
                src: halves(key.address[0]),
                dst: halves(key.address[1]),
                src_port: key.port[0],
                dst_port: key.port[1],
                proto: key.proto,
                transport: key.kind & 7,
                flags: key.flags,
                family: asked.family,
                root_at: asked.root_at,
                ..Header::default()
            }
        };
        let headers: Vec<Header> = asked.keys.iter().map(header).collect();
        let loaded = Bench::load(asked.image.bytes(), &headers);
        let bench = loaded.map_err(|error| error.to_string())?;
        Ok(Kernel { bench })
    }
}

impl Walker for Kernel {
    fn name(&self) -> &'static str {
        "ebpf"
    }

    fn look(&mut self, first: usize, out: &mut [u32]) -> anyhow::Result<f64> {
        Ok(self.bench.look(first, out)? * out.len() as f64)
    }
}
