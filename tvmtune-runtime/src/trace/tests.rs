//! Traces as files have them; the suite runs applications that write some.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::event::Event;
use super::sink::{Sink, write_whole};
use super::{Clock, Launch, LaunchedCode};
use crate::raw::{Bucket, Traced};
use crate::{Isa, Numerics, Spec, Tier};

static SPEC: Spec = Spec {
    name: "linear",
    workload: "c0ffee",
    numerics: Numerics::Free,
    dims: &[("M", 1, 64), ("K", 1, 8)],
    params: &[],
    outputs: &[],
};
static BUCKETS: [Bucket; 2] = [
    Bucket { ranges: &[(1, 8), (1, 8)], work: |_| [1.0, 1.0], variants: &[] },
    Bucket {
        ranges: &[(9, 64), (1, 8)],
        work: |dims| [2e6 * dims[0] as f64, 4e3 * dims[1] as f64],
        variants: &[],
    },
];
static TRACED: Traced = Traced { spec: &SPEC, buckets: &BUCKETS };
const CODE: LaunchedCode =
    LaunchedCode { isa: Isa::Avx2, tier: Tier::SameIsa, threads: Some(2), artifact: "beef" };

/// A file that ends with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tvmtune-{name}-{}.json", std::process::id())))
    }

    fn open(&self) -> &'static Sink {
        Box::leak(Box::new(Sink::open(&self.0).unwrap()))
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn begin(sink: &'static Sink, traced: &'static Traced) -> Launch {
    Launch { sink, traced, begin: std::time::Instant::now() }
}

/// The value of a field that is a number.
fn number(line: &str, field: &str) -> f64 {
    let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{line}"));
    let end = rest.find([',', '}']).unwrap();
    rest[..end].parse().unwrap()
}

#[test]
fn an_event_says_what_ran_and_how_fast() {
    let event = Event {
        traced: &TRACED,
        dims: &[10, 3],
        code: &CODE,
        process: 7,
        thread: 2,
        begin_us: 1234.5,
        duration_ns: Some(4000.0),
        idle_ns: Some(1500.0),
    };
    let begin = "{\"name\":\"linear\",\"cat\":\"tvmtune\",";
    let of = "\"ts\":1234.500,\"pid\":7,\"tid\":2,\"args\":{\"dims\":{\"M\":10,\"K\":3},\
              \"bucket\":{\"M\":[9,64],\"K\":[1,8]},\"isa\":\"avx2\",\"tier\":\"same isa\",\
              \"threads\":2,\"artifact\":\"beef\",\"workload\":\"c0ffee\",\
              \"gflop\":0.02,\"mbytes\":0.012";
    let timed = "\"ph\":\"X\",\"dur\":4.000,";
    let rates = ",\"gflops\":5000.0000,\"gbps\":3.0000,\"idle_us\":1.500}},\n";
    assert_eq!(event.to_string(), format!("{begin}{timed}{of}{rates}"));
    // Nobody knows when a part of a graph runs.
    let captured = Event { duration_ns: None, idle_ns: None, ..event };
    let instant = "\"ph\":\"i\",\"s\":\"t\",";
    assert_eq!(captured.to_string(), format!("{begin}{instant}{of}}}}},\n"));
    // A clock of the device may not see the shortest ones.
    let short = Event { duration_ns: Some(0.0), ..captured };
    assert!(!short.to_string().contains("gflops"), "{short}");
}

#[test]
fn names_are_texts_of_json() {
    static NAMED: Spec = Spec { name: "a\"b\\c\n\u{e9}", dims: &[], ..SPEC };
    static ODD: Traced = Traced { spec: &NAMED, buckets: &[] };
    let event = Event {
        traced: &ODD,
        dims: &[],
        code: &CODE,
        process: 1,
        thread: 1,
        begin_us: 0.0,
        duration_ns: None,
        idle_ns: None,
    };
    let text = event.to_string();
    assert!(text.starts_with("{\"name\":\"a\\\"b\\\\c\\u000a\u{e9}\","), "{text}");
    assert!(text.contains("\"dims\":{},\"bucket\":{},"), "{text}");
}

#[test]
fn threads_write_whole_lines() {
    let place = Place::new("threads");
    let sink = place.open();
    let (n_threads, n_launches) = (8, 300);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                for _ in 0..n_launches {
                    begin(sink, &TRACED).end(&[10, 3], &CODE, Clock::Host);
                }
            });
        }
    });
    let text = place.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("[", 1 + n_threads * n_launches));
    let mut threads = Vec::new();
    for line in &lines[1..] {
        assert!(line.starts_with("{\"name\":\"linear\"") && line.ends_with("}},"), "{line}");
        assert_eq!(line.matches("\"name\"").count(), 1, "{line}");
        assert!(number(line, "dur") < 1e6 && number(line, "ts") > 4e13, "{line}");
        threads.push(number(line, "tid") as u64);
    }
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), n_threads);
    // Of each thread all launches but the first one have another one before.
    assert_eq!(text.matches("idle_us").count(), n_threads * (n_launches - 1));
}

#[test]
fn tracing_is_no_idle_time_and_no_time_of_a_launch() {
    // A name that takes long to write.
    let name: &'static str = String::leak("x".repeat(1 << 24));
    let spec: &'static Spec = Box::leak(Box::new(Spec { name, dims: &[], ..SPEC }));
    let slow: &'static Traced = Box::leak(Box::new(Traced { spec, buckets: &[] }));
    let place = Place::new("idle");
    let sink = place.open();
    std::thread::spawn(move || {
        begin(sink, slow).end(&[], &CODE, Clock::Host);
        let second = begin(sink, slow);
        let tracing = std::time::Instant::now();
        second.end(&[], &CODE, Clock::Host);
        let tracing_us = tracing.elapsed().as_secs_f64() * 1e6;
        begin(sink, &TRACED).end(&[10, 3], &CODE, Clock::Host);
        let text = place.text();
        let last = text.lines().last().unwrap();
        let idle_us = number(last, "idle_us");
        assert!(tracing_us > 100.0 && idle_us < tracing_us / 2.0, "{idle_us} of {tracing_us}");
        for line in text.lines().skip(1) {
            assert!(number(line, "dur") < tracing_us, "{} of {tracing_us}", number(line, "dur"));
        }
    })
    .join()
    .unwrap();
}

#[test]
fn a_launch_has_its_time_in_microseconds() {
    let place = Place::new("time");
    let sink = place.open();
    let launch = begin(sink, &TRACED);
    let before = launch.begin;
    // The work of a launch.
    while before.elapsed() < Duration::from_millis(3) {}
    launch.end(&[10, 3], &CODE, Clock::Host);
    let bound_us = before.elapsed().as_secs_f64() * 1e6;
    let text = place.text();
    let (us, rate) = (number(&text, "dur"), number(&text, "gflops"));
    assert!((3000.0..bound_us).contains(&us), "{us}");
    assert!((rate * us / 1e6 / 0.02 - 1.0).abs() < 1e-3, "{rate} {us}");
}

#[test]
fn a_file_begins_anew_unless_somebody_writes_to_it() {
    let place = Place::new("shared");
    let line = |it: &Sink| it.write("{},\n");
    let (one, two) = (Sink::open(&place.0).unwrap(), Sink::open(&place.0).unwrap());
    line(&one);
    line(&two);
    drop(one);
    line(&Sink::open(&place.0).unwrap());
    assert_eq!(place.text(), "[\n{},\n{},\n{},\n");
    drop(two);
    line(&Sink::open(&place.0).unwrap());
    assert_eq!(place.text(), "[\n{},\n");
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    assert!(Sink::open(&std::env::temp_dir()).is_err());
    assert!(Sink::open(Path::new("no/such/folder/trace.json")).is_err());
}

#[test]
fn a_line_is_one_write() {
    /// Takes some bytes of each write.
    struct Pipe(usize, Vec<usize>);
    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.push(bytes.len());
            Ok(bytes.len().min(self.0))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut pipe = Pipe(100, Vec::new());
    write_whole(&mut pipe, &[0; 50]).unwrap();
    assert_eq!(pipe.1, [50]);
    // The rest would stand behind the lines of others.
    let error = write_whole(&mut pipe, &[0; 150]).unwrap_err();
    assert_eq!((error.kind(), &pipe.1[..]), (io::ErrorKind::WriteZero, &[50, 150][..]));
}

#[test]
fn nothing_is_traced_unless_asked_for() {
    assert!(super::begin(Some(&TRACED)).is_none());
}
