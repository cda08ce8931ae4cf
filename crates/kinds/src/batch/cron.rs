//! Validates cron schedules of CronJobs: the grammar of robfig/cron v3's standard parser (five fields or a descriptor),
//! with its error messages.

use pintle_value::field::quote;
use pintle_value::time::Duration;

/// The names of the time zones that kube-apiserver is built with (IANA tz database 2025c).
const ZONES: &str = include_str!("zones.txt");

/// The lowest and highest number of a field, and the names of its numbers.
struct FieldBounds {
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [FieldBounds; 5] = [
    FieldBounds { low: 0, high: 59, names: &[] },
    FieldBounds { low: 0, high: 23, names: &[] },
    FieldBounds { low: 1, high: 31, names: &[] },
    FieldBounds { low: 1, high: 12, names: &MONTHS },
    FieldBounds { low: 0, high: 6, names: &DAYS },
];

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Validates a schedule.
///
/// # Errors
/// Returns the message of robfig/cron.
pub(super) fn check_schedule(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut spec = schedule;
    if let Some(rest) = spec.strip_prefix("TZ=").or_else(|| spec.strip_prefix("CRON_TZ=")) {
        // The parser panics here with a slice out of bounds; upstream turns the panic into this error.
        let Some((zone, rest)) = rest.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        check_zone(zone).map_err(|e| format!("provided bad location {zone}: {e}"))?;
        spec = rest.trim();
    }
    if spec.starts_with('@') {
        return check_descriptor(spec);
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.into_iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

/// Validates the name of a time zone (Go: `time.LoadLocation`).
///
/// # Errors
/// Returns Go's message.
pub(super) fn check_zone(name: &str) -> Result<(), String> {
    if name.is_empty() || name == "UTC" || name == "Local" {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    if ZONES.lines().any(|zone| zone == name) { Ok(()) } else { Err(format!("unknown time zone {name}")) }
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    match descriptor.strip_prefix("@every ") {
        Some(duration) => {
            Duration::parse(duration).map(|_| ()).map_err(|e| format!("failed to parse duration {descriptor}: {e}"))
        }
        None => Err(format!("unrecognized descriptor: {descriptor}")),
    }
}

fn check_range(text: &str, bounds: &FieldBounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let limits: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end) = match limits.as_slice() {
        ["*" | "?", ..] => (bounds.low, bounds.high),
        [only] => {
            let number = number_or_name(only, bounds)?;
            (number, number)
        }
        [start, end] => (number_or_name(start, bounds)?, number_or_name(end, bounds)?),
        [start, ..] => {
            number_or_name(start, bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
        [] => (bounds.low, bounds.high),
    };
    let step = match parts.as_slice() {
        [] | [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if limits.len() == 1 {
                end = bounds.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.low {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.low));
    }
    if end > bounds.high {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.high));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &FieldBounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().position(|n| *n == name) {
        Some(i) => Ok(bounds.low + i as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number = atoi(text).map_err(|e| format!("failed to parse int from {text}: {e}"))?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// Parses an integer like Go's `strconv.Atoi`.
///
/// # Errors
/// Returns Go's message.
pub(super) fn atoi(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let problem = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else if let Ok(number) = text.parse() {
        return Ok(number);
    } else {
        "value out of range"
    };
    Err(format!("strconv.Atoi: parsing {}: {problem}", quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_validated_like_robfig_cron() {
        let check = |schedule: &str, expect: &str| {
            assert_eq!(check_schedule(schedule).err().unwrap_or_default(), expect, "{schedule}");
        };
        for good in [
            "* * * * *",
            "*/5 0-23/2 1,15 JAN-mar ?",
            "0 0 1 1 sun",
            "@hourly",
            "@every 1h30m",
            "TZ=Europe/Paris 0 0 * * *",
            "CRON_TZ=UTC @daily",
            "5/15 * * * *",
            ", * * * *",
        ] {
            check(good, "");
        }
        check("", "empty spec string");
        check("* * * *", "expected exactly 5 fields, found 4: [* * * *]");
        check("1 2 3 4 5 6", "expected exactly 5 fields, found 6: [1 2 3 4 5 6]");
        check("60 * * * *", "end of range (60) above maximum (59): 60");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3");
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("*/-5 * * * *", "negative number (-5) not allowed: -5");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("1/2/3 * * * *", "too many slashes: 1/2/3");
        check("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax");
        check("* * * * mon-", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax");
        check(
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        );
        check("@never", "unrecognized descriptor: @never");
        check("@every x", "failed to parse duration @every x: time: invalid duration \"x\"");
        check("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]");
        check("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base");
        check("TZ=../x * * * * *", "provided bad location ../x: time: invalid location name");
    }
}
