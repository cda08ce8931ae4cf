//! Arithmetic on quantities by resource name (upstream: `apiserver/pkg/quota/v1`, `resources.go`).

use std::cmp::Ordering;

use pintle_kinds::ResourceList;
use pintle_value::quantity::{Format, Quantity};
use pintle_value::{Object, Value};

/// A number of objects.
#[must_use]
pub fn count(number: i64) -> Quantity {
    Quantity::new(number, Format::DecimalSI)
}

/// Adds the quantities of another list.
pub fn add(list: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        add_quantity(list, name, quantity);
    }
}

/// Adds a quantity of one resource.
pub fn add_quantity(list: &mut ResourceList, name: &str, quantity: &Quantity) {
    match list.get_mut(name) {
        Some(sum) => sum.add(quantity),
        None => drop(list.insert(name.to_owned(), quantity.clone())),
    }
}

/// The difference of two lists. Negative differences become zero.
#[must_use]
pub fn subtract(list: &ResourceList, other: &ResourceList) -> ResourceList {
    let mut difference = list.clone();
    for (name, quantity) in other {
        match difference.get_mut(name) {
            Some(rest) => rest.sub(quantity),
            None => drop(difference.insert(name.clone(), count(0))),
        }
    }
    for quantity in difference.values_mut().filter(|quantity| quantity.sign() <= 0) {
        *quantity = count(0);
    }
    difference
}

/// Keeps the resources that a predicate accepts.
#[must_use]
pub fn mask(list: &ResourceList, is_kept: impl Fn(&str) -> bool) -> ResourceList {
    let kept = list.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, quantity)| (name.clone(), quantity.clone())).collect()
}

/// True if two lists have the same resources with the same quantities.
#[must_use]
pub fn equal(list: &ResourceList, other: &ResourceList) -> bool {
    let is_equal = |(name, quantity): (&String, &Quantity)| {
        other.get(name).is_some_and(|other| quantity.cmp(other) == Ordering::Equal)
    };
    list.len() == other.len() && list.iter().all(is_equal)
}

/// Prints a list in the form of upstream's error texts: `cpu=1,memory=1Gi`.
#[must_use]
pub fn print(list: &ResourceList) -> String {
    list.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect::<Vec<_>>().join(",")
}

/// The list as a tree, for an object.
#[must_use]
pub fn to_value(list: &ResourceList) -> Value {
    let mut object = Object::default();
    for (name, quantity) in list {
        object.insert(name.as_str(), quantity.to_string());
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::list;

    #[test]
    fn lists_are_added_and_subtracted() {
        let mut sum = list("a=1,b=1Gi");
        add(&mut sum, &list("b=1Mi,c=500m"));
        assert_eq!(print(&sum), "a=1,b=1025Mi,c=500m");
        assert_eq!(print(&subtract(&sum, &list("a=3,b=1Mi,d=1"))), "a=0,b=1Gi,c=500m,d=0");
        assert_eq!(print(&mask(&sum, |name| name != "b")), "a=1,c=500m");
    }

    #[test]
    fn equal_quantities_may_differ_in_their_texts() {
        assert!(equal(&list("a=1,b=1000m"), &list("a=1,b=1")));
        assert!(!equal(&list("a=1"), &list("a=2")));
        assert!(!equal(&list("a=1"), &list("a=1,b=0")));
    }
}
