//! The client against servers on the loopback interface.

mod bounded;
mod credentials;
mod limits;
mod streams;
mod support;
mod upgrades;
