//! Operations on lists of tolerations (upstream: `pkg/util/tolerations`).

use std::collections::{HashMap, HashSet};

use pintle_value::Value;

const EXISTS: &str = "Exists";

fn texts(toleration: &Value) -> [&str; 4] {
    ["key", "effect", "operator", "value"].map(|field| toleration.str_at(&[field]))
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration.int_at(&["tolerationSeconds"])
}

fn are_equal(first: &Value, second: &Value) -> bool {
    texts(first) == texts(second) && seconds(first) == seconds(second)
}

/// True if a toleration tolerates everything that another toleration tolerates.
fn is_superset(superset: &Value, toleration: &Value) -> bool {
    if are_equal(superset, toleration) {
        return true;
    }
    let ([key, effect, operator, value], [super_key, super_effect, super_operator, super_value]) =
        (texts(toleration), texts(superset));
    // With this operator, an empty key stands for all keys. An empty effect always stands for all effects.
    let has_key = key == super_key || (super_key.is_empty() && super_operator == EXISTS);
    let has_effect = effect == super_effect || super_effect.is_empty();
    if !has_key || !has_effect {
        return false;
    }
    if super_effect == "NoExecute"
        && let Some(limit) = seconds(superset)
        && seconds(toleration).is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match super_operator {
        "Equal" | "" => operator == "Equal" && value == super_value,
        EXISTS => true,
        _ => false,
    }
}

/// All fields that distinguish tolerations.
type Identity<'t> = ([&'t str; 4], Option<i64>);

fn identity(toleration: &Value) -> Identity<'_> {
    (texts(toleration), seconds(toleration))
}

/// Finds supersets of tolerations without a comparison with each of them.
#[derive(Default)]
struct TolerationIndex<'t> {
    all: HashSet<Identity<'t>>,
    /// The two tolerations that last longest, by key, effect, operator and value. The value is left out if the operator
    /// ignores it.
    longest: HashMap<[&'t str; 4], [Option<&'t Value>; 2]>,
}

impl<'t> TolerationIndex<'t> {
    fn of(tolerations: impl IntoIterator<Item = &'t Value>) -> Self {
        let mut index = Self::default();
        tolerations.into_iter().for_each(|toleration| index.insert(toleration));
        index
    }

    fn insert(&mut self, toleration: &'t Value) {
        if !self.all.insert(identity(toleration)) {
            return;
        }
        let [key, effect, operator, value] = texts(toleration);
        let group = [key, effect, operator, if operator == EXISTS { "" } else { value }];
        let longest = self.longest.entry(group).or_default();
        // Without a time limit, or with another effect, a toleration lasts forever.
        let time =
            |toleration: &Value| seconds(toleration).filter(|_| effect == "NoExecute").map_or((1, 0), |s| (0, s));
        let at = longest.iter().position(|known| known.is_none_or(|known| time(known) < time(toleration)));
        match at {
            Some(0) => *longest = [Some(toleration), longest[0]],
            Some(_) => longest[1] = Some(toleration),
            None => {}
        }
    }

    /// Whether there is an equal toleration or another superset.
    fn has_superset(&self, toleration: &Value) -> bool {
        self.all.contains(&identity(toleration)) || self.has_other_superset(toleration)
    }

    /// Whether there is a superset that is not equal.
    fn has_other_superset(&self, toleration: &Value) -> bool {
        let [key, effect, _, value] = texts(toleration);
        let groups = [effect, ""].into_iter().flat_map(|effect| {
            let of_key = [[key, effect, EXISTS, ""], [key, effect, "Equal", value], [key, effect, "", value]];
            of_key.into_iter().chain([["", effect, EXISTS, ""]])
        });
        let mut known = groups.filter_map(|group| self.longest.get(&group)).flatten().flatten();
        known.any(|known| !are_equal(known, toleration) && is_superset(known, toleration))
    }
}

/// Merges two lists. Of a toleration and its superset, only the superset is kept. Of equal tolerations, the first is
/// kept.
pub(crate) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut later = TolerationIndex::default();
    let mut candidates: Vec<&Value> = Vec::with_capacity(all.len());
    for toleration in all.into_iter().rev() {
        if !later.has_other_superset(toleration) {
            candidates.push(toleration);
        }
        later.insert(toleration);
    }
    let mut kept = TolerationIndex::default();
    let mut merged: Vec<Value> = Vec::with_capacity(candidates.len());
    for toleration in candidates.into_iter().rev() {
        if !kept.has_superset(toleration) {
            kept.insert(toleration);
            merged.push(toleration.clone());
        }
    }
    merged
}

/// True if each toleration of a pod is in a whitelist, or tolerates less than a toleration of the whitelist. An empty
/// whitelist allows all tolerations.
pub(crate) fn are_listed(tolerations: &[Value], whitelist: &[Value]) -> bool {
    let whitelist_index = TolerationIndex::of(whitelist);
    whitelist.is_empty() || tolerations.iter().all(|toleration| whitelist_index.has_superset(toleration))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    fn check_merge(first: &str, second: &str, expect: &str) {
        let (first, second) = (json(first), json(second));
        assert_eq!(Value::from(merge(first.items_at(&[]), second.items_at(&[]))), json(expect));
    }

    #[test]
    fn merging_keeps_supersets_in_order() {
        check_merge("[]", "[]", "[]");
        let (all, exists) = (r#"{"operator":"Exists"}"#, r#"{"key":"a","operator":"Exists","effect":"NoSchedule"}"#);
        let equal = r#"{"key":"a","operator":"Equal","value":"v","effect":"NoSchedule"}"#;
        let other = r#"{"key":"b","operator":"Exists"}"#;
        check_merge(&format!("[{other}]"), &format!("[{equal}]"), &format!("[{other},{equal}]"));
        check_merge(&format!("[{equal},{other}]"), &format!("[{exists}]"), &format!("[{other},{exists}]"));
        check_merge(&format!("[{exists}]"), &format!("[{equal},{exists}]"), &format!("[{exists}]"));
        check_merge(&format!("[{equal},{other}]"), &format!("[{all}]"), &format!("[{all}]"));
        // A toleration without an operator is a superset of a toleration with `Equal`, but not the other way around.
        let bare = r#"{"key":"a","value":"v","effect":"NoSchedule"}"#;
        check_merge(&format!("[{equal}]"), &format!("[{bare}]"), &format!("[{bare}]"));
        check_merge(&format!("[{bare}]"), &format!("[{equal}]"), &format!("[{bare}]"));
    }

    /// The rule, by a comparison of all pairs.
    fn merge_by_pairs(all: &[Value]) -> Vec<Value> {
        let mut merged: Vec<Value> = Vec::new();
        for (i, toleration) in all.iter().enumerate() {
            let is_redundant = merged.iter().any(|kept| is_superset(kept, toleration))
                || all[i + 1..].iter().any(|later| !are_equal(later, toleration) && is_superset(later, toleration));
            if !is_redundant {
                merged.push(toleration.clone());
            }
        }
        merged
    }

    #[test]
    fn the_index_finds_every_superset() {
        let mut state = 1_u64;
        let mut choose = |count: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % count
        };
        for _ in 0..3000 {
            let count = choose(8);
            let mut all = Vec::new();
            for _ in 0..count {
                let mut toleration = Value::object();
                let texts = [
                    ("key", &["", "a", "b"][..]),
                    ("operator", &["", "Equal", "Exists", "Lt"]),
                    ("effect", &["", "NoExecute", "NoSchedule"]),
                    ("value", &["", "v"]),
                ];
                for (field, values) in texts {
                    toleration.set(field, values[choose(values.len() as u64) as usize]);
                }
                if choose(2) == 0 {
                    toleration.set("tolerationSeconds", choose(3) as i64);
                }
                all.push(toleration);
            }
            let expect = merge_by_pairs(&all);
            let (first, second) = all.split_at(all.len() / 2);
            assert_eq!(merge(first, second), expect, "{all:?}");
            for toleration in first {
                let is_listed = second.is_empty() || second.iter().any(|listed| is_superset(listed, toleration));
                assert_eq!(
                    are_listed(std::slice::from_ref(toleration), second),
                    is_listed,
                    "{toleration:?} {second:?}"
                );
            }
        }
    }

    #[test]
    fn a_longer_time_is_a_superset() {
        let toleration = |seconds: &str| format!(r#"{{"key":"a","operator":"Exists","effect":"NoExecute"{seconds}}}"#);
        let times = ["", r#","tolerationSeconds":5"#, r#","tolerationSeconds":9"#].map(toleration);
        let [forever, short, long] = &times;
        check_merge(&format!("[{short}]"), &format!("[{long}]"), &format!("[{long}]"));
        check_merge(&format!("[{long}]"), &format!("[{forever}]"), &format!("[{forever}]"));
        check_merge(&format!("[{forever}]"), &format!("[{short}]"), &format!("[{forever}]"));
    }
}
