//! Lists while others write. A list at any revision, in chunks of any size, shows the state at one revision.

use pintle_integration::{Protocol, Response};

use crate::format::{ListPage, ResponseFormat};
use crate::object::ObjectVersion;
use crate::query::ResourceQuery;
use crate::random::SeededRandom;
use crate::shared::{ReconnectingClient, SharedState, increment, lock};

/// The maximum age of requested revisions, in changes of the kind.
const MAX_REVISION_AGE: usize = 300;

/// A list. The test checks it when the history is complete.
pub(crate) struct ListResult {
    pub(crate) query: ResourceQuery,
    /// The request, for messages.
    pub(crate) description: String,
    pub(crate) revision: u64,
    /// The revision that was requested with `resourceVersionMatch=Exact`.
    pub(crate) exact_revision: Option<u64>,
    pub(crate) min_revision: u64,
    pub(crate) items: Vec<ObjectVersion>,
    /// The number of objects of the server itself, which the list omits.
    pub(crate) foreign: usize,
    /// The number of objects up to each chunk, and the chunk's `remainingItemCount`.
    pub(crate) remaining_item_counts: Vec<(usize, usize)>,
}

/// All chunks of a list.
pub(crate) struct CompleteList {
    pub(crate) revision: u64,
    pub(crate) items: Vec<ObjectVersion>,
    foreign: usize,
    remaining_item_counts: Vec<(usize, usize)>,
}

/// Lists all chunks, or everything at once without a limit. `None` if the revision has expired. The parameters come
/// with the revision of `resourceVersionMatch=Exact`.
pub(crate) async fn list_chunks(
    shared: &SharedState,
    client: &mut ReconnectingClient,
    query: &ResourceQuery,
    format: ResponseFormat,
    (parameters, exact_revision): (&str, Option<u64>),
    limit: Option<usize>,
) -> Option<CompleteList> {
    // The watch cache serves `resourceVersion=0` and ignores the limit.
    let ignores_limit = parameters.contains("resourceVersion=0");
    let limit_parameter = limit.map_or_else(String::new, |limit| format!("limit={limit}"));
    let join = |one: &str, other: &str| if one.is_empty() { other.to_owned() } else { format!("{one}&{other}") };
    let mut parameters =
        if limit_parameter.is_empty() { parameters.to_owned() } else { join(parameters, &limit_parameter) };
    let mut list: Option<CompleteList> = None;
    loop {
        let path = query.request(&parameters);
        let response = client.get(shared, &path, format.accept(true)).await;
        match response.status.as_u16() {
            200 => {}
            // A stopping server may respond with 503. Retry, until the restarted server responds.
            503 => continue,
            410 => {
                let revision = list.as_ref().map(|list| list.revision).or(exact_revision);
                assert!(shared.may_have_expired(revision), "{path}: {}", response.text());
                increment(&shared.counters.expired_lists);
                if list.is_some() {
                    continue_inconsistently(shared, client, query, format, &limit_parameter, &response).await;
                }
                return None;
            }
            _ => panic!("{path}: {}: {}", response.status, response.text()),
        }
        increment(&shared.counters.lists);
        let ListPage { revision, continue_token, remaining_item_count, items, foreign } =
            format.parse_list(query.kind(), &response.body);
        let length = items.len() + foreign;
        assert!(ignores_limit || limit.is_none_or(|limit| length <= limit), "{path}: {length} items");
        let list = list.get_or_insert_with(|| CompleteList {
            revision,
            items: Vec::new(),
            foreign: 0,
            remaining_item_counts: Vec::new(),
        });
        assert_eq!(revision, list.revision, "{path}: all chunks of a list have the same revision");
        list.items.extend(items);
        list.foreign += foreign;
        if let Some(remaining) = remaining_item_count {
            assert!(query.is_unselected(), "{path}: a list with selectors has no remainingItemCount");
            list.remaining_item_counts.push((list.items.len() + list.foreign, remaining));
        }
        if continue_token.is_empty() {
            return Some(CompleteList {
                revision,
                items: std::mem::take(&mut list.items),
                foreign: list.foreign,
                remaining_item_counts: list.remaining_item_counts.clone(),
            });
        }
        parameters = join(&limit_parameter, &format!("continue={continue_token}"));
    }
}

/// Continues with the inconsistent continue token of a 410 Gone response. The token lists the rest at the newest
/// revision.
async fn continue_inconsistently(
    shared: &SharedState,
    client: &mut ReconnectingClient,
    query: &ResourceQuery,
    format: ResponseFormat,
    limit_parameter: &str,
    expired: &Response,
) {
    let continue_token = format.parse_continue_token(query.kind(), &expired.body);
    let path = query.request(&format!("{limit_parameter}&continue={continue_token}"));
    let response = client.get(shared, &path, format.accept(true)).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
}

/// Sends random lists.
pub(crate) async fn run(shared: &SharedState, round: usize, number: usize, lists: usize) -> Vec<ListResult> {
    let mut random = SeededRandom::for_part(shared.seed, "lister", round * 100 + number);
    let protocol = if number.is_multiple_of(2) { Protocol::Any } else { Protocol::Http1 };
    let mut client = ReconnectingClient::connect(shared, protocol);
    let queries = ResourceQuery::every();
    // JSON allows the strictest check, so it is the most frequent.
    let formats = [
        ResponseFormat::Json,
        ResponseFormat::Json,
        ResponseFormat::Json,
        ResponseFormat::Metadata,
        ResponseFormat::Table,
        ResponseFormat::Protobuf,
    ];
    let mut results = Vec::new();
    for _ in 0..lists {
        let query = *random.choose(&queries);
        let format = random.choose(&formats).for_kind(query.kind());
        let limit = random.one_in(2).then(|| 1 + random.below(7));
        let record = &shared.records[query.kind_index];
        let (newest, observed) = (record.acknowledged(), shared.oldest_visible(query.kind_index));
        // With a limit, a resourceVersion without `resourceVersionMatch` means `Exact`, so the match is set.
        let (parameters, exact_revision, min_revision) = match random.below(6) {
            0 | 1 => (String::new(), None, newest),
            2 => ("resourceVersion=0".to_owned(), None, observed),
            3 => (format!("resourceVersion={newest}&resourceVersionMatch=NotOlderThan"), None, newest),
            _ => match past_revision(shared, &mut random) {
                0 => continue,
                revision => {
                    (format!("resourceVersion={revision}&resourceVersionMatch=Exact"), Some(revision), revision)
                }
            },
        };
        let list = list_chunks(shared, &mut client, &query, format, (&parameters, exact_revision), limit).await;
        if let Some(CompleteList { revision, items, foreign, remaining_item_counts }) = list {
            let description = format!("{} ({format:?}, limit {limit:?}, {protocol:?})", query.request(&parameters));
            results.push(ListResult {
                query,
                description,
                revision,
                exact_revision,
                min_revision,
                items,
                foreign,
                remaining_item_counts,
            });
        }
    }
    results
}

/// A past revision: of a bookmark, or of a change of any kind; 0 if there is none yet.
fn past_revision(shared: &SharedState, random: &mut SeededRandom) -> u64 {
    if let Some(revision) = lock(&shared.bookmarks).pop() {
        return revision;
    }
    let history = random.choose(&shared.records).history();
    let age = random.below(MAX_REVISION_AGE.min(history.len()));
    history.changes_from(history.len().saturating_sub(age + 1)).first().map_or(0, |change| change.revision)
}
