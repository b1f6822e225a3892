//! x
use weir_plane::load::{Capacity, load};
#[test]
fn loads() {
    for testing in [false, true] {
    let t = std::time::Instant::now();
    let c = Capacity::for_policy(0,0,0,1000).unwrap();
    let i = load(c, testing, None).unwrap_or_else(|e| panic!("{e}"));
    println!("{:?} {:?}", t.elapsed(), i.settings);
    }
}
