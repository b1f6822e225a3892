//! x
use weir_plane::load::{Capacity, load};
#[test]
fn loads() {
    let c = Capacity::for_policy(0, 0, 0, 0).unwrap();
    let i = load(c, true, None).unwrap_or_else(|e| panic!("{e}"));
    println!("{:?}", i.settings);
}
