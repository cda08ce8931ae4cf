//! `cargo xtask compare [--seed N] [--minutes M] [--only AREA[,AREA]] [--keep-going] [--cbor]`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pintle_compare::{AREAS, Options, Outcome, RANDOM, RANDOM_AGGREGATION, compare};

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        duration: Duration::from_secs(60),
        limit: u64::MAX,
        only: Vec::new(),
        keep_going: false,
        cbor: false,
        report: print,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        match argument.as_str() {
            "--seed" => options.seed = number(value()?)?,
            "--minutes" => options.duration = Duration::from_secs(60 * number(value()?)?),
            "--only" => {
                for name in value()?.split(',') {
                    if ![RANDOM, RANDOM_AGGREGATION].contains(&name) && AREAS.iter().all(|area| area.name != name) {
                        return Err(format!("unknown area {name}\n{}", usage()));
                    }
                    options.only.push(name.to_owned());
                }
            }
            "--cbor" => options.cbor = true,
            "--keep-going" => options.keep_going = true,
            other => return Err(format!("unknown argument {other}\n{}", usage())),
        }
    }
    Ok(options)
}

fn usage() -> String {
    let mut text = String::from(
        "usage: compare [--seed N] [--minutes M] [--only AREA[,AREA]] [--keep-going] [--cbor]\nareas:\n  random: sequences made from the seed, for M minutes (1)\n  random-aggregation: the same for other API servers behind both servers",
    );
    for area in AREAS {
        text.push_str(&format!("\n  {}: {}", area.name, area.description));
    }
    text
}

fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match parse(&arguments) {
        Ok(options) => options,
        Err(message) => {
            print(&message);
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let Outcome { requests, sequences, differences } = pintle_integration::run(compare(options));
    let seconds = started.elapsed().as_secs();
    print(&format!("{requests} requests in {sequences} sequences, {} differences, {seconds} s", differences.len()));
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
