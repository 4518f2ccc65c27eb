//! The cuGetProcAddress door: the driver's answer decides, by address. Case C15 and traps 4, 6, 7.

mod harness;

use std::collections::BTreeMap;

use harness::Run;

/// Names as runtimes ask for them, old and new, hooked and not, and some that do not exist.
const NAMES: &[&str] = &[
    "-",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuInit",
    "cuMemAlloc",
    "cuMemAlloc_v2",
    "cuMemFree",
    "cuMemAllocPitch",
    "cuMemGetInfo",
    "cuMemGetAddressRange",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemAllocHost",
    "cuMemFreeHost",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemFreeAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle",
    "cuIpcCloseMemHandle",
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxRelease",
    "cuStreamCreate",
    "cuStreamDestroy",
    "cuStreamSynchronize",
    "cuStreamBeginCapture",
    "cuStreamBeginCaptureToGraph",
    "cuStreamEndCapture",
    "cuCtxRecordEvent",
    "cuLaunchKernel",
    "cuGraphInstantiateWithParams_ptsz",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventQuery",
    "cudaMalloc",
    "malloc",
    "cu",
];
const VERSIONS: &[i32] = &[
    -1, 0, 2000, 3000, 3020, 4000, 4010, 6000, 7000, 10000, 10010, 11000, 11020, 11030, 12000,
    12050, 13000, 99000,
];

fn triples() -> String {
    let flags = ["0", "1", "2"];
    let lines = NAMES.iter().flat_map(|name| VERSIONS.iter().map(move |version| (name, version)));
    lines
        .flat_map(|(name, version)| flags.map(|flags| format!("{name} {version} {flags}\n")))
        .collect()
}

/// What was answered, by question; the library's name apart.
fn answers(run: Run) -> BTreeMap<String, String> {
    let outcome = run.input(triples()).run().ok();
    let split = |line: &str| {
        line.split_once(": ").map(|(question, answer)| (question.to_owned(), answer.to_owned()))
    };
    outcome.stdout.lines().filter_map(split).collect()
}

/// The answers with and without cenote, each time the number of those that are hooks.
fn compare(prepare: impl Fn() -> Run) -> usize {
    let (hooked, plain) = (answers(prepare()), answers(prepare().preload(false)));
    assert_eq!(hooked.len(), plain.len());
    assert!(
        hooked.len() >= NAMES.len() * VERSIONS.len() * 3,
        "both forms were asked, or the only one"
    );
    let mut hooks = 0;
    for (question, plain) in &plain {
        let answer = &hooked[question];
        hooks += usize::from(answer.contains("libcenote.so"));
        assert_eq!(&answer.replace("libcenote.so", "libcuda.so.1"), plain, "{question}");
    }
    hooks
}

// vcuda-controller #20, #32; HAMi-core #57, #233, #320; iree #14056: for (cuMemAlloc, 2000) the answer is the 32-bit form, and
// a hook of the new one there corrupts the caller's stack. Every triple has the same code, status and symbol as without
// cenote, and the hook of that very symbol or the driver's own function.
#[test]
fn every_triple_has_the_drivers_answer() {
    let hooks = compare(|| Run::new("triples"));
    assert!(hooks > 1000, "{hooks}");
}

#[test]
fn an_old_driver_and_one_with_holes_answer_for_themselves() {
    let hooks = compare(|| Run::new("triples").old_driver());
    assert!(hooks > 400, "{hooks}");
    let missing = "cuMemAllocAsync,cuGetProcAddress,cuMemCreate,cuStreamBeginCapture";
    compare(|| Run::new("triples").env("SIMCUDA_MISSING", missing));
    compare(|| Run::new("triples").env("SIMCUDA_DRIVER_VERSION", "11020"));
    compare(|| Run::new("triples").env("SIMCUDA_STUBS", "1"));
}

// The exact pairs that were measured on a card: name, version, flags, and the function that must come.
#[test]
fn the_measured_pairs_are_hooked_under_their_symbol() {
    let pairs = [
        ("cuMemAlloc 3020 0", "cuMemAlloc_v2"),
        ("cuMemFree 3020 0", "cuMemFree_v2"),
        ("cuMemAllocPitch 3020 0", "cuMemAllocPitch_v2"),
        ("cuMemGetInfo 3020 0", "cuMemGetInfo_v2"),
        ("cuMemAllocManaged 6000 0", "cuMemAllocManaged"),
        ("cuMemHostAlloc 3020 0", "cuMemHostAlloc"),
        ("cuMemCreate 12000 0", "cuMemCreate"),
        ("cuMemAllocAsync 11020 0", "cuMemAllocAsync"),
        ("cuMemAllocAsync 11020 2", "cuMemAllocAsync_ptsz"),
        ("cuMemFreeAsync 11020 2", "cuMemFreeAsync_ptsz"),
        ("cuCtxDestroy 4000 0", "cuCtxDestroy_v2"),
        ("cuDevicePrimaryCtxReset 11000 0", "cuDevicePrimaryCtxReset_v2"),
        ("cuDevicePrimaryCtxRelease 11000 0", "cuDevicePrimaryCtxRelease_v2"),
        ("cuGetProcAddress 11030 0", "cuGetProcAddress"),
        ("cuGetProcAddress 12000 0", "cuGetProcAddress_v2"),
        ("cuStreamBeginCapture 10010 0", "cuStreamBeginCapture_v2"),
        ("cuStreamBeginCapture 10010 2", "cuStreamBeginCapture_v2_ptsz"),
        ("cuIpcGetMemHandle 4010 0", "cuIpcGetMemHandle"),
        ("cuIpcOpenMemHandle 11000 0", "cuIpcOpenMemHandle_v2"),
    ];
    let found = answers(Run::new("triples"));
    for (question, symbol) in pairs {
        let by_v2 = &found[&format!("2 {question}")];
        assert_eq!(by_v2, &format!("0 0 libcenote.so {symbol} 1"), "{question}");
        assert_eq!(
            &found[&format!("1 {question}")],
            &format!("0 libcenote.so {symbol}"),
            "{question}"
        );
    }
    // The 32-bit form stays the driver's.
    assert_eq!(found["2 cuMemAlloc 2000 0"], "0 0 libcuda.so.1 cuMemAlloc 1");
}

// HAMi-core #52, #59; HAMi #1834: export tables are asked for before cuInit and hash their own addresses: not ours to touch.
#[test]
fn the_export_table_is_not_hooked() {
    let exports =
        std::fs::read_to_string(harness::repository().join("scripts/exports.txt")).unwrap();
    for name in ["cuGetExportTable", "dlopen", "dlclose", "dlvsym"] {
        assert!(!exports.lines().any(|line| line == name), "{name}");
    }
    let outcome = Run::new("names").args(["libcuda.so.1", "cuGetExportTable"]).run().ok();
    assert!(
        outcome.stdout.starts_with("cuGetExportTable handle libcuda.so.1 -"),
        "{}",
        outcome.stdout
    );
}
