//! The validation of options, compared with upstream's library.

use pintle_audit::{AuditOptions, BatchOptions, TruncateOptions};
use pintle_value::time::Duration;
use serde_json::{Value, json};

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(value: &str) -> T {
    value.parse().expect("a number")
}

fn set_batch(options: &mut BatchOptions, flag: &str, value: &str) {
    match flag {
        "mode" => options.mode = value.to_owned(),
        "batch-buffer-size" => options.buffer_size = number(value),
        "batch-max-size" => options.max_size = number(value),
        "batch-max-wait" => options.max_wait = Duration::parse(value).expect("a duration"),
        "batch-throttle-enable" => options.throttle_enable = value != "false",
        "batch-throttle-qps" => options.throttle_qps = number(value),
        "batch-throttle-burst" => options.throttle_burst = number(value),
        other => panic!("unknown flag {other}"),
    }
}

fn set_truncate(options: &mut TruncateOptions, flag: &str, value: &str) {
    match flag {
        "enabled" => options.enabled = value != "false",
        "max-batch-size" => options.max_batch_size = number(value),
        "max-event-size" => options.max_event_size = number(value),
        other => panic!("unknown flag {other}"),
    }
}

fn set(options: &mut AuditOptions, flag: &str, value: &str) {
    let (plugin, name) = flag.split_once('-').expect("a flag");
    match (plugin, name.strip_prefix("truncate-")) {
        ("log", Some(name)) => return set_truncate(&mut options.log.truncate, name, value),
        ("webhook", Some(name)) => return set_truncate(&mut options.webhook.truncate, name, value),
        _ => {}
    }
    let (log, webhook) = (&mut options.log, &mut options.webhook);
    match (plugin, name) {
        ("policy", "file") => options.policy_file = value.to_owned(),
        ("log", "path") => log.path = value.to_owned(),
        ("log", "maxage") => log.max_age = number(value),
        ("log", "maxbackup") => log.max_backups = number(value),
        ("log", "maxsize") => log.max_size = number(value),
        ("log", "format") => log.format = value.to_owned(),
        ("log", "version") => log.version = value.to_owned(),
        ("log", "compress") => log.compress = true,
        ("webhook", "config-file") => webhook.config_file = value.to_owned(),
        ("webhook", "version") => webhook.version = value.to_owned(),
        ("webhook", "initial-backoff") => webhook.initial_backoff = Duration::parse(value).expect("a duration"),
        ("log", name) => set_batch(&mut log.batch, name, value),
        ("webhook", name) => set_batch(&mut webhook.batch, name, value),
        _ => panic!("unknown flag {flag}"),
    }
}

#[test]
fn options_have_upstream_errors() {
    for row in include_str!("recorded/options.jsonl").lines() {
        let row: Value = serde_json::from_str(row).expect("a row");
        let mut options = AuditOptions::default();
        for flag in row["Flags"].as_array().into_iter().flatten() {
            let flag = flag.as_str().expect("a flag");
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            set(&mut options, name, value);
        }
        assert_eq!(json!(options.validate()), row["Errors"], "{row}");
    }
}
