//! Parts of times and durations.

use crate::error::EvalError;
use crate::function::{Eval, Function, Overload};
use crate::types::Type;
use crate::value::{Field, Outcome, Value};

pub(super) fn functions() -> Vec<Function> {
    let part = |name, id, id_with_zone, run: Eval| {
        Function::new(name)
            .overload(Overload::member(id, &[Type::Timestamp], Type::Int).run(run))
            .overload(Overload::member(id_with_zone, &[Type::Timestamp, Type::String], Type::Int).run(run))
    };
    let of_duration = |id, run: Eval| Overload::member(id, &[Type::Duration], Type::Int).run(run);
    vec![
        part("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |args| field(args, Field::Year)),
        part("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |args| field(args, Field::Month)),
        part("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |args| {
            field(args, Field::DayOfYear)
        }),
        part("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |args| {
            field(args, Field::DayOfMonth)
        }),
        part("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", |args| {
            field(args, Field::Date)
        }),
        part("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |args| {
            field(args, Field::DayOfWeek)
        }),
        part("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |args| field(args, Field::Hours))
            .overload(of_duration("duration_to_hours", |args| whole(args, 3_600_000_000_000))),
        part("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |args| field(args, Field::Minutes))
            .overload(of_duration("duration_to_minutes", |args| whole(args, 60_000_000_000))),
        part("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |args| field(args, Field::Seconds))
            .overload(of_duration("duration_to_seconds", |args| whole(args, 1_000_000_000))),
        part("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", |args| {
            field(args, Field::Milliseconds)
        })
        .overload(of_duration("duration_to_milliseconds", |args| whole(args, 1_000_000))),
    ]
}

fn field<'a>(args: &[Value<'a>], field: Field) -> Outcome<Value<'a>> {
    match args {
        [Value::Timestamp(time)] => time.field(field, "UTC"),
        [Value::Timestamp(time), Value::String(zone)] => time.field(field, zone),
        _ => Err(EvalError::no_overload()),
    }
}

fn whole<'a>(args: &[Value<'a>], unit: i64) -> Outcome<Value<'a>> {
    match args {
        [Value::Duration(d)] => Ok(Value::Int(d / unit)),
        _ => Err(EvalError::no_overload()),
    }
}
