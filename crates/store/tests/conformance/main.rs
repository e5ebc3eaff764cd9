//! The promises of a store, each written once against its traits and kept by every store there is: a test is called
//! `sqlite::settle::a_retry_waits_at_its_new_place`, and a bug found in one store becomes a promise of all.
//!
//! PostgreSQL is needed: `scripts/postgres with cargo test -p store`.

mod accounts;
mod audit;
mod audit_log;
mod backend;
mod backfill;
mod backlog;
mod catalog;
mod dead_letters;
mod erasure;
mod expand;
mod feed;
mod fixtures;
mod gates;
mod history;
mod ingest;
mod lane_rollups;
mod lanes;
mod membership;
mod operational_events;
mod order;
mod portal_links;
mod queue;
mod refused_requests;
mod replay;
mod replay_lists;
mod retention;
mod rollup;
mod sealed;
mod seals;
mod sessions;
mod settle;
mod shards;
mod tags;
mod test_sends;
mod wakes;

macro_rules! kept_by {
    ($store:ident, $backend:ident) => {
        mod $store {
            promises! {
                $backend, accounts:
                a_setting_keeps_its_first_value,
                an_account_reads_back_as_it_was_created,
                accounts_are_listed_newest_first,
                an_empty_store_has_no_first_account,
                an_account_is_updated_only_over_the_version_it_was_read_with,
                an_accounts_uid_is_its_own,
                an_account_is_found_by_its_uid,
                there_are_never_more_accounts_than_may_be,
                of_those_who_make_an_account_of_one_uid_at_once_one_does,
                an_account_has_no_more_than_its_quotas,
                a_uid_leads_to_what_has_it_in_its_account,
                an_api_key_is_found_by_its_lookup,
                a_lookup_is_taken_once,
                api_keys_are_listed_by_account_and_operator_keys_apart,
                keys_of_platforms_are_kept_with_those_of_operators,
                revoking_twice_keeps_the_first_time,
                a_key_is_revoked_by_its_owner_only,
                using_a_key_is_noted,
            }
            promises! {
                $backend, catalog:
                every_change_takes_the_accounts_next_version,
                one_accounts_changes_are_none_of_anothers,
                changes_are_what_is_newer_than_a_version,
                a_source_reads_back_as_it_was_created,
                a_source_is_found_by_its_token,
                a_source_is_updated_only_over_the_version_it_was_read_with,
                deleting_a_source_removes_its_routes_and_no_others,
                a_destination_reads_back_as_it_was_created,
                a_destination_that_says_nothing_keeps_no_default,
                every_way_to_authenticate_is_kept_as_it_is,
                a_target_carries_its_accounts_defaults,
                a_destinations_switches_are_written_with_it,
                a_uid_is_unique_within_its_account_and_kind,
                a_refused_write_takes_no_version,
                deleting_a_destination_hides_it_and_removes_its_routes,
                targets_come_in_the_order_asked_for_and_see_deleted_ones,
                a_target_carries_its_routes_own_settings,
                a_route_reads_back_as_it_was_created,
                a_route_needs_both_its_ends,
                a_route_is_updated_only_over_the_version_it_was_read_with,
                a_deleted_route_is_gone,
                a_foreign_id_answers_as_a_random_one,
                nothing_is_created_for_an_account_that_is_not_there,
                lists_page_from_newest_to_oldest,
                of_many_updates_at_once_one_is_made,
                versions_come_in_the_order_asked_for,
                a_probe_is_a_change_that_the_owner_sees,
                an_update_leaves_the_probe_alone,
                changed_destinations_are_those_that_changed_and_those_whose_routes_did,
            }
            promises! {
                $backend, audit_log:
                every_change_is_written_down_with_it,
                what_people_ask_of_deliveries_is_written_down_with_it,
                a_refused_change_leaves_no_entry,
                an_entry_may_go_with_no_change,
                every_member_of_an_entry_is_kept,
                entries_are_listed_newest_first,
                entries_are_found_by_what_they_say,
                an_account_without_entries_has_a_chain_that_holds,
                an_entry_that_was_changed_is_found,
                an_entry_that_was_taken_out_is_found,
                the_last_entry_is_missed_too,
                entries_that_were_moved_are_found,
                what_is_left_after_pruning_holds,
                an_old_entry_behind_a_newer_one_stays,
                a_chain_that_begins_in_the_future_keeps_no_other_from_being_pruned,
                an_entry_outside_of_its_chain_is_found,
                many_writers_at_once_make_one_chain,
            }
            promises! {
                $backend, sessions:
                a_session_reads_back_with_its_holder,
                what_begins_and_ends_a_session_is_written_down,
                sessions_are_listed_by_holder_newest_first,
                a_session_is_ended_by_its_holder_or_by_anybody_who_may,
                a_new_session_replaces_the_one_it_names,
                of_many_sessions_of_a_holder_the_newest_stay,
                a_sessions_use_and_choice_are_kept,
                revoking_a_key_ends_its_sessions,
                sessions_and_links_that_are_over_are_pruned_in_steps,
                a_link_is_opened_once,
                of_many_that_open_a_link_at_once_one_does,
                the_first_user_is_made_by_a_set_up_link,
                of_many_that_set_up_at_once_one_does,
                a_user_reads_back_and_its_name_is_its_own,
                removing_a_user_ends_its_sessions,
                another_password_ends_every_session_but_the_one_it_begins,
            }
            promises! {
                $backend, sealed:
                a_sealed_event_comes_back_as_it_was_accepted_with_its_key_alone,
                sealed_payloads_come_sealed_with_their_deliveries,
                a_sealed_payload_that_was_altered_is_said_to_be,
                a_sealed_payload_is_erased_as_any_other,
                whoever_admits_and_delivers_is_told_that_an_account_encrypts,
                the_oldest_event_of_an_account_is_its_own,
                a_deleted_account_has_no_key_from_the_first_transaction_on,
            }
            promises! {
                $backend, seals:
                data_keys_are_walked_in_order,
                a_data_key_is_replaced_only_where_it_is_the_one_that_was_read,
                a_change_at_the_same_moment_does_not_bring_a_replaced_data_key_back,
                of_many_that_replace_a_data_key_at_once_one_does,
                settings_are_replaced_together_or_not_at_all,
                sealed_rows_are_destinations_and_then_sources,
                a_row_is_sealed_anew_only_over_the_version_it_was_read_with,
            }
            promises! {
                $backend, portal_links:
                a_portal_link_reads_back_with_its_maker,
                a_portal_link_is_opened_once_and_in_time,
                of_many_that_open_a_portal_link_at_once_one_does,
                portal_links_are_listed_by_account_with_their_sessions,
                a_revoked_portal_link_is_gone_with_its_session,
                what_is_done_to_a_portal_link_is_written_down_in_its_accounts_chain,
                a_portal_link_ends_with_whoever_made_it,
                a_deleted_account_has_no_portal_links,
                of_many_portal_links_of_an_account_the_newest_stay_and_what_is_over_goes_first,
                portal_links_that_are_over_are_pruned_in_steps,
            }
            promises! {
                $backend, refused_requests:
                a_refused_request_reads_back_as_it_was_kept,
                of_refused_requests_a_source_keeps_the_newest,
                of_a_source_that_is_gone_no_refused_request_is_kept,
                a_source_that_keeps_none_any_more_forgets_them,
                a_deleted_account_has_no_refused_requests,
            }
            promises! {
                $backend, ingest:
                a_commit_makes_the_event_and_its_deliveries_visible,
                an_event_that_matches_nothing_is_stored,
                an_event_names_the_routes_that_match_too,
                every_field_of_an_event_is_kept,
                deliver_at_is_when_a_deliverys_age_begins,
                payloads_are_kept_byte_for_byte,
                metadata_may_hold_any_character,
                a_key_that_was_used_names_its_first_event,
                another_body_under_a_used_key_is_told_by_its_hash,
                of_two_equal_keys_in_one_batch_the_first_wins,
                a_key_counts_within_its_scope,
                pruned_keys_may_be_used_again,
                of_many_commits_at_once_with_one_key_one_wins,
                a_stale_version_writes_nothing,
                a_stale_neighbour_does_not_hold_up_the_batch,
                an_event_without_an_account_is_named,
                committing_the_same_batch_twice_is_harmless,
                an_empty_batch_is_nothing,
                a_batch_of_the_largest_size_is_committed_whole,
                an_event_fans_out_to_as_many_as_fit_into_one_commit,
            }
            promises! {
                $backend, expand:
                an_expansion_begins_with_its_event,
                the_other_routes_of_a_large_event_are_told_at_its_end,
                what_is_not_committed_is_not_expanded,
                expansions_are_listed_by_event,
                a_chunk_makes_its_deliveries_and_moves_the_cursor,
                an_expansion_respects_when_the_event_is_to_be_delivered,
                a_repeated_chunk_writes_nothing,
                the_last_chunk_writes_the_number,
                a_list_counts_so_many_deliveries_of_an_event,
                an_expansion_may_end_without_a_delivery,
                of_many_expanders_at_once_each_delivery_is_made_once,
                an_expansion_goes_on_where_another_stopped,
                a_destination_that_is_deleted_meanwhile_is_left_out,
                an_account_that_is_not_there_has_no_routes,
                routes_are_walked_by_destination_age_and_door,
                a_page_that_is_known_is_not_read_again,
                a_chunk_of_the_largest_size_is_written_whole,
            }
            promises! {
                $backend, replay:
                a_replay_reads_back_as_it_was_created,
                a_key_that_was_used_names_its_first_replay,
                of_many_replays_at_once_with_one_key_one_is_made,
                an_account_has_so_many_replays_that_have_not_ended,
                a_replay_makes_new_deliveries_of_what_is_dead,
                what_came_or_ended_later_is_not_replayed,
                originals_are_filtered,
                a_survey_counts_by_destination_and_says_whether_that_is_all,
                ids_that_were_given_are_replayed_if_they_have_ended,
                a_repeated_chunk_of_a_replay_writes_nothing,
                the_end_of_a_replay_is_noted_with_its_last_chunk,
                only_who_holds_a_replay_writes_its_deliveries,
                of_many_who_work_on_a_replay_at_once_each_origin_is_made_once,
                a_replay_is_paused_resumed_and_cancelled,
                whoever_switches_a_replay_is_told_what_they_have_made_of_it,
                what_becomes_of_a_replays_deliveries_is_counted_once,
                what_is_replayed_to_an_ordered_destination_takes_the_next_numbers,
                a_replay_of_one_is_made_at_once,
                a_deleted_destination_is_told_with_the_originals,
                a_walk_over_what_does_not_match_moves_its_cursor,
                what_is_no_longer_kept_is_skipped,
                what_was_counted_and_had_its_time_before_its_turn_is_skipped,
            }
            promises! {
                $backend, backfill:
                a_backfill_reads_back_as_it_was_created,
                a_backfill_makes_what_events_never_had,
                what_was_had_is_not_made_again_whatever_became_of_it,
                an_event_that_expands_is_left_to_its_expansion,
                what_a_backfill_made_is_part_of_the_fan_out,
                what_came_after_a_backfill_is_not_taken,
                events_of_a_backfill_are_filtered_and_come_oldest_first,
                events_of_a_backfill_bring_their_payloads_if_asked,
                a_look_over_events_that_are_not_wanted_moves_on,
                a_repeated_chunk_of_a_backfill_writes_nothing,
                the_end_of_a_backfill_is_noted_with_its_last_chunk,
                a_chunk_may_end_in_the_middle_of_an_event,
                only_who_holds_a_backfill_writes_its_deliveries,
                of_many_backfills_at_once_each_delivery_is_made_once,
                a_backfill_is_paused_resumed_and_cancelled,
                what_is_backfilled_to_an_ordered_destination_takes_the_next_numbers,
                what_is_scheduled_for_later_waits_for_its_time,
                a_backfill_counts_what_became_of_its_deliveries,
                an_event_that_is_gone_has_no_backfill,
            }
            promises! {
                $backend, replay_lists:
                a_replays_deliveries_are_listed_and_are_not_their_events_fan_out,
                a_long_replay_is_listed_to_its_end,
                dead_letters_are_grouped,
            }
            promises! {
                $backend, dead_letters:
                a_delivered_replay_resolves_its_whole_chain,
                a_repeated_or_late_settlement_resolves_nothing_more,
                the_same_replay_twice_makes_nothing_twice,
                given_ids_are_taken_as_they_are_settled,
                of_several_that_are_delivered_the_first_counts,
                one_that_dies_while_another_is_delivered_is_resolved_by_it,
                what_is_no_dead_letter_is_never_settled,
                a_dead_letter_is_dismissed_once_and_by_its_account_alone,
                a_dismissal_is_written_down_with_its_count,
                what_was_dismissed_and_is_delivered_counts_as_delivered,
                each_is_subtracted_once_when_resolved_then_pruned,
                lists_tell_settled_from_unsettled,
                groups_are_narrowed_by_day_and_destination,
                of_many_who_settle_at_once_each_letter_is_settled_once,
            }
            promises! {
                $backend, queue:
                a_fetch_reads_in_the_order_of_positions,
                a_fetch_starts_at_its_position,
                tracks_come_before_ranks,
                a_window_never_returns_more_than_its_limit,
                many_windows_are_answered_in_their_order,
                an_event_is_read_once_however_many_lanes_have_it,
                large_payloads_are_left_behind,
                payloads_of_any_kind_come_back_byte_for_byte,
                an_altered_payload_is_not_given_to_be_sent,
                lanes_are_paged_by_shard_and_destination,
                only_the_lanes_of_the_shards_asked_for_are_named,
                a_cancel_wins_over_a_later_settlement,
                a_settlement_wins_over_a_later_cancel,
                a_retrying_delivery_can_be_cancelled,
                retry_now_moves_a_delivery_to_the_present,
                retry_now_leaves_a_due_delivery_in_its_place,
                retry_now_does_not_wake_the_dead,
                a_backlog_is_counted_up_to_the_limit,
            }
            promises! {
                $backend, settle:
                a_delivered_delivery_leaves_the_queue,
                a_retry_waits_at_its_new_place,
                a_throttled_delivery_keeps_its_place,
                a_dead_letter_keeps_its_reason,
                results_of_many_destinations_are_answered_in_their_order,
                tls_errors_are_counted,
                every_outcome_and_every_detail_is_kept,
                a_large_detail_is_kept_too,
                settling_twice_answers_the_same_and_moves_nothing_more,
                a_repeated_settlement_is_told_apart_from_new_ones_beside_it,
                a_word_about_an_earlier_attempt_moves_nothing,
                a_word_about_a_later_attempt_moves_nothing,
                answers_come_in_the_order_of_the_settlements,
                a_batch_of_the_largest_size_is_settled_whole,
                a_delivery_may_end_without_an_attempt,
                an_ending_without_an_attempt_needs_the_row_as_well,
                a_destination_that_is_gone_is_disabled_with_the_settlement,
                a_disabled_destination_keeps_its_first_reason,
                a_destination_is_paused_with_the_settlement_that_asks_for_it,
                only_a_settlement_that_moved_pauses,
                what_is_paused_disabled_or_deleted_is_not_paused_again,
                of_many_consequences_each_account_takes_one_version,
                a_node_whose_row_is_gone_moves_nothing_where_nodes_are_fenced,
                a_node_that_never_joined_moves_nothing_where_nodes_are_fenced,
            }
            promises! {
                $backend, order:
                numbers_have_no_gaps_and_the_order_of_the_batch,
                a_destination_without_order_may_number_too,
                what_is_not_written_takes_no_number,
                a_repeated_batch_takes_no_numbers_again,
                numbers_go_on_when_all_that_had_one_have_ended,
                however_many_commit_at_once_numbers_have_no_gaps,
                what_is_seen_of_a_lane_is_always_a_prefix,
                a_number_stays_through_retries_and_is_told_at_the_end,
                chunks_take_numbers_as_commits_do,
                a_large_event_may_come_with_its_ordered_deliveries,
                a_window_does_not_go_beyond_its_last_track,
                tracks_are_listed_with_their_first_rows,
                turns_are_taken_in_the_order_given,
                a_turn_is_taken_when_its_time_has_come_and_once,
                only_what_waits_for_its_time_takes_a_turn,
                a_lost_node_gives_no_turns_where_nodes_are_fenced,
                turns_and_commits_at_once_leave_no_gaps,
                retry_now_leaves_a_number_in_its_place,
                retry_now_brings_the_time_of_what_waits_for_it,
            }
            promises! {
                $backend, history:
                events_are_listed_newest_first,
                an_events_record_has_no_payload_but_its_size,
                events_are_filtered,
                events_are_told_apart_by_their_fan_outs_end,
                a_filter_that_matches_little_still_reaches_the_end,
                a_fan_out_is_counted_through_its_life,
                a_late_word_does_not_count,
                a_deliverys_record_tells_its_story,
                waiting_and_ended_deliveries_are_one_list,
                a_page_of_large_rows_has_fewer_and_goes_on_where_it_stopped,
                attempts_of_a_delivery_are_all_told_however_large_they_are,
                a_delivery_that_ends_between_two_pages_is_listed_once,
                deliveries_are_filtered,
                attempts_of_a_delivery_come_oldest_first,
                attempts_of_a_destination_are_paged,
                attempts_are_listed_by_their_beginnings_however_late_they_were_written,
                a_deleted_destinations_attempts_are_still_history,
                a_destination_has_a_success_rate,
                one_account_sees_nothing_of_another,
                a_page_of_equal_moments_is_still_in_order,
            }
            promises! {
                $backend, tags:
                an_event_is_found_by_each_of_its_tags,
                tags_narrow_with_other_filters,
                what_is_repeated_is_tagged_once,
                a_batch_may_have_tagged_and_plain_events,
                tags_go_with_their_event,
                metadata_is_compared_by_what_it_says,
                a_search_looks_at_no_more_than_a_page_may,
            }
            promises! {
                $backend, retention:
                what_has_ended_goes_with_all_of_it,
                dead_letters_that_go_are_no_longer_counted,
                what_waits_stays_with_all_that_belongs_to_it,
                what_is_yet_to_be_made_keeps_its_event,
                what_is_younger_or_anothers_stays,
                a_walk_goes_past_what_it_has_to_keep,
                an_event_with_many_deliveries_goes_in_steps,
                a_key_may_outlive_its_event,
                the_last_words_about_what_is_gone_go_too,
                a_replay_that_has_ended_goes_with_what_it_says,
                a_replay_stays_as_long_as_one_of_its_deliveries_waits,
                a_replay_that_has_not_ended_stays,
                replays_go_in_steps,
                a_chore_is_one_nodes_at_a_time,
                who_has_lost_the_chore_removes_nothing,
                of_many_who_take_a_chore_at_once_one_has_it,
            }
            promises! {
                $backend, rollup:
                facts_are_summed_up_by_destination,
                a_fact_belongs_to_the_moment_its_attempt_began,
                a_late_attempt_counts_and_ends_nothing,
                events_are_counted_by_account,
                fan_outs_are_judged_by_all_of_their_deliveries,
                what_becomes_durable_is_added_to_its_minute_once,
                rollups_are_written_over,
                rollups_of_many_destinations_are_read_together,
                what_has_been_due_for_longest_is_told_of_the_oldest_that_wait,
                how_far_it_has_come_is_remembered,
                who_has_lost_the_chore_sums_up_nothing,
                what_has_happened_since_is_an_accounts_own,
                of_too_much_that_happened_since_the_first_is_counted,
            }
            promises! {
                $backend, lane_rollups:
                each_owner_writes_its_own_minutes,
                a_minute_of_all_lanes_is_read_in_steps,
                hours_of_lanes_are_written_over_and_pruned_by_who_has_the_chore,
            }
            promises! {
                $backend, backlog:
                backlogs_are_told_by_account_largest_first,
                what_ends_waits_no_more,
            }
            promises! {
                $backend, membership:
                the_store_tells_the_time,
                a_new_store_is_well,
                any_number_of_nodes_may_join,
                a_predecessor_with_the_same_proof_is_replaced,
                the_late_word_of_a_dead_process_replaces_nobody,
                joining_twice_is_joining_once,
                an_expired_node_that_nobody_reaped_goes_on,
                reaping_removes_the_expired_and_nobody_else,
                a_node_never_reaps_itself,
                a_node_that_left_is_gone,
                a_stranger_has_no_lease,
                a_renewal_gives_the_stores_time_and_the_stamp,
                the_roster_is_whole,
                the_stamp_differs_when_the_roster_has_moved,
            }
            promises! {
                $backend, shards:
                free_shards_are_taken_in_order,
                a_stranger_takes_nothing,
                a_living_nodes_shards_are_not_taken,
                a_lost_nodes_shards_are_free,
                what_one_wants_is_taken_first,
                of_many_takers_at_once_each_shard_has_one,
                a_released_shard_goes_to_whoever_wants_it,
                a_released_shard_that_nobody_wants_is_free,
                a_shard_wanted_by_a_lost_node_goes_to_nobody,
                only_the_owner_at_its_epoch_releases,
                a_former_owner_releases_nothing,
                the_first_who_asks_is_the_one_who_wants,
                nobody_wants_what_is_ones_own,
                a_lost_node_wants_nothing,
                keeping_a_shard_declines_the_wish,
                of_many_who_ask_at_once_one_wants,
                epochs_only_grow,
            }
            promises! {
                $backend, gates:
                a_gate_is_read_with_its_destination_as_its_owner_left_it,
                what_is_held_is_found_whoever_holds_it,
                of_two_words_about_a_gate_the_later_counts,
                a_word_that_was_overtaken_counts_for_nothing,
                holds_are_listed_from_newest_to_oldest,
                a_hold_that_goes_on_is_one_line,
                who_is_no_member_keeps_no_gate,
                old_holds_are_pruned_and_those_that_go_on_are_not,
            }
            promises! {
                $backend, operational_events:
                a_note_is_written_for_those_who_are_told_and_once,
                the_operators_account_is_told_of_all,
                notes_are_read_oldest_first_without_accounts_that_are_passed_over,
                what_a_gate_is_told_as_is_noted_with_it,
                a_destination_that_is_disabled_is_noted_once,
                a_destination_that_is_gone_is_noted_with_the_answer_that_said_so,
                dead_letters_are_summed_up_by_destination_and_minute,
                a_dead_letter_of_an_operational_event_is_told_to_nobody,
            }
            promises! {
                $backend, feed:
                what_happens_to_a_delivery_is_told_as_it_was_left,
                an_ending_without_an_attempt_is_told_with_the_last_one_before,
                a_late_word_is_not_told,
                only_the_accounts_asked_for_are_told_of,
                holds_are_told_when_they_begin_change_and_end,
                everything_is_told_once_whatever_the_size_of_a_page,
                whoever_stops_anywhere_goes_on_without_a_hole,
                a_place_covers_what_was_there_and_nothing_later,
                a_past_of_hours_is_caught_up_with,
                what_is_no_place_of_this_store_is_told_apart,
                what_another_node_writes_is_told_too,
                an_event_is_told_when_it_is_durable,
                events_that_nobody_follows_are_passed_over,
                events_too_are_told_once_and_without_a_hole,
                whoever_follows_hears_more_after_everything_was_pruned,
                whoever_writes_stirs_the_feed,
            }
            promises! {
                $backend, audit:
                nothing_is_wrong_where_nothing_was_lost,
                a_lost_delivery_is_missed_by_its_event,
                a_fan_out_under_way_is_as_large_as_it_says,
                an_attempt_whose_delivery_is_lost_is_found,
                a_fact_whose_event_is_lost_is_found,
                a_dead_letter_needs_attempts_unless_its_reason_needs_none,
                the_first_row_of_every_track_is_seen,
                walks_go_on_where_they_stopped,
                a_large_fan_out_is_looked_at_alone,
                what_is_found_is_found_again_by_its_key,
                a_lane_is_free_unless_somebody_holds_it,
                a_shard_without_an_owner_is_told,
            }
            promises! {
                $backend, lanes:
                a_lane_is_read_as_it_was_published,
                the_newest_word_about_a_lane_counts,
                old_words_are_not_heard,
                lanes_are_answered_in_the_order_asked_for,
                of_a_destination_that_is_gone_nothing_is_kept,
            }
            promises! {
                $backend, test_sends:
                a_test_is_taken_once_by_the_owner_of_its_shard,
                the_answer_to_a_test_is_read_as_it_was_given,
                a_test_that_was_forgotten_stays_so,
                what_nobody_waits_for_any_more_is_forgotten,
            }
            promises! {
                $backend, erasure:
                a_deleted_account_is_none,
                nothing_is_accepted_for_a_deleted_account,
                deleting_again_changes_nothing,
                everything_of_an_account_is_erased_and_nothing_of_another,
                a_late_word_about_a_deleted_account_is_not_kept,
                an_earlier_term_erases_nothing,
                what_was_stopped_in_the_middle_goes_on,
                an_erased_payload_is_gone_and_the_event_is_not,
                a_payload_in_use_is_not_erased,
                of_an_erased_payload_nothing_is_made_again,
                answers_are_erased_in_steps,
                a_late_answer_to_an_erased_payload_is_not_kept,
            }
            promises! {
                $backend, wakes:
                missed_comes_first,
                what_one_tells_the_others_hear,
                nobody_hears_himself,
                a_wait_that_was_given_up_loses_nothing,
                lanes_too_many_to_name_are_still_heard_of,
            }
        }
    };
}

macro_rules! promises {
    ($backend:ident, $part:ident: $($promise:ident,)*) => {
        mod $part {$(
            #[test]
            fn $promise() {
                crate::backend::check(crate::backend::Backend::$backend, crate::$part::$promise);
            }
        )*}
    };
}

kept_by!(memory, Memory);
kept_by!(sqlite, Sqlite);
kept_by!(postgres, Postgres);
