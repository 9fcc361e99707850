//! Step 10 of 12: plans a build.
