//! Lists while others write: of whatever revision and in chunks of whatever size, each shows one state.

use pintle_testkit::{Protocol, Response};

use crate::dice::Dice;
use crate::form::{Form, Page};
use crate::object::Item;
use crate::view::View;
use crate::world::{Line, World, count, lock};

/// How far back revisions are asked for, in changes of a kind.
const DEPTH: usize = 300;

/// A list that was taken, to be judged when the journal is whole.
pub(crate) struct Listing {
    pub(crate) view: View,
    pub(crate) what: String,
    pub(crate) at: u64,
    /// The revision that was asked for, if one was.
    pub(crate) exactly: Option<u64>,
    pub(crate) not_before: u64,
    pub(crate) items: Vec<Item>,
    /// How many objects each chunk said would follow, and how many it had been by then.
    pub(crate) remaining: Vec<(usize, usize)>,
}

/// A list that was walked to its end.
pub(crate) struct Walked {
    pub(crate) at: u64,
    pub(crate) items: Vec<Item>,
    remaining: Vec<(usize, usize)>,
}

/// Takes a list, in chunks of a size if there is one. `None` if its revision was forgotten.
pub(crate) async fn walk(
    world: &World,
    line: &mut Line,
    view: &View,
    form: Form,
    options: &str,
    limit: Option<usize>,
) -> Option<Walked> {
    // What any state does for is given from memory, whole.
    let whole = options.contains("resourceVersion=0");
    let limited = limit.map_or_else(String::new, |limit| format!("limit={limit}"));
    let join = |one: &str, other: &str| if one.is_empty() { other.to_owned() } else { format!("{one}&{other}") };
    let mut options = if limited.is_empty() { options.to_owned() } else { join(options, &limited) };
    let mut walked: Option<Walked> = None;
    loop {
        let path = view.request(&options);
        let answer = line.get(world, &path, form.accept(true)).await;
        match answer.status.as_u16() {
            200 => {}
            // What is stopping may say so; the next server knows.
            503 => continue,
            410 => {
                assert!(world.forgets, "{path}: {}", answer.text());
                count(&world.counts.gone);
                if walked.is_some() {
                    go_on_inconsistently(world, line, view, form, &limited, &answer).await;
                }
                return None;
            }
            _ => panic!("{path}: {}: {}", answer.status, answer.text()),
        }
        count(&world.counts.lists);
        let Page { at, token, remaining, items } = form.page(view.kind(), &answer.body);
        assert!(whole || limit.is_none_or(|limit| items.len() <= limit), "{path}: {} items", items.len());
        let walked = walked.get_or_insert_with(|| Walked { at, items: Vec::new(), remaining: Vec::new() });
        assert_eq!(at, walked.at, "{path}: chunks of one list show one revision");
        walked.items.extend(items);
        if let Some(remaining) = remaining {
            assert!(view.is_unselected(), "{path}: nobody counts what is selected");
            walked.remaining.push((walked.items.len(), remaining));
        }
        if token.is_empty() {
            return Some(Walked { at, items: std::mem::take(&mut walked.items), remaining: walked.remaining.clone() });
        }
        options = join(&limited, &format!("continue={token}"));
    }
}

/// The answer to a token that is too old has one with which the rest can be had, as it is now.
async fn go_on_inconsistently(
    world: &World,
    line: &mut Line,
    view: &View,
    form: Form,
    limited: &str,
    expired: &Response,
) {
    let token = form.token(view.kind(), &expired.body);
    let path = view.request(&format!("{limited}&continue={token}"));
    let answer = line.get(world, &path, form.accept(true)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
}

/// Takes lists.
pub(crate) async fn read(world: &World, round: usize, reader: usize, reads: usize) -> Vec<Listing> {
    let mut dice = Dice::of(world.seed, "reader", round * 100 + reader);
    let protocol = if reader.is_multiple_of(2) { Protocol::Any } else { Protocol::Http1 };
    let mut line = Line::open(world, protocol);
    let views = View::every();
    let mut listings = Vec::new();
    for _ in 0..reads {
        let view = *dice.pick(&views);
        let form = *dice.pick(&[Form::Json, Form::Json, Form::Json, Form::Metadata, Form::Table, Form::Protobuf]);
        let limit = dice.one_in(2).then(|| 1 + dice.roll(7));
        let ledger = &world.ledgers[view.at];
        let (newest, seen) = (ledger.acknowledged(), ledger.journal().head());
        // A limit makes a list of a revision, or of any, an exact one or one of the newest.
        let (options, exactly, not_before) = match dice.roll(6) {
            0 | 1 => (String::new(), None, newest),
            2 => ("resourceVersion=0".to_owned(), None, seen),
            3 => (format!("resourceVersion={newest}&resourceVersionMatch=NotOlderThan"), None, newest),
            _ => match past(world, &mut dice) {
                0 => continue,
                at => (format!("resourceVersion={at}&resourceVersionMatch=Exact"), Some(at), at),
            },
        };
        if let Some(Walked { at, items, remaining }) = walk(world, &mut line, &view, form, &options, limit).await {
            let what = format!("{} ({form:?}, limit {limit:?}, {protocol:?})", view.request(&options));
            listings.push(Listing { view, what, at, exactly, not_before, items, remaining });
        }
    }
    listings
}

/// A revision that was, of any kind's change or some bookmark; 0 if there was none yet.
fn past(world: &World, dice: &mut Dice) -> u64 {
    if let Some(revision) = lock(&world.bookmarks).pop() {
        return revision;
    }
    let journal = dice.pick(&world.ledgers).journal();
    let back = dice.roll(DEPTH.min(journal.len()));
    journal.from(journal.len().saturating_sub(back + 1)).first().map_or(0, |change| change.revision)
}
