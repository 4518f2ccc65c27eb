//! What each hooked call does, one file a family. Every function takes the process and then the driver's own arguments, and
//! answers with the driver's own codes.
//!
//! # Invariants
//! 1. The ledger forgets a block before the driver gets it back and learns it after the driver gave it.
//! 2. A failing allocation writes 0 to its output, as the driver does.
//! 3. Only two codes are made here: out of memory when it is true, and invalid value for a pointer that is known to be free.

pub(super) mod capture;
mod context;
mod free;
mod growth;
mod host;
pub(super) mod ipc;
mod mem_info;
mod memory;
mod range;
mod refusal;
mod stream;
mod stream_ordered;
mod track;
pub(super) mod vmm;

pub(super) use capture::{
    cuStreamBeginCapture, cuStreamBeginCapture_ptsz, cuStreamBeginCapture_v2,
    cuStreamBeginCapture_v2_ptsz, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
    cuStreamEndCapture, cuStreamEndCapture_ptsz,
};
pub(super) use context::*;
pub(super) use free::cuMemFree_v2;
pub(super) use growth::*;
pub(super) use host::*;
pub(super) use ipc::{
    cuIpcCloseMemHandle, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,
};
pub(super) use mem_info::*;
pub(super) use memory::*;
pub(super) use range::*;
pub(super) use stream::*;
pub(super) use stream_ordered::*;
pub(super) use vmm::{cuMemCreate, cuMemMap, cuMemRelease, cuMemUnmap};
