#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace::internal::fuzz_cache(bytes));
