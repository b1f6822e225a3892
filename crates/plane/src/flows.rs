//! The flow table as a list, for `weir flows`.
//!
//! In: the map. Out: the flows that live, read while packets go on changing them.

use weir_engine::flow::{Flow, flows};

use crate::clock;
use crate::error::Result;
use crate::plane::Plane;

impl Plane {
    /// The flows that live.
    pub fn flows(&self) -> Result<Vec<Flow>> {
        let instance = self.instance()?;
        let layout = instance.flow_layout();
        let mut bytes = vec![0; layout.bytes()];
        instance.map("flows").memory().read(0, &mut bytes);
        let now = clock::now_ms(instance)?;
        Ok(flows(&bytes, layout, now).collect())
    }
}
