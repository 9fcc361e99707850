//! Files as they are found: whole, cut off, of other programs, and wrong.

use super::*;

const LAUNCH: &str = "{\"name\":\"linear\",\"cat\":\"tvmtune\",\"ph\":\"X\",\"dur\":4.000,\
    \"ts\":1234.500,\"pid\":7,\"tid\":2,\"args\":{\"dims\":{\"M\":10},\"bucket\":{\"M\":[9,64]},\
    \"isa\":\"avx2\",\"tier\":\"same isa\",\"threads\":2,\"artifact\":\"beef\",\
    \"workload\":\"c0ffee\",\"gflop\":0.02,\"mbytes\":0.012,\"gflops\":5000.0000,\
    \"gbps\":3.0000,\"idle_us\":1.500}}";

/// Counts of launches, captured ones and others.
#[track_caller]
fn counts(text: &str) -> (usize, usize, usize, bool) {
    let Profile { launches, n_captured, n_others, is_cut_off } =
        Profile::read(text.as_bytes()).unwrap();
    (launches.len(), n_captured, n_others, is_cut_off)
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(Profile::read(text.as_bytes()).unwrap_err(), expected, "{text}");
}

#[test]
fn an_application_may_have_ended_at_any_moment() {
    let whole = format!("[\n{LAUNCH},\n{LAUNCH},\n");
    assert_eq!(counts(&whole), (2, 0, 0, false));
    assert_eq!(counts(&format!("{whole}]\n")), (2, 0, 0, false));
    assert_eq!(counts(&format!("[{LAUNCH}]")), (1, 0, 0, false));
    assert_eq!(counts("[\n"), (0, 0, 0, false));
    let first = format!("[\n{LAUNCH},\n");
    for end in first.len() + 1..whole.len() - 2 {
        assert_eq!(counts(&whole[..end]), (1, 0, 0, true), "{}", &whole[..end]);
    }
    // In the middle of a character.
    let cut = [first.as_bytes(), b"{\"name\":\"\xc3"].concat();
    assert!(Profile::read(&cut).unwrap().is_cut_off);
}

#[test]
fn events_of_other_programs_are_counted() {
    let others = "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\
        \"ts\":1.5,\"dur\":2,\"args\":{\"External id\":1}},{\"ph\":\"M\",\"name\":\"process_name\"}";
    let captured = LAUNCH.replace("\"ph\":\"X\",\"dur\":4.000", "\"ph\":\"i\",\"s\":\"t\"");
    assert_eq!(counts(&format!("[{others},\n{LAUNCH},{captured}]")), (1, 1, 2, false));
    let object = format!("{{\"schemaVersion\": 1, \"traceEvents\": [{others},{LAUNCH}]}}\n");
    assert_eq!(counts(&object), (1, 0, 2, false));
}

#[test]
fn what_is_no_trace_is_named() {
    check_error("", "the file is empty: no launch was traced");
    check_error(" \n", "the file is empty: no launch was traced");
    check_error("hello", "no trace: expected a list of events, `[`, or an object, `{`");
    check_error("[\n1,\n", "line 2: expected an event, an object, and found a number");
    check_error("[\n{},\n{oh},\n", "line 3: key must be a string");
    check_error("[{}]\n\nmore", "line 3: text after the end of the list");
    check_error("[{} {}]", "line 1: expected `,` or `]`");
    check_error(
        "{}",
        "no trace in the form of an object: missing field `traceEvents` at line 1 column 2",
    );
    let error = Profile::read(b"[\xff").unwrap_err();
    assert_eq!(error, "byte 1 is no part of a UTF-8 text");
}

#[test]
fn a_launch_has_what_the_runtime_writes() {
    let check = |before: &str, after: &str, expected: &str| {
        assert!(LAUNCH.contains(before));
        let text = format!("[\n{},\n", LAUNCH.replace(before, after));
        check_error(&text, &format!("line 2: {expected}"));
    };
    check("\"name\":\"linear\",", "", "a launch has no `name`");
    let of = "the launch of `linear`:";
    check("4.000", "-4", &format!("{of} `dur` is -4.0, expected 0 to 3.1536e13"));
    check("4.000", "1e300", &format!("{of} `dur` is 1e300, expected 0 to 3.1536e13"));
    check("4.000", "1e999", "number out of range");
    check("4.000", "\"4\"", &format!("{of} `dur` is no number"));
    check("1.500", "-1", &format!("{of} `args.idle_us` is -1.0, expected 0 to 3.1536e13"));
    check("\"X\"", "\"B\"", &format!("{of} expected \"X\" or \"i\" for `ph`"));
    check("\"isa\":\"avx2\",", "", &format!("{of} `args`: missing field `isa`"));
    check(
        "[9,64]",
        "[9]",
        &format!("{of} `args`: invalid length 1, expected an array of length 2"),
    );
}
