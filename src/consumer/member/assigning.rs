//! Who gets what, by the present state of ZooKeeper.

use std::collections::BTreeSet;

use crate::consumer::member::Member;
use crate::coordination::Assignment;
use crate::coordination::AssignmentContext;
use crate::coordination::RegisteredMember;
use crate::coordination::TopicCount;
use crate::coordination::TopicRegistry;
use crate::coordination::refused_filter;
use crate::error::Error;
use crate::events::Event;

impl Member {
    /// The assignment of the group. Its topics are watched from then on, and, where filters count, the list of all
    /// topics.
    ///
    /// `watched` are the members by the list whose watch is set.
    pub(super) fn assign(&mut self, watched: &[String]) -> Result<Assignment, Error> {
        let members = self.group.members()?;
        if !members.iter().map(|member| &member.id).eq(watched) {
            return Err(Error::GroupChanged);
        }
        let has_filter = |member: &RegisteredMember| member.topic_count.regex().is_some();
        let others_count = !self.assignor.is_by_topic() && members.iter().any(has_filter);
        let all_topics = match self.topic_count.regex().is_some() || others_count {
            true => self.topics.watch_topics()?,
            false => Vec::new(),
        };
        let mine = self.asked_of(&all_topics)?;
        self.passing = names(&mine);
        let judged = match self.assignor.is_by_topic() {
            true => &self.passing,
            false => &all_topics,
        };
        let exclude_internal = self.config.exclude_internal_topics();
        let members: Vec<RegisteredMember> = members
            .into_iter()
            .map(|member| member.narrowed(judged, exclude_internal, &|| self.stop.is_stopped()))
            .collect();
        if self.stop.is_stopped() {
            return Err(Error::Closed);
        }
        self.tell_unusable_members(&members);
        let assignment = self.deal(&members)?;
        self.tell_idle_threads(&assignment);
        Ok(assignment)
    }

    /// Whether a change of the list of all topics, which is watched again, may change the assignment. Most topics of
    /// a large cluster are nobody's business here.
    pub(crate) fn is_concerned_by_topics(&self) -> Result<bool, Error> {
        // The filters of others count.
        if !self.assignor.is_by_topic() {
            return Ok(true);
        }
        let all_topics = self.topics.watch_topics()?;
        Ok(names(&self.asked_of(&all_topics)?) != self.passing)
    }

    /// What this member asks for, by name. Its own filter must say something: unlike that of others, it is never
    /// taken for nothing.
    fn asked_of(&self, all_topics: &[String]) -> Result<TopicCount, Error> {
        let exclude_internal = self.config.exclude_internal_topics();
        self.topic_count
            .narrowed(all_topics, exclude_internal, &|| self.stop.is_stopped())
            .map_err(refused_filter)
    }

    /// Reads the partitions, and deals them out.
    fn deal(&self, members: &[RegisteredMember]) -> Result<Assignment, Error> {
        let topics = match self.assignor.is_by_topic() {
            true => self.passing.clone(),
            false => {
                let asked = members
                    .iter()
                    .flat_map(|member| member.topic_count.topics());
                let asked: BTreeSet<&str> = asked.collect();
                asked.into_iter().map(str::to_owned).collect()
            }
        };
        let read = self.topics.watch_partitions(&topics)?;
        match self.topic_count.regex() {
            // A topic that is missing now was deleted just after the list was read.
            Some(regex) if self.passing.is_empty() => {
                let regex = regex.to_owned();
                self.events.send(Event::NoTopics { regex });
            }
            Some(_) => {}
            None => {
                let mine = read
                    .missing
                    .into_iter()
                    .filter(|topic| self.passing.contains(topic));
                mine.for_each(|topic| self.events.send(Event::NoPartitions { topic }));
            }
        }
        for (topic, reason) in read.unusable {
            self.tell_unusable(TopicRegistry::path_of(&topic), reason);
        }
        let counts = members
            .iter()
            .map(|member| (member.id.as_str(), &member.topic_count));
        self.assignor
            .assign(&AssignmentContext::new(read.partitions, counts))
    }

    fn tell_unusable_members(&self, members: &[RegisteredMember]) {
        for member in members {
            if let Some(reason) = member.trouble.clone() {
                let path = format!("{}/{}", self.group.members_path(), member.id);
                self.tell_unusable(path, reason);
            }
        }
    }

    /// By name, each topic counts. A filter may let thousands of small ones pass, most of which give nothing to most
    /// threads, so there it counts only if a thread gets nothing at all.
    fn tell_idle_threads(&self, assignment: &Assignment) {
        let busy: BTreeSet<&str> = assignment.busy().map(|thread| thread.as_str()).collect();
        let mut told = BTreeSet::new();
        for (topic, thread) in assignment.idle() {
            if thread.member() != self.id {
                continue;
            }
            let topic = match self.topic_count.regex() {
                None => topic,
                Some(regex) if !busy.contains(thread.as_str()) && told.insert(thread) => regex,
                Some(_) => continue,
            };
            self.events.send(Event::IdleThread {
                thread: thread.to_string(),
                topic: topic.to_owned(),
            });
        }
    }
}

fn names(topic_count: &TopicCount) -> Vec<String> {
    topic_count.topics().map(str::to_owned).collect()
}
