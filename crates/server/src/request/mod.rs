//! What a request says, before anything is done about it: its request info, query parameters and options, the negotiated
//! encodings, and what is recorded about it. This layer knows no cluster.

pub(crate) mod info;
pub(crate) mod negotiate;
pub(crate) mod query;
pub(crate) mod recorder;
