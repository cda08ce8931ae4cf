//! Lists in strategic merge patch: merging by key, deleting single items, and ordering the result. The patch's items
//! have the order of the patch (or of its `$setElementOrder`). The server-only items have the order of the object. Both
//! are interleaved in the order of the object.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use pintle_value::{Str, Value, print};

use crate::strategic::{
    DIRECTIVE_MARKER, PatchMeta, SET_ELEMENT_ORDER, bad_arg_type, bad_patch_type, is_unhashable, merge_object,
    no_merge_key, remove_directives,
};
use crate::{PatchError, PatchErrorKind};

const MAP: &str = "map[string]interface {}";

/// A hash key of a value. Two keys are equal only if the values are equal in Go, including their types.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// A text. Most merge keys are texts, and cloning a text allocates no memory.
    Text(Str),
    Float(String),
    Other(String),
}

pub(crate) fn identity(value: &Value) -> Identity {
    match value {
        Value::String(text) => Identity::Text(text.clone()),
        Value::Float(_) => Identity::Float(print::json(value)),
        other => Identity::Other(print::json(other)),
    }
}

/// The value of the merge key, if the item is an object with this key.
fn key_value<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
    item.as_object()?.get(key)
}

/// Returns true if the items are objects. All items of both lists must have the same type.
fn are_objects(lists: [&[Value]; 2]) -> Result<bool, PatchError> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else {
        return Err(PatchError::plain("no elements in any of the given slices"));
    };
    if first.as_array().is_some() {
        return Err(PatchError::new(PatchErrorKind::NotApplicable, "lists of lists are not supported"));
    }
    let kind = std::mem::discriminant(first);
    if first.is_null() || items.any(|item| std::mem::discriminant(item) != kind) {
        let printed = lists.map(|list| print::plain(&Value::Array(list.to_vec())));
        return Err(PatchError::plain(format!("list element types are not identical: [{}]", printed.join(" "))));
    }
    Ok(first.as_object().is_some())
}

/// The index of the first occurrence of each item of a list.
struct ItemRanks<'k> {
    indexes: HashMap<Identity, usize>,
    /// The merge key, if the items are objects.
    key: Option<&'k str>,
}

impl<'k> ItemRanks<'k> {
    fn new(list: &[Value], key: &'k str, objects: bool) -> Self {
        let mut ranks = Self { indexes: HashMap::with_capacity(list.len()), key: objects.then_some(key) };
        for (i, item) in list.iter().enumerate() {
            let identity = ranks.identity(item);
            ranks.indexes.entry(identity).or_insert(i);
        }
        ranks
    }

    fn identity(&self, item: &Value) -> Identity {
        match self.key {
            Some(key) => identity(key_value(item, key).unwrap_or(&Value::Null)),
            None => identity(item),
        }
    }

    fn of(&self, item: &Value) -> Option<usize> {
        self.indexes.get(&self.identity(item)).copied()
    }
}

/// Checks that every item is an object with the merge key.
fn validate_merge_keys(list: &[Value], key: &str) -> Result<(), PatchError> {
    for item in list {
        if item.as_object().is_none() {
            return Err(bad_arg_type(MAP, item));
        }
        if key_value(item, key).is_none() {
            return Err(no_merge_key(item, key));
        }
    }
    Ok(())
}

/// Merges a list of the patch into a list of the object. With `is_deletion`, the patch lists the scalars to delete.
pub(crate) fn merge_list(
    mut current: Vec<Value>,
    mut patch: Vec<Value>,
    meta: &PatchMeta<'_>,
    is_deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    if current.is_empty() && patch.is_empty() {
        return Ok(current);
    }
    let key = meta.merge_key.as_str();
    let objects = are_objects([&current, &patch])?;
    if !objects {
        if is_deletion {
            let deleted: HashSet<Identity> = patch.iter().map(identity).collect();
            current.retain(|item| !deleted.contains(&identity(item)));
            return Ok(current);
        }
        if patch.is_empty() {
            return Ok(deduplicate(current));
        }
        let (patch_ranks, server_ranks) = (ItemRanks::new(&patch, key, false), ItemRanks::new(&current, key, false));
        let mut seen = HashSet::new();
        let merged = current.into_iter().chain(patch.iter().cloned()).filter(|item| seen.insert(identity(item)));
        let merged = merged.collect();
        let (mut patch_items, mut server_only) = partition(merged, &patch, key)?;
        sort_by_rank(&mut patch_items, &patch_ranks);
        sort_by_rank(&mut server_only, &server_ranks);
        return Ok(interleave(server_only, patch_items, &server_ranks));
    }
    if key.is_empty() {
        return Err(PatchError::plain(format!("cannot merge lists without merge key for {}", meta.schema.kind())));
    }
    (current, patch) = apply_item_directives(current, patch, key)?;
    let server_ranks = ItemRanks::new(&current, key, true);
    let merged = merge_items(current, patch.clone(), meta)?;
    // With one merged item and one item in the patch, there is nothing to order. This is the case for the lists of many
    // statuses.
    if let ([item], [_]) = (&merged[..], &patch[..])
        && key_value(item, key).is_some()
    {
        return Ok(merged);
    }
    let patch_ranks = ItemRanks::new(&patch, key, true);
    let (mut patch_items, mut server_only) = partition(merged, &patch, key)?;
    sort_by_rank(&mut patch_items, &patch_ranks);
    sort_by_rank(&mut server_only, &server_ranks);
    Ok(interleave(server_only, patch_items, &server_ranks))
}

/// Removes repeated items from a list of scalars. Upstream replaces a removed item by the last item, and an empty patch
/// keeps that order.
fn deduplicate(mut list: Vec<Value>) -> Vec<Value> {
    let mut indexes: HashMap<Identity, BTreeSet<usize>> = HashMap::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        indexes.entry(identity(item)).or_default().insert(i);
    }
    if indexes.len() == list.len() {
        return list;
    }
    let mut at = 0;
    while at < list.len() {
        let item = identity(&list[at]);
        while let Some(repeat) = indexes.get(&item).and_then(|same| same.range(at + 1..).next().copied()) {
            indexes.entry(item.clone()).or_default().remove(&repeat);
            list.swap_remove(repeat);
            if let Some(moved) = list.get(repeat) {
                let indexes_of_moved = indexes.entry(identity(moved)).or_default();
                indexes_of_moved.remove(&list.len());
                indexes_of_moved.insert(repeat);
            }
        }
        at += 1;
    }
    list
}

/// Removes the items with a directive from the patch and applies the directives. `delete` deletes items from the
/// object's list. `replace` replaces the list by the rest of the patch.
fn apply_item_directives(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = key_value(&item, DIRECTIVE_MARKER) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = key_value(&item, key).ok_or_else(|| no_merge_key(&item, key))?;
                deleted.insert(identity(value));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(PatchError::plain("merging lists cannot yet be specified in the patch")),
            _ => return Err(bad_patch_type(directive, &item)),
        }
    }
    if replace {
        return Ok((rest, Vec::new()));
    }
    if !deleted.is_empty() {
        current.retain(|item| key_value(item, key).is_none_or(|value| !deleted.contains(&identity(value))));
    }
    Ok((current, rest))
}

/// Merges each item of the patch into the item with the same merge key, or appends it.
fn merge_items(mut current: Vec<Value>, patch: Vec<Value>, meta: &PatchMeta<'_>) -> Result<Vec<Value>, PatchError> {
    let key = meta.merge_key.as_str();
    let mut indexes = HashMap::with_capacity(current.len());
    for (i, item) in current.iter().enumerate() {
        if let Some(value) = key_value(item, key) {
            indexes.entry(identity(value)).or_insert(i);
        }
    }
    for item in patch {
        let value = key_value(&item, key).ok_or_else(|| no_merge_key(&item, key))?;
        let index = *indexes.entry(identity(value)).or_insert(current.len());
        match (current.get_mut(index).map(Value::take), item) {
            (Some(Value::Object(before)), Value::Object(patch)) => {
                current[index] = Value::Object(merge_object(before, patch, meta.schema)?);
            }
            (_, item) => current.push(item),
        }
    }
    Ok(current)
}

/// Splits a merged list into the items that are in `by` and all other items.
fn partition(merged: Vec<Value>, by: &[Value], key: &str) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if key.is_empty() {
        let listed: HashSet<Identity> = by.iter().map(identity).collect();
        return Ok(merged.into_iter().partition(|item| listed.contains(&identity(item))));
    }
    // Upstream's search for a key stops at the first item that is not an object.
    let end = by.iter().position(|item| item.as_object().is_none());
    let searched = &by[..end.unwrap_or(by.len())];
    let listed: HashSet<Identity> = searched.iter().filter_map(|item| key_value(item, key)).map(identity).collect();
    let (mut patch_items, mut server_only) = (Vec::with_capacity(by.len()), Vec::new());
    for item in merged {
        if item.as_object().is_none() {
            return Err(bad_arg_type(MAP, &item));
        }
        let value = key_value(&item, key).ok_or_else(|| no_merge_key(&item, key))?;
        if listed.contains(&identity(value)) {
            patch_items.push(item);
        } else if let Some(end) = end {
            return Err(PatchError::plain(format!("value for key {end} is not a map")));
        } else {
            server_only.push(item);
        }
    }
    Ok((patch_items, server_only))
}

/// Sorts items by their ranks. Upstream's comparison puts an item without a rank before any other item. This function
/// matches it only for short lists, which Go sorts by insertion.
fn sort_by_rank(items: &mut Vec<Value>, ranks: &ItemRanks<'_>) {
    let mut ranked: Vec<(Option<usize>, Value)> =
        std::mem::take(items).into_iter().map(|item| (ranks.of(&item), item)).collect();
    let deleted = |item: &Value| ranks.key.is_some() && item.str_at(&[DIRECTIVE_MARKER]) == "delete";
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
    // Items with the delete directive go last.
    let (last, first): (Vec<_>, Vec<_>) = ranked.into_iter().map(|(_, item)| item).partition(deleted);
    *items = first.into_iter().chain(last).collect();
}

/// Interleaves two sorted lists. A server-only item precedes an item of the patch only if the object has both items in
/// this order.
fn interleave(server_only: Vec<Value>, patch_items: Vec<Value>, server_ranks: &ItemRanks<'_>) -> Vec<Value> {
    let mut merged = Vec::with_capacity(server_only.len() + patch_items.len());
    let mut server_only = server_only.into_iter().map(|item| (server_ranks.of(&item), item)).peekable();
    let mut patch_items = patch_items.into_iter().map(|item| (server_ranks.of(&item), item)).peekable();
    loop {
        let take_server_only = match (server_only.peek(), patch_items.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((a, _)), Some((b, _))) => a.zip(*b).is_some_and(|(a, b)| a < b),
        };
        let next = if take_server_only { server_only.next() } else { patch_items.next() };
        merged.extend(next.map(|(_, item)| item));
    }
}

/// Merges a list and sorts it by a `$setElementOrder` directive. `None` if neither the object nor the patch has the
/// list.
pub(crate) fn merge_and_order_list(
    current: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    meta: &PatchMeta<'_>,
) -> Result<Option<Vec<Value>>, PatchError> {
    let key = meta.merge_key.as_str();
    let nothing: &[Value] = &[];
    let (current_items, patched) = (current.as_deref().unwrap_or(nothing), patch.as_deref().unwrap_or(nothing));
    validate_element_order(patched, order, key)?;
    let objects = are_objects([current_items, patched]);
    let server_order = match (&current, &patch) {
        (Some(_), Some(_)) if meta.merge && matches!(objects, Ok(true)) => {
            order_after_merge(current_items, patched, key)
        }
        (Some(_), Some(_)) if meta.merge && patched.is_empty() => deduplicate(current_items.to_vec()),
        _ => current_items.to_vec(),
    };
    let merged = match (current, patch) {
        (None, None) => return Ok(None),
        (Some(current), None) => current,
        (None, Some(patch)) => patch.into_iter().filter_map(remove_directives).collect(),
        (Some(current), Some(patch)) if meta.merge => merge_list(current, patch, meta, false)?,
        (Some(_), Some(patch)) => patch,
    };
    // Upstream panics on such items.
    if key.is_empty() && order.iter().any(is_unhashable) {
        return Err(PatchError::malformed("invalid patch format of setElementOrder list"));
    }
    let (mut patch_items, mut server_only) = partition(merged, order, key)?;
    let objects = objects?;
    if objects {
        validate_merge_keys(&patch_items, key)?;
        validate_merge_keys(order, key)?;
        validate_merge_keys(&server_only, key)?;
        validate_merge_keys(&server_order, key)?;
    }
    let server_ranks = ItemRanks::new(&server_order, key, objects);
    sort_by_rank(&mut patch_items, &ItemRanks::new(order, key, objects));
    sort_by_rank(&mut server_only, &server_ranks);
    Ok(Some(interleave(server_only, patch_items, &server_ranks)))
}

/// The order of the object's list after merging. Upstream deletes and adds items in place, so the first added items
/// take the positions of deleted items.
fn order_after_merge(current: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let marked = |item: &Value, directive| key_value(item, DIRECTIVE_MARKER).and_then(Value::as_str) == Some(directive);
    let of = |item: &Value| key_value(item, key).map(identity);
    let deleted: HashSet<Identity> = patch.iter().filter(|item| marked(item, "delete")).filter_map(of).collect();
    let is_deleted = |item: &&Value| of(item).is_some_and(|value| deleted.contains(&value));
    let mut order: Vec<Value> = current.iter().filter(|item| !is_deleted(item)).cloned().collect();
    if patch.iter().any(|item| marked(item, "replace")) {
        return order;
    }
    let mut seen: HashSet<Identity> = order.iter().filter_map(of).collect();
    let free = current.len() - order.len();
    let added = patch.iter().filter(|item| key_value(item, DIRECTIVE_MARKER).is_none());
    let added = added.filter(|item| of(item).is_some_and(|value| seen.insert(value)));
    order.extend(added.take(free).cloned());
    order
}

/// Checks that the items of the patch are in the order of the directive.
fn validate_element_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut listed = Vec::with_capacity(patch.len());
    for item in patch {
        if !key.is_empty() && item.as_object().is_none() {
            return Err(bad_arg_type(MAP, item));
        }
        if key.is_empty() || item.str_at(&[DIRECTIVE_MARKER]) != "delete" {
            listed.push(item);
        }
    }
    let equal = |a: &Value, b: &Value| {
        if key.is_empty() {
            return Ok(a == b);
        }
        for item in [a, b] {
            if item.as_object().is_none() {
                return Err(bad_arg_type(MAP, item));
            }
        }
        let value = |item: &Value| key_value(item, key).cloned().ok_or_else(|| no_merge_key(item, key));
        Ok(value(a)? == value(b)?)
    };
    let (mut next, mut at) = (0, 0);
    while next < listed.len() && at < order.len() {
        if key_value(listed[next], DIRECTIVE_MARKER).is_some() {
            next += 1;
            continue;
        }
        next += usize::from(equal(listed[next], &order[at])?);
        at += 1;
    }
    if next < listed.len() && at >= order.len() {
        let (patch, order) = (Value::Array(patch.to_vec()), Value::Array(order.to_vec()));
        return Err(PatchError::plain(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
            print::plain(&patch),
            print::plain(&order)
        )));
    }
    Ok(())
}
