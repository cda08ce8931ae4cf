//! Parses lists of indexes of Indexed Jobs (`0-2,5,7-9`): increasing, and below the number of completions.

use pintle_value::field::quote;

use super::cron::atoi;

/// Returns the number of indexes in a list.
///
/// # Errors
/// Returns upstream's message if the list is malformed.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let mut last = None;
    let mut total = 0_i64;
    for interval in list.split(',') {
        let (first, end) = parse(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total = total.saturating_add(end.saturating_sub(first).saturating_add(1));
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that is in both lists. Ignores malformed intervals, which are reported elsewhere.
pub(super) fn overlap(a: &str, b: &str, completions: i64) -> Option<i64> {
    let intervals = |list: &str| -> Vec<(i64, i64)> {
        list.split(',').filter_map(|interval| parse(interval, completions).ok()).collect()
    };
    let (a, b) = (intervals(a), intervals(b));
    let (mut i, mut j) = (0, 0);
    while let (Some((a_first, a_last)), Some((b_first, b_last))) = (a.get(i), b.get(j)) {
        if a_first <= b_last && b_first <= a_last {
            return Some(*a_first.max(b_first));
        }
        if a_first <= b_first { i += 1 } else { j += 1 }
    }
    None
}

fn parse(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = interval.split('-').collect();
    let index = |text: &str| {
        let number = atoi(text).map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if number >= completions { Err(format!("too large index: {}", quote(text))) } else { Ok(number) }
    };
    match limits.as_slice() {
        [only] => {
            let only = index(only)?;
            Ok((only, only))
        }
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(interval)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_or_rejected() {
        let check = |list: &str, expect: Result<i64, &str>| {
            assert_eq!(count(list, 10), expect.map_err(str::to_owned), "{list}");
        };
        check("", Ok(0));
        check("0-2,5,7-9", Ok(7));
        check("3,3", Err("non-increasing order, previous: 3, current: 3"));
        check("5-2", Err("non-increasing order, previous: 5, current: 2"));
        check("10", Err("too large index: \"10\""));
        check("a", Err("cannot convert string to integer for index: \"a\""));
        check("1-", Err("cannot convert string to integer for index: \"\""));
        let text = "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'";
        check("1-2-3", Err(text));
        assert_eq!(overlap("0-3,8", "4-7", 10), None);
        assert_eq!(overlap("0-3,8", "x,4-7,8", 10), Some(8));
        assert_eq!(overlap("0-3", "2", 10), Some(2));
    }
}
