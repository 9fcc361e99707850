//! A campaign against tvmtune: random and mutated inputs, and circumstances that go wrong, for minutes
//! by default and for hours on request.
//!
//! A [`section::Section`] draws [cases](case) and checks each. The [parent](parent) gives the cases
//! of a section to [children](child), processes of the same program, so that a case may crash or hang
//! without an end to the campaign; a [report] says what was found, and how to repeat it.
//!
//! # Invariant
//!
//! A case depends on its section, the seed and its number alone: the command that a finding prints
//! repeats it.

pub mod section; // what is checked of a case
pub mod case; // one input, and what is drawn for it
pub mod corpus; // programs as people wrote them
pub mod generate; // programs from a grammar
pub mod mutate; // edits of text and bytes
pub mod hostile; // values that nobody means
pub mod program; // programs, read
pub mod reduced; // the corpus at small extents
pub mod launch; // arguments, and results by definition
pub mod machine; // machine code on this machine
pub mod execute; // a schedule on every path
pub mod sections; // all of them
pub mod protocol; // between parent and children
pub mod child; // runs cases
mod cpu_time; // of a child, which may wait for a busy machine
pub mod parent; // shares cases out, and watches the time
pub mod report; // what came of it
pub mod system; // sections about processes and the system
