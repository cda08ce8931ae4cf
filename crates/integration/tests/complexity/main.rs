//! The work of a write grows no faster than n log n with the size of the client's input. The tests make each list and
//! map four times as large, and compare the CPU time of the writes. This is a separate test program because it measures
//! its process.

mod growth;
mod kinds;
mod subjects;
mod values;
mod writes;
