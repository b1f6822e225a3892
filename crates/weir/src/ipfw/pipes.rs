//! Pipes and queues of enforced rules, as `ipfw pipe show` lists their flows.
//!
//! In: the kernel's meters and classes, the rules that are enforced. Out: flows of each object. A
//! pipe's flows are those of its meter. A queue has one flow, which is its class; where several
//! interfaces have it, their sum.

use crate::kernel::{Kernel, plane_error};
use std::collections::BTreeMap;
use weir_engine::history::meter::MeterQueue;
use weir_policy::dialect::ipfw::Ruleset;
use weir_policy::dialect::ipfw::command::DummynetKind;
use weir_policy::dialect::ipfw::print::dummynet::FlowLine;
use weir_policy::dialect::ipfw::shaping;
use weir_policy::model::Policy;

/// The flows of all pipes and queues.
pub fn flows(
    kernel: &Kernel,
    ruleset: &Ruleset,
    policy: &Policy,
) -> anyhow::Result<BTreeMap<(DummynetKind, u32), Vec<FlowLine>>> {
    let mut out = BTreeMap::new();
    if ruleset.dummynet.is_empty() {
        return Ok(out);
    }
    let queues = kernel.plane.meter_queues(policy).map_err(plane_error)?;
    let classes = kernel.plane.classes().map_err(plane_error)?;
    for ((kind, number), config) in &ruleset.dummynet {
        let lines = match kind {
            DummynetKind::Pipe => {
                let found = queues.get(&shaping::meter_name(*number));
                found.into_iter().flatten().map(line).collect()
            }
            DummynetKind::Queue => {
                let class = shaping::class(config).map(|class| class as u16);
                let own = classes.iter().filter(|one| Some(one.number) == class);
                let add = |sum: Option<FlowLine>, one: &weir_plane::shape::ClassState| {
                    let mut sum = sum.unwrap_or_default();
                    sum.came.0 += one.sent.0 + u64::from(one.waiting.0) + one.dropped;
                    sum.came.1 += one.sent.1 + u64::from(one.waiting.1);
                    sum.waiting.0 += u64::from(one.waiting.0);
                    sum.waiting.1 += u64::from(one.waiting.1);
                    sum.dropped += one.dropped;
                    Some(sum)
                };
                own.fold(None, add).into_iter().collect()
            }
            DummynetKind::Sched => Vec::new(),
        };
        out.insert((*kind, *number), lines);
    }
    Ok(out)
}

fn line(queue: &MeterQueue) -> FlowLine {
    FlowLine {
        v6: queue.v6,
        proto: queue.proto,
        src: queue.src,
        dst: queue.dst,
        ports: queue.ports,
        came: (
            queue.passed.0 + queue.dropped.0,
            queue.passed.1 + queue.dropped.1,
        ),
        waiting: queue.waiting,
        dropped: queue.dropped.0,
    }
}
