//! What must hold for every input of every decoder, as plain functions of bytes ([`TARGETS`]), and the two things that
//! inputs come from: [`mutate`] changes good texts, [`sample`] makes objects of any kind. The tests of this crate run the
//! functions for a bounded, seeded while; `libfuzzer` beside it runs the same functions for as long as one likes, guided
//! by coverage. Test code only: nothing that is served links it.

mod bounded;
mod mutate;
mod random;
mod sample;
mod targets;

pub use bounded::{Bound, bounded};
pub use mutate::mutate;
pub use random::Random;
pub use sample::sample;
pub use targets::{TARGETS, Target, survives_yaml};
