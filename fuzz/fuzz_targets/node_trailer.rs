#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_node::format::fuzz::node_trailer(bytes));
