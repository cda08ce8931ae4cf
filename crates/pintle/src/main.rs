//! The `pintle` binary. What it does depends on the name under which it is called: see [`command`].

mod command;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    command::run()
}
