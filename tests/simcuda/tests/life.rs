//! Before `cuInit`, in a forked child, and after the end of the driver.

mod driver;
use driver::*;

#[test]
fn each_age_has_its_code() {
    set("SIMCUDA_STRICT_FORK", "1");
    set("SIMCUDA_STRICT_EXIT", "1");
    let mut address = 7;
    assert_eq!(cuMemAlloc_v2(&mut address, 512), 3);

    // A fork of a process that has not called cuInit is as good as its parent.
    assert!(succeeded(in_child(|| {
        start();
        alloc(512) != 0 && simcuda_violations() == 0
    })));

    start();
    let base = alloc(512);
    assert!(succeeded(in_child(|| {
        let code = cuMemFree_v2(base);
        code == 3 && simcuda_violations() == 1
    })));
    assert_eq!(cuMemFree_v2(base), 0);

    assert_eq!(simcuda_violations(), 0);
    simcuda_shutdown();
    assert_eq!(cuMemAlloc_v2(&mut address, 512), 4);
    assert_eq!(simcuda_violations(), 1);
}
