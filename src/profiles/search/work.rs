//! Finds members by the words of their names.

use std::collections::HashSet;
use std::sync::Arc;

use super::{is_on, store};
use crate::core::{Engine, Error};
use crate::domain::name_words::NameQuery;
use crate::domain::problems::Problem;
use crate::profiles::work::{self as profiles, FoundProfile};

/// The members that were found by name.
#[derive(Debug)]
pub struct FoundMembers {
    pub members: Vec<FoundProfile>,
    /// Whether there may be more.
    pub is_more: bool,
    /// Whether the index has all names.
    pub is_complete: bool,
}

/// Up to `count` members whose names match, in the order of the words that match.
pub async fn find(engine: &Engine, query: &NameQuery, count: usize) -> Result<FoundMembers, Error> {
    if !is_on(engine) {
        return Err(Problem::name_search_off().into());
    }
    let buckets = store::find(&engine.store, query.looked_up(), count + 1).await?;
    let is_complete = buckets.iter().all(|bucket| bucket.is_complete);
    let (mut words, mut is_more) = (Vec::new(), false);
    for bucket in buckets {
        let members: HashSet<_> = bucket.found.iter().map(|(_, member)| member).collect();
        is_more |= members.len() > count;
        words.extend(bucket.found);
    }
    words.sort_unstable();
    // A member whose name has two of the words is found by the first one.
    let mut known = HashSet::new();
    let proposed: Vec<_> = words
        .into_iter()
        .map(|(_, member)| member)
        .filter(|member| known.insert(member.clone()))
        .collect();
    let mut members = Vec::new();
    for part in proposed.chunks(count + 1) {
        let ids = part.iter().map(|member| Arc::from(member.as_str()));
        let read = profiles::read(engine, ids).await?;
        members.extend(part.iter().filter_map(|member| {
            let record = read.of(member.as_str())?;
            let is_match = query.matches(&record.profile.name);
            is_match.then(|| FoundProfile {
                member: member.clone(),
                record: Arc::clone(record),
            })
        }));
        if members.len() > count {
            break;
        }
    }
    is_more |= members.len() > count;
    members.truncate(count);
    Ok(FoundMembers {
        members,
        is_more,
        is_complete,
    })
}
