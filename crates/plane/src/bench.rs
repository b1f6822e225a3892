//! Lookups in the kernel for benches: many headers in one `BPF_PROG_TEST_RUN`.
//!
//! In: an image, headers. Out: the position that each header's lookup gives, and nanoseconds per
//! run as the kernel counts them, with and without the lookup. Nothing is attached to anything.

use std::os::fd::AsFd;

use libbpf_rs::{MapCore, Object, ObjectBuilder, PrintLevel};
use zerocopy::{Immutable, IntoBytes};

use crate::abi;
use crate::error::{PlaneError, Result, system};
use crate::sys::bpf::test_run;
use crate::sys::memory::Mapping;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));

/// What a lookup reads of a packet. Twin of `struct header` in `bench.bpf.c`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub struct Header {
    /// Source address, high and low.
    pub src: [u64; 2],
    /// Destination address, high and low.
    pub dst: [u64; 2],
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub proto: u8,
    /// `enum weir_transport`.
    pub transport: u8,
    /// TCP flags.
    pub flags: u8,
    /// 4 or 6.
    pub family: u8,
    /// Root that it meets.
    pub root_at: u32,
    /// The answer.
    pub position: u32,
    /// Unused, zero.
    pub reserved: [u32; 4],
}

/// Bytes of a header in its map.
const SIZE: usize = 64;
const POSITION: usize = std::mem::offset_of!(Header, position);
const _: () = assert!(size_of::<Header>() == SIZE);

/// The loaded programs with an image and headers.
#[derive(Debug)]
pub struct Bench {
    object: Object,
    headers: Mapping,
    turn: Mapping,
    count: usize,
}

fn refused(error: &libbpf_rs::Error) -> PlaneError {
    PlaneError::Load {
        message: error.to_string(),
        log: String::new(),
    }
}

impl Bench {
    /// Loads the programs and hands them an image and headers.
    pub fn load(image: &[u8], headers: &[Header]) -> Result<Bench> {
        crate::features::check()?;
        let quiet: libbpf_rs::PrintCallback = |_, _| ();
        libbpf_rs::set_print(Some((PrintLevel::Warn, quiet)));
        let capacity = image.len().next_power_of_two().max(1 << 16);
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(|e| refused(&e))?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let sized = if name == "images" {
                map.set_value_size((capacity + abi::SLACK as usize) as u32)
            } else if name == "headers" {
                map.set_max_entries(headers.len().max(1) as u32)
            } else if name.contains("rodata.weir") {
                let settings = [capacity as u32 - 1, crate::swap::features(image)];
                map.set_initial_value(settings.as_bytes())
            } else {
                Ok(())
            };
            sized.map_err(|e| refused(&e))?;
        }
        let object = open.load().map_err(|e| refused(&e))?;
        let bench = Bench {
            headers: mapping(&object, "headers", headers.len() * SIZE)?,
            turn: mapping(&object, "turn", 8)?,
            count: headers.len(),
            object,
        };
        mapping(&bench.object, "images", capacity)?.write(0, image);
        bench.headers.write(0, headers.as_bytes());
        Ok(bench)
    }

    /// Looks up the headers from `first` on, one for each place in `out`. Nanoseconds per lookup:
    /// the program with it less the program without.
    ///
    /// # Panics
    /// When there are not so many headers.
    pub fn look(&self, first: usize, out: &mut [u32]) -> Result<f64> {
        assert!(first + out.len() <= self.count, "a header for each answer");
        let empty = self.run("bench_empty", first, out.len())?;
        let full = self.run("bench_lookup", first, out.len())?;
        for (at, out) in out.iter_mut().enumerate() {
            *out = self.headers.load32((first + at) * SIZE + POSITION);
        }
        Ok(f64::from(full) - f64::from(empty))
    }

    fn run(&self, program: &str, first: usize, count: usize) -> Result<u32> {
        self.turn.write(0, &(first as u64).to_ne_bytes());
        let program = self
            .object
            .progs()
            .find(|candidate| candidate.name() == program)
            .ok_or_else(|| PlaneError::Kernel(format!("no program {program}")))?;
        let run = test_run(program.as_fd(), &[0; 64], &[], count as u32)
            .map_err(system("a bench run"))?;
        match run.value {
            0 => Ok(run.nanoseconds),
            value => Err(PlaneError::Kernel(format!("a bench run gave {value}"))),
        }
    }
}

fn mapping(object: &Object, name: &str, length: usize) -> Result<Mapping> {
    let map = object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| PlaneError::Kernel(format!("no map {name}")))?;
    Mapping::new(map.as_fd(), length.max(1)).map_err(system("mapping a map"))
}
