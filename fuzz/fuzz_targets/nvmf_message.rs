#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_nvmf::fuzz::nvmf_message(bytes));
