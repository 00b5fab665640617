#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_tools::inspect::fuzz_request(bytes));
