//! The `managedFields` of an object: reading and writing them, and keeping them over an update or an apply.
