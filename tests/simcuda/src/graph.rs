//! Graphs that came out of captures, and their executable forms.
//!
//! A launch runs the recorded operations one after the other in the launching stream; the real
//! driver would run independent branches side by side.

use std::collections::BTreeMap;

use crate::clock::Time;
use crate::code::{Code, Outcome};
use crate::operation::Operation;
use crate::state::Sim;
use crate::violation::violation;

const FIRST_GRAPH: u64 = 0x4752_0000_0000;
const FIRST_EXEC: u64 = 0x4758_0000_0000;

/// The graphs of the process.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    graphs: BTreeMap<u64, Vec<Operation>>,
    execs: BTreeMap<u64, Vec<Operation>>,
    made: u64,
}

impl Graphs {
    /// Adds nodes to a graph, or makes one of them.
    pub(crate) fn fill(&mut self, target: Option<u64>, nodes: Vec<Operation>) -> Outcome<u64> {
        match target {
            None => {
                self.made += 1;
                let handle = FIRST_GRAPH + 16 * self.made;
                self.graphs.insert(handle, nodes);
                Ok(handle)
            }
            Some(handle) => {
                self.graphs.get_mut(&handle).ok_or_else(|| unknown("graph", handle))?.extend(nodes);
                Ok(handle)
            }
        }
    }

    pub(crate) fn check(&self, graph: u64) -> Outcome {
        if self.graphs.contains_key(&graph) { Ok(()) } else { Err(unknown("graph", graph)) }
    }

    /// How many nodes a graph has.
    pub(crate) fn len(&self, graph: u64) -> Outcome<usize> {
        self.graphs.get(&graph).map(Vec::len).ok_or_else(|| unknown("graph", graph))
    }

    pub(crate) fn destroy(&mut self, graph: u64) -> Outcome {
        self.graphs.remove(&graph).map(drop).ok_or_else(|| unknown("graph", graph))
    }

    pub(crate) fn instantiate(&mut self, graph: u64) -> Outcome<u64> {
        let nodes = self.graphs.get(&graph).ok_or_else(|| unknown("graph", graph))?.clone();
        self.made += 1;
        let handle = FIRST_EXEC + 16 * self.made;
        self.execs.insert(handle, nodes);
        Ok(handle)
    }

    pub(crate) fn destroy_exec(&mut self, exec: u64) -> Outcome {
        self.execs.remove(&exec).map(drop).ok_or_else(|| unknown("executable graph", exec))
    }
}

fn unknown(what: &str, handle: u64) -> Code {
    violation!("use of the {what} {handle:#x}, which is destroyed or unknown");
    Code::INVALID_VALUE
}

impl Sim {
    /// Launches a graph into a stream, or into the capture that the stream takes part in.
    pub(crate) fn launch_graph(&mut self, exec: u64, stream: u64) -> Outcome {
        let found = self.graphs.execs.get(&exec);
        let nodes = found.cloned().ok_or_else(|| unknown("executable graph", exec))?;
        for operation in nodes {
            self.enqueue(stream, operation, "cuGraphLaunch")?;
        }
        Ok(())
    }

    /// Gives an operation to a stream: to the device, or to the capture. The time of its end is
    /// `None` for a captured one.
    pub(crate) fn enqueue(
        &mut self,
        stream: u64,
        operation: Operation,
        call: &str,
    ) -> Outcome<Option<Time>> {
        self.respect_implicit_order(stream, call)?;
        match self.capture_of(stream) {
            Some(capture) => self.record_node(capture, stream, operation).map(|()| None),
            None => self.execute(stream, operation).map(Some),
        }
    }
}
