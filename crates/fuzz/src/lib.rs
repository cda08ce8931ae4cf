//! The fuzz targets of all decoders, as plain functions of bytes ([`TARGETS`]), and two sources of inputs. [`mutate()`]
//! changes valid inputs, and [`sample()`] generates objects of any kind. The tests of this crate run the targets for a
//! bounded time with a fixed seed. `libfuzzer` runs the same targets with coverage guidance for any time. This is test
//! code only: no served code links it.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_fuzz::{Inputs, TARGETS, check};
//!
//! let yaml = TARGETS.iter().find(|target| target.name == "yaml").expect("a target");
//! let mut inputs = Inputs::new(yaml, 1);
//! for _ in 0..20 {
//!     // No input may panic or take long.
//!     assert!(check(yaml, &inputs.next_input(), Duration::from_secs(10)).is_ok());
//! }
//! ```

mod memory_limit;
mod mutate;
mod random;
mod run;
mod sample;
mod targets;
mod work_limit;

pub use memory_limit::{MemoryLimit, with_memory_limit};
pub use mutate::mutate;
pub use random::Random;
pub use run::{Finding, Inputs, check, record_panics};
pub use sample::sample;
pub use targets::{FuzzTarget, TARGETS, round_trips_in_yaml};
