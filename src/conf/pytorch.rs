//! PyTorch's own variable, for a job whose allocator is replaced: what it was set to for is kept.

use super::{Settings, Torch, apply, parse, trimmed};

/// Its names, the first one that is set counts whole (PyTorch 2.11 does not merge them).
pub const VARIABLES: [&str; 2] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];

/// Keys that mean the same here.
const SHARED: [&str; 5] = [
    "garbage_collection_threshold",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "roundup_power2_divisions",
    "per_process_memory_fraction",
];
/// Keys of memory on the host, which PyTorch goes on looking after.
const HOST: &str = "pinned_";

/// As [`parse`], and where the text asks for the adapter, what PyTorch's variable sets stands behind what the text sets.
///
/// ```
/// let pytorch = |name: &str| (name == "PYTORCH_ALLOC_CONF").then(|| "max_split_size_mb:128".to_owned());
/// let (settings, problems) = cenote::conf::parse_with("torch:adapter", pytorch);
/// assert_eq!((settings.max_split_size, problems.len()), (Some(128 << 20), 0));
/// ```
pub fn parse_with(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> (Settings, Vec<String>) {
    let (settings, problems) = parse(text);
    if settings.torch != Torch::Adapter {
        return (settings, problems);
    }
    let set = VARIABLES.iter().find_map(|&name| Some((name, variable(name)?)));
    let Some((name, theirs)) = set else { return (settings, problems) };
    let (mut settings, mut all) = (Settings::default(), Vec::new());
    for pair in trimmed(&theirs) {
        all.extend(take(&mut settings, pair).map(|problem| format!("{name}: {problem}")));
    }
    for pair in trimmed(text) {
        let _ = apply(&mut settings, pair);
    }
    all.extend(problems);
    (settings, all)
}

/// Takes one of PyTorch's settings over. What is said of it, if it does nothing.
fn take(settings: &mut Settings, pair: &str) -> Option<String> {
    let (key, value) = pair.split_once(':').unwrap_or((pair, ""));
    if SHARED.contains(&key) {
        let problem = apply(settings, &format!("{key}:{value}")).err();
        return problem.map(|text| text.replace(" in CENOTE_CONF", ""));
    }
    let is_host = key.starts_with(HOST);
    let is_idle = value.eq_ignore_ascii_case("false") || (key, value) == ("backend", "native");
    (!is_host && !is_idle)
        .then(|| format!("{key} has no meaning for the adapter, and does nothing under it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(theirs: &'static str, ours: &str) -> (Settings, Vec<String>) {
        parse_with(ours, |name| (name == VARIABLES[0]).then(|| theirs.to_owned()))
    }

    #[test]
    fn what_guides_recommend_is_kept() {
        let theirs = "garbage_collection_threshold:0.8, max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8]";
        let (settings, problems) = with(theirs, "torch:adapter");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(settings.garbage_collection_threshold, Some(0.8));
        assert_eq!(settings.max_split_size, Some(128 << 20));
        assert!(settings.roundup_power2_divisions != Settings::default().roundup_power2_divisions);
    }

    #[test]
    fn our_own_keys_win() {
        let (settings, _) = with("max_split_size_mb:128", "torch:adapter,max_split_size_mb:64");
        assert_eq!(settings.max_split_size, Some(64 << 20));
    }

    #[test]
    fn without_the_adapter_it_is_pytorchs_business() {
        assert_eq!(with("max_split_size_mb:128", ""), (Settings::default(), vec![]));
    }

    #[test]
    fn a_key_without_meaning_is_named_once() {
        let (_, problems) =
            with("expandable_segments:True,pinned_use_cuda_host_register:True", "torch:adapter");
        assert_eq!(
            problems,
            [
                "PYTORCH_CUDA_ALLOC_CONF: expandable_segments has no meaning for the adapter, and does nothing under it"
            ]
        );
        assert!(with("expandable_segments:False", "torch:adapter").1.is_empty());
    }
}
