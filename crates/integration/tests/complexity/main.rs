//! The work of a write grows with the size of what a client sends no faster than n log n. Each list and map is made four
//! times as large, and the CPU time of the writes is compared. This is a test program of its own because it measures its
//! process.

mod growth;
mod kinds;
mod subjects;
mod values;
mod writes;
