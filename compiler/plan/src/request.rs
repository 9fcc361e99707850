//! Requests to a process on its standard input, which stays open until the answer has come.
//!
//! The macro asks the program of the build script, and that asks for tuning in a process of its own.
//! Any of them may be killed alone. The system closes the pipes of a process that ends, so whoever
//! was asked learns at once that nobody waits for the answer, and ends.
//!
//! A request ends with the line [`END`]. One without it came over a pipe that says nothing about
//! whoever asked.

use std::io::{self, BufRead, Read, Write};
use std::process::{self, Child, ChildStdin};
use std::thread;

/// The last line of a request; to a reader of TOML it is a comment.
const END: &str = "# end\n";

/// Sends a request to a child whose standard input is piped. The child works on it until the pipe that
/// is returned is dropped.
pub fn send(child: &mut Child, text: &str) -> Option<ChildStdin> {
    let mut stdin = child.stdin.take()?;
    let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // A child that does not read it does not answer either, which the caller sees.
    let _ = stdin.write_all(format!("{text}{line_end}{END}").as_bytes());
    Some(stdin)
}

/// Receives the request to this process, which ends once the one that asked is gone, after a call of
/// `before_end`.
///
/// # Errors
///
/// If standard input can't be read, or is no text.
pub fn receive(before_end: impl FnOnce() + Send + 'static) -> io::Result<String> {
    let text = read(&mut io::stdin().lock())?;
    if text.ends_with(END) {
        let watch = move || {
            // Nothing follows but the end of the pipe.
            let _ = io::stdin().lock().read_to_end(&mut Vec::new());
            before_end();
            process::exit(1);
        };
        // Without a watch, a process that nobody waits for runs on until it is done.
        let _ = thread::Builder::new().name("request".to_owned()).spawn(watch);
    }
    Ok(text)
}

/// Reads up to the last line of a request, or to the end of the input.
fn read(input: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    while input.read_line(&mut text)? > 0 {
        if text.ends_with(END) && text.strip_suffix(END).is_some_and(is_line_start) {
            break;
        }
    }
    Ok(text)
}

/// Tells if a new line begins after that text.
fn is_line_start(text: &str) -> bool {
    text.is_empty() || text.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_last_line_or_its_pipe() {
        let check = |input: &str, expected: &str| {
            assert_eq!(read(&mut input.as_bytes()).unwrap(), expected);
        };
        check("a = 1\n# end\nmore", "a = 1\n# end\n");
        check("# end\n", "# end\n");
        check("a = 1\nb = 2\n", "a = 1\nb = 2\n");
        check("a = '# end\n# end'\n", "a = '# end\n# end'\n");
        check("", "");
        assert!(read(&mut &[0xff_u8, b'\n'][..]).is_err(), "it is no text");
    }
}
