//! Facts of the built-in kinds.
