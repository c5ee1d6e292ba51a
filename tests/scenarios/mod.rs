//! Scenarios: what has to be true of a group on any cluster, written once.
//!
//! ```text
//!   topics, outages, positions, ...       functions over a Version, one for each scenario
//!        |             \
//!        |              +---> numbered: a flow of messages, and the journal that proves that all arrived
//!        v                    member, topics_support: members of ours, and what their streams gave
//!   Version, Cluster (tests/support)
//!        ^                  ^
//!   KafkaVersion,       BrokerVersion,
//!   RealCluster         EmbeddedCluster
//!   (tests/real)        (tests/integration)
//! ```
//!
//! Both test binaries include this folder, and make a test of each scenario on the lists below, so that the embedded
//! cluster is proven faithful.

// Each of the two has helpers that only it uses.
#![allow(dead_code)]

pub(crate) mod member;
pub(crate) mod numbered;
pub(crate) mod topics_support;

pub(crate) mod connector;
pub(crate) mod consuming;
pub(crate) mod killed_members;
pub(crate) mod leader_change;
pub(crate) mod outages;
pub(crate) mod positions;
pub(crate) mod resuming;
pub(crate) mod stalled_streams;
pub(crate) mod taken_nodes;
pub(crate) mod topics;

/// Gives `$play` the scenarios that a broker of any version should stand.
macro_rules! for_every_version {
    ($play:ident) => {
        $play! {
            scenarios::connector::two_members_share_a_topic_and_one_without_topics_changes_nothing,
            scenarios::consuming::every_message_of_every_codec_arrives_once_and_in_order_with_any_number_of_streams,
            scenarios::killed_members::a_killed_member_starts_again_at_once_with_the_same_id,
            scenarios::leader_change::a_cluster_whose_brokers_all_die_is_come_back_to_and_its_restarts_cause_no_rebalances,
            scenarios::leader_change::a_partition_without_a_leader_does_not_starve_the_others,
            scenarios::leader_change::brokers_that_are_restarted_politely_one_after_the_other_disturb_nobody,
            scenarios::leader_change::killed_leaders_cost_neither_a_message_nor_a_rebalance,
            scenarios::positions::a_log_that_lost_its_start_is_read_from_where_the_rule_says,
            scenarios::positions::a_missing_or_impossible_offset_is_replaced_by_the_rule,
            scenarios::resuming::after_a_shutdown_the_next_member_goes_on_without_loss_or_repeat,
            scenarios::resuming::after_kill_9_of_kzc_only_what_was_not_committed_is_repeated,
            scenarios::resuming::offsets_in_kafka_are_gone_on_from_also_after_a_restart_of_their_coordinator,
            scenarios::topics::a_deleted_topic_stays_deleted_and_is_consumed_again_from_its_start_once_it_is_created_again,
            scenarios::topics::a_member_without_brokers_waits_and_each_partition_comes_with_its_leader,
            scenarios::topics::a_topic_and_partitions_that_come_later_are_consumed_and_asking_for_them_creates_nothing,
            scenarios::topics::topics_that_pass_a_filter_come_and_go_and_stay_deleted,
        }
    };
}

/// Gives `$play` the scenarios about messages, which 0.8.2 and 0.9.0 have to stand.
macro_rules! for_both_versions {
    ($play:ident) => {
        $play! {
            scenarios::positions::offsets_are_stored_by_the_timer_by_hand_and_exactly_as_given,
            scenarios::stalled_streams::a_stream_that_is_never_read_holds_back_neither_the_others_nor_the_group,
            scenarios::stalled_streams::compressed_messages_that_unpack_to_more_than_the_queues_hold_arrive,
            scenarios::stalled_streams::large_messages_flow_through_queues_that_hold_one_of_them,
        }
    };
}

/// Gives `$play` the scenarios in which the brokers hardly matter, for 0.8.2.
macro_rules! for_one_version {
    ($play:ident) => {
        $play! {
            scenarios::connector::a_second_member_takes_half_of_a_thousand_partitions,
            scenarios::connector::a_topic_of_one_partition_has_one_owner_and_its_order,
            scenarios::connector::streams_are_created_once,
            scenarios::connector::two_members_share_a_topic_of_compressed_messages,
            scenarios::killed_members::a_killed_member_starts_again_at_once_with_another_id,
            scenarios::killed_members::a_member_that_stood_still_for_longer_than_its_session_disturbs_nobody,
            scenarios::leader_change::after_an_unclean_election_a_member_beyond_the_log_begins_where_the_rule_says,
            scenarios::leader_change::leadership_that_moves_is_followed,
            scenarios::outages::a_hang_of_zookeeper_shorter_than_the_session_stops_nothing,
            scenarios::outages::a_restart_of_zookeeper_within_the_session_stops_nothing,
            scenarios::outages::a_zookeeper_away_for_longer_than_the_session_stops_the_delivery_until_it_is_back,
            scenarios::outages::a_zookeeper_that_hangs_for_longer_than_the_session_stops_the_delivery_until_it_is_back,
            scenarios::outages::an_expired_session_is_followed_by_another_one_that_takes_the_partitions_back,
            scenarios::positions::a_stream_without_messages_times_out_as_often_as_it_is_asked_and_then_goes_on,
            scenarios::positions::an_offset_that_is_given_is_written_whatever_was_written_before,
            scenarios::positions::what_the_application_has_not_come_back_for_is_delivered_again_unless_it_counts_when_handed_out,
            scenarios::resuming::a_shutdown_amid_reading_repeats_at_most_the_message_in_hand_of_each_stream,
            scenarios::stalled_streams::a_member_that_reads_nothing_leaves_at_once_and_has_fetched_no_more_than_its_bound,
            scenarios::stalled_streams::a_member_with_many_quiet_partitions_asks_no_more_often_than_its_longest_wait_calls_for,
            scenarios::taken_nodes::a_member_that_cannot_start_says_why_and_leaves_nothing_behind,
            scenarios::taken_nodes::a_running_member_goes_on_trying_to_get_a_partition_that_somebody_else_holds,
            scenarios::taken_nodes::an_id_that_lives_on_is_refused_after_a_bounded_wait,
            scenarios::taken_nodes::nodes_that_somebody_deletes_come_back,
        }
    };
}

pub(crate) use for_both_versions;
pub(crate) use for_every_version;
pub(crate) use for_one_version;
