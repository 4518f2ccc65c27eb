#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cenote_fuzz::trace(data));
