//! A table whose entries keep their number as long as they exist.

/// Entries by number. The numbers of removed entries are used again.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(number as usize)
        {
            *entry = Some(value);
            return number;
        }
        self.entries.push(Some(value));
        // There are never 2^32 entries, because they would not fit into memory.
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.entries.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_while_entries_exist_and_are_used_again() {
        let mut table = Table::default();
        let numbers: Vec<_> = ["a", "b", "c"].map(|value| table.insert(value)).into();
        assert_eq!(table.remove(numbers[1]), Some("b"));
        assert_eq!(table.remove(numbers[1]), None);
        assert_eq!(table.get(numbers[1]), None);
        assert_eq!(table.insert("d"), numbers[1]);
        assert_eq!(
            numbers.iter().map(|number| table.get(*number)).collect::<Vec<_>>(),
            [Some(&"a"), Some(&"d"), Some(&"c")]
        );
        assert_eq!(table.get(3), None);
    }
}
