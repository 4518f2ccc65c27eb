//! Stacks for people: demangled, without the frames that every allocation has.

use cenote::report::{Frame, Report, owner};

use crate::render::cut;

/// Longest name that is shown whole.
const NAME: usize = 96;
/// Starts of the runtime's own functions, which a statically linked program has inside.
const RUNTIME: &[&str] =
    &["cuMem", "__cudart", "libcudart_static", "cudaMalloc", "cudaHostAlloc", "cudart::"];
/// Frames of PyTorch's cache: of interest only where nothing else is known.
const CACHE: &str = "CachingAllocator";

/// The innermost frames that say something, at most `limit` of them.
pub(crate) fn interesting(report: &Report, stack: &[u32], limit: usize) -> Vec<String> {
    let frames: Vec<_> = all(report, stack).filter(|frame| !is_plumbing(frame)).collect();
    let outside = frames.iter().filter(|frame| !is_cache(frame)).copied();
    let mut chosen: Vec<_> = outside.take(limit).collect();
    if chosen.is_empty() {
        chosen = frames.iter().copied().take(limit).collect();
    }
    if !chosen.is_empty() && chosen.iter().all(|frame| is_python(frame)) {
        let native = all(report, stack).filter(|frame| !is_below_everything(frame));
        let native = native.filter(|frame| !is_python(frame)).map(name).next();
        return std::iter::once("called from Python".to_owned()).chain(native).collect();
    }
    chosen.into_iter().map(name).collect()
}

/// The same on one line, innermost first.
pub(crate) fn line(report: &Report, stack: &[u32], limit: usize) -> String {
    if stack.is_empty() {
        return "no stack was taken".to_owned();
    }
    let names = interesting(report, stack, limit);
    if names.is_empty() { "inside the CUDA libraries".to_owned() } else { names.join(" < ") }
}

/// Every frame, named.
pub(crate) fn full(report: &Report, stack: &[u32]) -> Vec<String> {
    all(report, stack).map(name).collect()
}

fn all<'a>(report: &'a Report, stack: &'a [u32]) -> impl Iterator<Item = &'a Frame> {
    stack.iter().filter_map(|&at| report.frames.get(at as usize))
}

fn is_plumbing(frame: &Frame) -> bool {
    let symbol = frame.symbol.as_deref().unwrap_or_default();
    owner::is_plumbing(&frame.module) || RUNTIME.iter().any(|start| symbol.starts_with(start))
}

/// cenote's own frames and those of CUDA: every stack has them.
fn is_below_everything(frame: &Frame) -> bool {
    let modules = ["libcenote", "libcudart", "libcuda.", "libc.so", "libffi"];
    modules.iter().any(|start| frame.module.starts_with(start))
}

/// The interpreter's own functions say nothing about the lines that it runs.
fn is_python(frame: &Frame) -> bool {
    let symbol = frame.symbol.as_deref().unwrap_or_default();
    symbol.starts_with("_Py")
        || symbol.starts_with("Py")
        || owner::owner_of_module(&frame.module, "").as_deref() == Some(owner::PROGRAM)
}

fn is_cache(frame: &Frame) -> bool {
    frame.symbol.as_deref().is_some_and(|symbol| symbol.contains(CACHE))
}

/// `function (library)`, or `library+0x1234` where the function has no name.
fn name(frame: &Frame) -> String {
    match &frame.symbol {
        Some(symbol) => format!("{} ({})", cut(&demangle(symbol), NAME), frame.module),
        None => format!("{}+{}", frame.module, frame.offset),
    }
}

/// Parameter lists are left out: in C++ they are longer than the name.
fn demangle(symbol: &str) -> String {
    if is_rust(symbol) {
        return format!("{:#}", rustc_demangle::demangle(symbol));
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let parsed = cpp_demangle::Symbol::new(symbol).ok();
    let demangled = parsed.and_then(|parsed| parsed.demangle_with_options(&options).ok());
    demangled.unwrap_or_else(|| symbol.to_owned())
}

/// Rust's older names look like C++ names that end in a hash.
fn is_rust(symbol: &str) -> bool {
    let hash = symbol.strip_suffix('E').and_then(|name| name.rsplit_once("17h"));
    symbol.starts_with("_R") || hash.is_some_and(|(_, hash)| hash.len() == 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_languages() {
        for (symbol, name) in [
            ("main", "main"),
            ("_ZN5model4stepEi", "model::step"),
            ("_ZN4main4main17h0123456789abcdefE", "main::main"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ] {
            assert_eq!(demangle(symbol), name);
        }
    }
}
