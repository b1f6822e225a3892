//! The programs' stack, as kernels up to 6.8 count it: each frame rounded up to 32 bytes (newer
//! ones: 16), the frames of a chain of calls together at most 512. Read from the objects, so that a
//! frame that grows is found without such a kernel (`scripts/other-kernel.sh`).
//!
//! Source: `check_max_stack_depth_subprog` in Linux 6.8's kernel/bpf/verifier.c.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const ROUNDED_TO: u32 = 32;
const STACK_MAX: u32 = 512;

/// Names and objects, as `build.rs` lists them.
const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// A function: the bytes of its frame, and what it calls or gives to the kernel to call.
#[derive(Default)]
struct Function {
    frame: u32,
    calls: BTreeSet<String>,
}

/// Register 10 points behind the frame.
const FRAME: u8 = 10;
const CALL: u8 = 0x85;
const LOAD_ADDRESS: u8 = 0x18;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;

fn functions(object: &object::File<'_>) -> BTreeMap<String, Function> {
    let text = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text;
    let named = |symbol: object::Symbol<'_, '_>| symbol.name().expect("a name").to_owned();
    let mut starts: HashMap<(SectionIndex, u64), String> = HashMap::new();
    for symbol in object.symbols().filter(|one| text(one) && one.size() > 0) {
        let section = symbol.section_index().expect("a section");
        starts.insert((section, symbol.address()), named(symbol));
    }
    let mut all = BTreeMap::new();
    for symbol in object.symbols().filter(|one| text(one) && one.size() > 0) {
        let index = symbol.section_index().expect("a section");
        let section = object.section_by_index(index).expect("it is there");
        let code = section.data().expect("instructions");
        let moved: HashMap<u64, _> = section.relocations().collect();
        // What an instruction names: a symbol, or a place in a section.
        let named_at = |at: u64, offset: u64| {
            let RelocationTarget::Symbol(number) = moved.get(&at)?.target() else {
                return None;
            };
            let target = object.symbol_by_index(number).expect("it is there");
            match text(&target) {
                true => Some(named(target)),
                false => starts.get(&(target.section_index()?, offset)).cloned(),
            }
        };
        let is_the_kernels = |at: u64| match moved.get(&at).map(|one| one.target()) {
            Some(RelocationTarget::Symbol(number)) => object
                .symbol_by_index(number)
                .is_ok_and(|one| one.is_undefined()),
            _ => false,
        };
        let mut function = Function::default();
        let mut copies = BTreeSet::new();
        for at in (symbol.address()..symbol.address() + symbol.size()).step_by(8) {
            let bytes = &code[at as usize..at as usize + 8];
            let (to, from) = (bytes[1] & 15, bytes[1] >> 4);
            let offset = i16::from_le_bytes([bytes[2], bytes[3]]);
            let value = i32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
            let mut reach = |below: i32| {
                function.frame = function.frame.max(below.unsigned_abs());
            };
            match bytes[0] {
                CALL if from == 1 => {
                    let behind = |value: i32| (i64::from(value) + 1) * 8;
                    let near = at.wrapping_add_signed(behind(value));
                    let target = match moved.contains_key(&at) {
                        true => named_at(at, behind(value) as u64),
                        false => starts.get(&(index, near)).cloned(),
                    };
                    assert!(
                        target.is_some() || is_the_kernels(at),
                        "calls lead to functions"
                    );
                    function.calls.extend(target);
                }
                LOAD_ADDRESS => function.calls.extend(named_at(at, u64::from(value as u32))),
                MOVE if from == FRAME => {
                    copies.insert(to);
                }
                ADD if copies.remove(&to) => reach(value),
                // Loads have the address in their source, stores in their destination.
                code if matches!(code & 7, 1..=3) => {
                    let base = if code & 7 == 1 { from } else { to };
                    if base == FRAME {
                        reach(offset.into());
                    }
                }
                _ => {}
            }
        }
        all.insert(named(symbol), function);
    }
    all
}

/// The deepest chain of calls from a function on: bytes, and who calls whom.
fn deepest(
    all: &BTreeMap<String, Function>,
    name: &str,
    known: &mut HashMap<String, (u32, String)>,
) -> (u32, String) {
    if let Some(known) = known.get(name) {
        return known.clone();
    }
    let function = &all[name];
    let frame = function.frame.max(1).next_multiple_of(ROUNDED_TO);
    let below = function.calls.iter().map(|call| deepest(all, call, known));
    let (bytes, chain) = below.max().unwrap_or_default();
    let told = (
        frame + bytes,
        format!("{name} {} > {chain}", function.frame),
    );
    known.insert(name.to_owned(), told.clone());
    told
}

#[test]
fn chains_of_calls_fit_the_stack_of_the_oldest_kernel() {
    for &(object, bytes) in OBJECTS {
        let all = functions(&object::File::parse(bytes).expect("an object"));
        let mut known = HashMap::new();
        let each = all.keys().map(|name| deepest(&all, name, &mut known));
        let (bytes, chain) = each.max().expect("functions");
        println!("{object}: {bytes} bytes: {chain}");
        // Programs that call nothing at all would say that nothing was read.
        assert!(bytes > ROUNDED_TO, "{object}");
        assert!(
            bytes <= STACK_MAX,
            "{object}: {bytes} of {STACK_MAX} bytes: {chain}"
        );
    }
}
