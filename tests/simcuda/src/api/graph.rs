//! Graphs.

use crate::abi::Out;
use crate::code::Code;
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::state;

exports! {
    [Init] cuGraphDestroy as "cuGraphDestroy" 10000 (graph: u64) {
        state::lock()?.graphs.destroy(graph)
    }

    /// Counts the nodes; they have no handles here.
    [Init] cuGraphGetNodes as "cuGraphGetNodes" 10000 (
        graph: u64, nodes: Out<u64>, count: Out<usize>
    ) {
        let number = state::lock()?.graphs.len(graph)?;
        if nodes.0.is_null() { count.set(number) } else { Err(Code::NOT_SUPPORTED) }
    }

    [Init] cuGraphInstantiateWithFlags as "cuGraphInstantiateWithFlags" 11040 (
        exec: Out<u64>, graph: u64, flags: u64
    ) {
        exec.required()?;
        exec.set(state::lock()?.graphs.instantiate(graph)?)
    }

    [Init] cuGraphLaunch as "cuGraphLaunch" 10000 (exec: u64, stream: u64) {
        let mut machine = state::lock_for_launch()?;
        let stream = machine.stream_named(stream, DefaultStream::Legacy)?;
        machine.launch_graph(exec, stream)
    }

    [Init] cuGraphExecDestroy as "cuGraphExecDestroy" 10000 (exec: u64) {
        state::lock()?.graphs.destroy_exec(exec)
    }
}
