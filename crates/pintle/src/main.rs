//! The `pintle` binary. The name under which it is called decides which program it is: see [`command`].

mod command;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    command::run()
}
