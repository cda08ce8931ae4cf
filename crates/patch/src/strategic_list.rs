//! Lists in strategic merge patch: merging by key, deletion of single items, and the order of the result, in which the
//! patch's items follow the patch (or its `$setElementOrder`), the others the object, and the two are interleaved as the
//! object had them.

use std::collections::{BTreeSet, HashMap, HashSet};

use pintle_value::{Value, print};

use crate::strategic::{
    FieldRule, MARKER, ORDER_LIST, bad_directive, bad_type, is_unhashable, merge_object, no_merge_key,
    without_directives,
};
use crate::{PatchError, PatchErrorKind};

const MAP: &str = "map[string]interface {}";

/// A value as a key of a hash map, equal only for values that Go finds equal: of the same type, too.
pub(crate) fn identity(value: &Value) -> String {
    match value {
        Value::String(text) => format!("s{text}"),
        Value::Float(_) => format!("f{}", print::json(value)),
        other => print::json(other),
    }
}

/// The value of the merge key, where an item is an object that has it.
fn key_value<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
    item.as_object()?.get(key)
}

/// True if the items are objects. All items of all lists must be of one type.
fn items_are_objects(lists: [&[Value]; 2]) -> Result<bool, PatchError> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else {
        return Err(PatchError::plain("no elements in any of the given slices"));
    };
    if first.as_array().is_some() {
        return Err(PatchError::new(PatchErrorKind::NotApplicable, "lists of lists are not supported"));
    }
    let kind = std::mem::discriminant(first);
    if first.is_null() || items.any(|item| std::mem::discriminant(item) != kind) {
        let shown = lists.map(|list| print::plain(&Value::Array(list.to_vec())));
        return Err(PatchError::plain(format!("list element types are not identical: [{}]", shown.join(" "))));
    }
    Ok(first.as_object().is_some())
}

/// Where the items of a list come first.
struct Ranks<'k> {
    places: HashMap<String, usize>,
    /// The merge key, if the items are objects.
    key: Option<&'k str>,
}

impl<'k> Ranks<'k> {
    fn new(list: &[Value], key: &'k str, objects: bool) -> Self {
        let mut ranks = Self { places: HashMap::with_capacity(list.len()), key: objects.then_some(key) };
        for (i, item) in list.iter().enumerate() {
            let identity = ranks.identity(item);
            ranks.places.entry(identity).or_insert(i);
        }
        ranks
    }

    fn identity(&self, item: &Value) -> String {
        match self.key {
            Some(key) => key_value(item, key).map_or_else(|| "null".to_owned(), identity),
            None => identity(item),
        }
    }

    fn of(&self, item: &Value) -> Option<usize> {
        self.places.get(&self.identity(item)).copied()
    }
}

/// Every item must be an object with the merge key.
fn check_keys(list: &[Value], key: &str) -> Result<(), PatchError> {
    for item in list {
        if item.as_object().is_none() {
            return Err(bad_type(MAP, item));
        }
        if key_value(item, key).is_none() {
            return Err(no_merge_key(item, key));
        }
    }
    Ok(())
}

/// Merges a list of the patch into one of the object. With `deletes` the patch lists the scalars to take out.
pub(crate) fn merge_list(
    mut current: Vec<Value>,
    mut patch: Vec<Value>,
    rule: &FieldRule<'_>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if current.is_empty() && patch.is_empty() {
        return Ok(current);
    }
    let key = rule.merge_key.as_str();
    let objects = items_are_objects([&current, &patch])?;
    if !objects {
        if deletes {
            let gone: HashSet<String> = patch.iter().map(identity).collect();
            current.retain(|item| !gone.contains(&identity(item)));
            return Ok(current);
        }
        if patch.is_empty() {
            return Ok(without_repeats(current));
        }
        let (in_patch, in_object) = (Ranks::new(&patch, key, false), Ranks::new(&current, key, false));
        let mut seen = HashSet::new();
        let merged = current.into_iter().chain(patch.iter().cloned()).filter(|item| seen.insert(identity(item)));
        let merged = merged.collect();
        let (mut ours, mut others) = partition(merged, &patch, key)?;
        sort(&mut ours, &in_patch);
        sort(&mut others, &in_object);
        return Ok(interleave(others, ours, &in_object));
    }
    if key.is_empty() {
        return Err(PatchError::plain(format!("cannot merge lists without merge key for {}", rule.place.kind())));
    }
    (current, patch) = obey_item_directives(current, patch, key)?;
    let (in_patch, in_object) = (Ranks::new(&patch, key, true), Ranks::new(&current, key, true));
    let merged = merge_items(current, patch.clone(), rule)?;
    let (mut ours, mut others) = partition(merged, &patch, key)?;
    sort(&mut ours, &in_patch);
    sort(&mut others, &in_object);
    Ok(interleave(others, ours, &in_object))
}

/// A list of scalars without repeated items. Where one goes, upstream puts the last item in its place; with an empty
/// patch that order stays.
fn without_repeats(mut list: Vec<Value>) -> Vec<Value> {
    let mut places: HashMap<String, BTreeSet<usize>> = HashMap::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        places.entry(identity(item)).or_default().insert(i);
    }
    if places.len() == list.len() {
        return list;
    }
    let mut at = 0;
    while at < list.len() {
        let own = identity(&list[at]);
        while let Some(repeat) = places.get(&own).and_then(|own| own.range(at + 1..).next().copied()) {
            places.entry(own.clone()).or_default().remove(&repeat);
            list.swap_remove(repeat);
            if let Some(moved) = list.get(repeat) {
                let of_moved = places.entry(identity(moved)).or_default();
                of_moved.remove(&list.len());
                of_moved.insert(repeat);
            }
        }
        at += 1;
    }
    list
}

/// Takes the items with a directive out of the patch and obeys them: `delete` takes items out of the object's list,
/// `replace` makes the rest of the patch the list.
fn obey_item_directives(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = key_value(&item, MARKER) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = key_value(&item, key).ok_or_else(|| no_merge_key(&item, key))?;
                gone.insert(identity(value));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(PatchError::plain("merging lists cannot yet be specified in the patch")),
            _ => return Err(bad_directive(directive, &item)),
        }
    }
    if replace {
        return Ok((rest, Vec::new()));
    }
    if !gone.is_empty() {
        current.retain(|item| key_value(item, key).is_none_or(|value| !gone.contains(&identity(value))));
    }
    Ok((current, rest))
}

/// Merges each item of the patch into the one of the same key, or adds it as it is.
fn merge_items(mut current: Vec<Value>, patch: Vec<Value>, rule: &FieldRule<'_>) -> Result<Vec<Value>, PatchError> {
    let key = rule.merge_key.as_str();
    let mut places = HashMap::with_capacity(current.len());
    for (i, item) in current.iter().enumerate() {
        if let Some(value) = key_value(item, key) {
            places.entry(identity(value)).or_insert(i);
        }
    }
    for item in patch {
        let value = key_value(&item, key).ok_or_else(|| no_merge_key(&item, key))?;
        let place = *places.entry(identity(value)).or_insert(current.len());
        match (current.get_mut(place).map(Value::take), item) {
            (Some(Value::Object(before)), Value::Object(patch)) => {
                current[place] = Value::Object(merge_object(before, patch, rule.place)?);
            }
            (_, item) => current.push(item),
        }
    }
    Ok(current)
}

/// Parts a merged list into the items that `by` lists as well and the others.
fn partition(merged: Vec<Value>, by: &[Value], key: &str) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if key.is_empty() {
        let listed: HashSet<String> = by.iter().map(identity).collect();
        return Ok(merged.into_iter().partition(|item| listed.contains(&identity(item))));
    }
    // Looking for a key stops at the first item that is no object.
    let end = by.iter().position(|item| item.as_object().is_none());
    let searched = &by[..end.unwrap_or(by.len())];
    let listed: HashSet<String> = searched.iter().filter_map(|item| key_value(item, key)).map(identity).collect();
    let (mut ours, mut others) = (Vec::with_capacity(by.len()), Vec::new());
    for item in merged {
        if item.as_object().is_none() {
            return Err(bad_type(MAP, &item));
        }
        let value = key_value(&item, key).ok_or_else(|| no_merge_key(&item, key))?;
        if listed.contains(&identity(value)) {
            ours.push(item);
        } else if let Some(end) = end {
            return Err(PatchError::plain(format!("value for key {end} is not a map")));
        } else {
            others.push(item);
        }
    }
    Ok((ours, others))
}

/// Sorts items by their ranks. Upstream's comparison puts an item that has none before any other; kept for lists that
/// Go sorts by insertion.
fn sort(items: &mut Vec<Value>, ranks: &Ranks<'_>) {
    let mut ranked: Vec<(Option<usize>, Value)> =
        std::mem::take(items).into_iter().map(|item| (ranks.of(&item), item)).collect();
    let deleted = |item: &Value| ranks.key.is_some() && item.str_at(&[MARKER]) == "delete";
    if ranked.len() <= 20 && ranked.iter().any(|(rank, _)| rank.is_none()) {
        let before = |a: Option<usize>, b: Option<usize>| a.zip(b).is_none_or(|(a, b)| a < b);
        for i in 1..ranked.len() {
            let mut j = i;
            while j > 0 && before(ranked[j].0, ranked[j - 1].0) {
                ranked.swap(j, j - 1);
                j -= 1;
            }
        }
    } else {
        ranked.sort_by_key(|(rank, _)| *rank);
    }
    // Items that are to be deleted go last.
    let (last, first): (Vec<_>, Vec<_>) = ranked.into_iter().map(|(_, item)| item).partition(deleted);
    *items = first.into_iter().chain(last).collect();
}

/// Merges two sorted lists: an item of the object stands before one of the patch only if the object had both so.
fn interleave(others: Vec<Value>, ours: Vec<Value>, in_object: &Ranks<'_>) -> Vec<Value> {
    let mut merged = Vec::with_capacity(others.len() + ours.len());
    let mut others = others.into_iter().map(|item| (in_object.of(&item), item)).peekable();
    let mut ours = ours.into_iter().map(|item| (in_object.of(&item), item)).peekable();
    loop {
        let take_other = match (others.peek(), ours.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((a, _)), Some((b, _))) => a.zip(*b).is_some_and(|(a, b)| a < b),
        };
        let next = if take_other { others.next() } else { ours.next() };
        merged.extend(next.map(|(_, item)| item));
    }
}

/// Merges a list and brings it into the order of a `$setElementOrder` directive; `None` if there is no such list.
pub(crate) fn order_list(
    current: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    rule: &FieldRule<'_>,
) -> Result<Option<Vec<Value>>, PatchError> {
    let key = rule.merge_key.as_str();
    let nothing: &[Value] = &[];
    let (had, patched) = (current.as_deref().unwrap_or(nothing), patch.as_deref().unwrap_or(nothing));
    check_order(patched, order, key)?;
    let objects = items_are_objects([had, patched]);
    let server_order = match (&current, &patch) {
        (Some(_), Some(_)) if rule.merge && matches!(objects, Ok(true)) => order_after(had, patched, key),
        (Some(_), Some(_)) if rule.merge && patched.is_empty() => without_repeats(had.to_vec()),
        _ => had.to_vec(),
    };
    let merged = match (current, patch) {
        (None, None) => return Ok(None),
        (Some(current), None) => current,
        (None, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (Some(current), Some(patch)) if rule.merge => merge_list(current, patch, rule, false)?,
        (Some(_), Some(patch)) => patch,
    };
    // Upstream panics on these.
    if key.is_empty() && order.iter().any(is_unhashable) {
        return Err(PatchError::malformed("invalid patch format of setElementOrder list"));
    }
    let (mut ours, mut others) = partition(merged, order, key)?;
    let objects = objects?;
    if objects {
        check_keys(&ours, key)?;
        check_keys(order, key)?;
        check_keys(&others, key)?;
        check_keys(&server_order, key)?;
    }
    let in_object = Ranks::new(&server_order, key, objects);
    sort(&mut ours, &Ranks::new(order, key, objects));
    sort(&mut others, &in_object);
    Ok(Some(interleave(others, ours, &in_object)))
}

/// The order that the object's list has for what comes after merging. Upstream deletes and adds items in place, so that
/// the first of the added items stand where items were deleted.
fn order_after(current: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let marked = |item: &Value, directive| key_value(item, MARKER).and_then(Value::as_str) == Some(directive);
    let of = |item: &Value| key_value(item, key).map(identity);
    let gone: HashSet<String> = patch.iter().filter(|item| marked(item, "delete")).filter_map(of).collect();
    let is_gone = |item: &&Value| of(item).is_some_and(|value| gone.contains(&value));
    let mut order: Vec<Value> = current.iter().filter(|item| !is_gone(item)).cloned().collect();
    if patch.iter().any(|item| marked(item, "replace")) {
        return order;
    }
    let mut known: HashSet<String> = order.iter().filter_map(of).collect();
    let free = current.len() - order.len();
    let added = patch.iter().filter(|item| key_value(item, MARKER).is_none());
    let added = added.filter(|item| of(item).is_some_and(|value| known.insert(value)));
    order.extend(added.take(free).cloned());
    order
}

/// The items of the patch must stand in the order that the directive asks for.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut listed = Vec::with_capacity(patch.len());
    for item in patch {
        if !key.is_empty() && item.as_object().is_none() {
            return Err(bad_type(MAP, item));
        }
        if key.is_empty() || item.str_at(&[MARKER]) != "delete" {
            listed.push(item);
        }
    }
    let equal = |a: &Value, b: &Value| {
        if key.is_empty() {
            return Ok(a == b);
        }
        for item in [a, b] {
            if item.as_object().is_none() {
                return Err(bad_type(MAP, item));
            }
        }
        let value = |item: &Value| key_value(item, key).cloned().ok_or_else(|| no_merge_key(item, key));
        Ok(value(a)? == value(b)?)
    };
    let (mut next, mut at) = (0, 0);
    while next < listed.len() && at < order.len() {
        if key_value(listed[next], MARKER).is_some() {
            next += 1;
            continue;
        }
        next += usize::from(equal(listed[next], &order[at])?);
        at += 1;
    }
    if next < listed.len() && at >= order.len() {
        let (patch, order) = (Value::Array(patch.to_vec()), Value::Array(order.to_vec()));
        return Err(PatchError::plain(format!(
            "The order in patch list:\n{}\n doesn't match {ORDER_LIST} list:\n{}\n",
            print::plain(&patch),
            print::plain(&order)
        )));
    }
    Ok(())
}
