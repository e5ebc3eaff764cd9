//! Every parser that meets foreign bytes, fed with what libFuzzer makes up. `scripts/fuzz` builds and runs it; which target
//! is named by the variable FUZZ_TARGET. Besides that nothing panics or hangs, each says what must be true of its result.

#![no_main]

mod targets;

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    let found = targets::ALL.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("there is no target {name}")).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
