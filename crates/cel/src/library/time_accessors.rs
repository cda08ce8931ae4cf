//! Accessors of timestamps and durations.

use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{EvalResult, TimestampPart, Value};

pub(super) fn functions() -> Vec<Function> {
    let accessor = |name, id, id_with_zone, binding: FunctionOp| {
        Function::new(name)
            .overload(Overload::member(id, &[Type::Timestamp], Type::Int).binding(binding))
            .overload(Overload::member(id_with_zone, &[Type::Timestamp, Type::String], Type::Int).binding(binding))
    };
    let of_duration = |id, binding: FunctionOp| Overload::member(id, &[Type::Duration], Type::Int).binding(binding);
    vec![
        accessor("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |args| {
            timestamp_part(args, TimestampPart::Year)
        }),
        accessor("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |args| {
            timestamp_part(args, TimestampPart::Month)
        }),
        accessor("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |args| {
            timestamp_part(args, TimestampPart::DayOfYear)
        }),
        accessor("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |args| {
            timestamp_part(args, TimestampPart::DayOfMonth)
        }),
        accessor("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", |args| {
            timestamp_part(args, TimestampPart::Date)
        }),
        accessor("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |args| {
            timestamp_part(args, TimestampPart::DayOfWeek)
        }),
        accessor("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |args| {
            timestamp_part(args, TimestampPart::Hours)
        })
        .overload(of_duration("duration_to_hours", |args| whole_units(args, 3_600_000_000_000))),
        accessor("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |args| {
            timestamp_part(args, TimestampPart::Minutes)
        })
        .overload(of_duration("duration_to_minutes", |args| whole_units(args, 60_000_000_000))),
        accessor("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |args| {
            timestamp_part(args, TimestampPart::Seconds)
        })
        .overload(of_duration("duration_to_seconds", |args| whole_units(args, 1_000_000_000))),
        accessor("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", |args| {
            timestamp_part(args, TimestampPart::Milliseconds)
        })
        .overload(of_duration("duration_to_milliseconds", |args| whole_units(args, 1_000_000))),
    ]
}

fn timestamp_part<'a>(args: &[Value<'a>], part: TimestampPart) -> EvalResult<Value<'a>> {
    match args {
        [Value::Timestamp(time)] => time.part(part, "UTC"),
        [Value::Timestamp(time), Value::String(zone)] => time.part(part, zone),
        _ => Err(EvalError::no_overload()),
    }
}

fn whole_units<'a>(args: &[Value<'a>], unit: i64) -> EvalResult<Value<'a>> {
    match args {
        [Value::Duration(d)] => Ok(Value::Int(d / unit)),
        _ => Err(EvalError::no_overload()),
    }
}
