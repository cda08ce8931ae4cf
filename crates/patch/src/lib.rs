//! JSON Patch, JSON Merge Patch and strategic merge patch.
