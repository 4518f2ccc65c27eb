//! Copies within the device: ordered in their stream, and captured.

mod driver;
use driver::*;

unsafe extern "C" {
    safe fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: u64) -> u32;
    safe fn cuStreamBeginCapture_v2(stream: u64, mode: u32) -> u32;
    safe fn cuStreamEndCapture(stream: u64, graph: &mut u64) -> u32;
    safe fn cuGraphGetNodes(graph: u64, nodes: Option<&mut u64>, count: &mut usize) -> u32;
    safe fn cuGraphInstantiateWithFlags(exec: &mut u64, graph: u64, flags: u64) -> u32;
    safe fn cuGraphLaunch(exec: u64, stream: u64) -> u32;
    safe fn cuGraphDestroy(graph: u64) -> u32;
}

#[test]
fn a_copy_follows_its_stream_and_its_graph() {
    start();
    let mut stream = 0;
    assert_eq!(cuStreamCreate(&mut stream, 1), 0);
    let (from, to) = (alloc(4096), alloc(4096));

    assert_eq!(simcuda_kernel(stream, 500, from, 4096, 1), 0);
    assert_eq!(cuMemcpyDtoDAsync_v2(to, from, 4096, stream), 0);
    assert_eq!(simcuda_check(to, 4096, 1), 1);

    let (mut graph, mut exec, mut count) = (0, 0, 0);
    assert_eq!(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_eq!(cuMemcpyDtoDAsync_v2(to, from, 4096, stream), 0);
    assert_eq!(cuMemcpyDtoDAsync_v2(to, from, 512, stream), 0);
    assert_eq!(cuStreamEndCapture(stream, &mut graph), 0);
    assert_eq!((cuGraphGetNodes(graph, None, &mut count), count), (0, 2));
    assert_eq!(cuGraphGetNodes(graph, Some(&mut 0), &mut count), 801);

    assert_eq!(cuGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
    assert_eq!(simcuda_kernel(stream, 500, from, 4096, 2), 0);
    assert_eq!(simcuda_check(to, 4096, 1), 1);
    assert_eq!(cuGraphLaunch(exec, stream), 0);
    assert_eq!(simcuda_check(to, 4096, 2), 1);
    assert_eq!(simcuda_violations(), 0);

    assert_eq!(cuGraphDestroy(graph), 0);
    assert_eq!(cuGraphGetNodes(graph, None, &mut count), 1);
    assert_eq!(simcuda_violations(), 1);
}
