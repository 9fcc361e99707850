//! Steps 7 to 9: compiles, measures, searches and remembers.
