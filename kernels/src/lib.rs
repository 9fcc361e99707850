//! A library of annotated programs with its shipped database.
