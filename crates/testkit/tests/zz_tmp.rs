//! tmp
use weir_testkit::compare::{case, engine, tap::Asked};
#[test]
fn t() {
    weir_testkit::sys::pin_to_cpu(0).unwrap();
    let cases = case::find(std::path::Path::new("../../testdata/configs/iptables")).unwrap();
    let case = cases
        .iter()
        .find(|c| c.name == std::env::var("CASE").unwrap())
        .unwrap();
    let o = engine::observe(case, Asked::Packet).unwrap();
    let lines: Vec<usize> = std::env::var("LINES_")
        .unwrap()
        .split(',')
        .map(|l| l.parse().unwrap())
        .collect();
    for (s, t, x) in &o.sightings {
        let l = case.steps.get(*s).map_or(0, |s| s.line);
        if lines.contains(&l) {
            println!(
                "{l} {t} {:?} {}>{} {:?} {}",
                x.hook,
                x.in_interface,
                x.out_interface,
                x.owner,
                weir_testkit::traffic::describe::network(&x.bytes)
            );
        }
    }
}
