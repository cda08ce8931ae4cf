//! CRDs and the objects of the kinds that they define.

mod conversion;
mod lifecycle;
