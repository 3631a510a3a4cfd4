// The numbers of message types on the wire: their positions in this list, counted from 200. Append, never reorder.
// Unused types may be removed: recordings have names beside the numbers, and processes compare the forms of all
// messages.

#pragma once

#include <caf/all.hpp>

// clang-format off
#define TROUPE_STRUCTS(a_struct) \
  a_struct(header) \
  a_struct(tensor) \
  a_struct(module_spec) \
  a_struct(instantiate) \
  a_struct(module_ref) \
  a_struct(bag_lookup) \
  a_struct(lookup) \
  a_struct(rows) \
  a_struct(bag_gradient) \
  a_struct(gradient) \
  a_struct(optimizer_step) \
  a_struct(committed) \
  a_struct(parameters) \
  a_struct(parameter_info) \
  a_struct(parameter_list) \
  a_struct(state_dict) \
  a_struct(module_state) \
  a_struct(load_state_dict) \
  a_struct(row_digests) \
  a_struct(release) \
  a_struct(reduce) \
  a_struct(reduced) \
  a_struct(train) \
  a_struct(trained) \
  a_struct(progress) \
  a_struct(epoch_report) \
  a_struct(evaluation) \
  a_struct(join_server) \
  a_struct(join_trainer) \
  a_struct(joined) \
  a_struct(run) \
  a_struct(run_result) \
  a_struct(status) \
  a_struct(run_status) \
  a_struct(stop) \
  a_struct(gradient_norm) \
  a_struct(squared_norm) \
  a_struct(save_module) \
  a_struct(saved_module) \
  a_struct(restore_module) \
  a_struct(trainer_position) \
  a_struct(save_dense) \
  a_struct(bucket_share) \
  a_struct(bucket_sum) \
  a_struct(peer_node) \
  a_struct(expect_peers) \
  a_struct(connect_peers) \
  a_struct(connected) \
  a_struct(run_over) \
  a_struct(join_node) \
  a_struct(admitted) \
  a_struct(node_lost) \
  a_struct(link_lost) \
  a_struct(give_up) \
  a_struct(actor_query) \
  a_struct(wait_status) \
  a_struct(queue_status) \
  a_struct(actor_status) \
  a_struct(node_status) \
  a_struct(trouble) \
  a_struct(evidence_query) \
  a_struct(evidence) \
  a_struct(collect_evidence) \
  a_struct(collected_evidence) \
  a_struct(verdict_found) \
  a_struct(group_devices) \
  a_struct(set_optimizer) \
  a_struct(trainer_ended) \
  a_struct(collective_share) \
  a_struct(collective_sum) \
  a_struct(peer_tensor) \
  a_struct(peer_ended) \
  a_struct(call) \
  a_struct(returned) \
  a_struct(host_ranks) \
  a_struct(scale) \
  a_struct(activation) \
  a_struct(activation_gradient) \
  a_struct(part_outputs) \
  a_struct(part_query) \
  a_struct(part_state) \
  a_struct(partial_sum) \
  a_struct(peer_wait) \
  a_struct(wait_probe) \
  a_struct(peer_optimizer)
// clang-format on

namespace troupe {
enum class dtype : std::uint8_t;
namespace protocol {
enum class errc : std::uint8_t;
}
}  // namespace troupe

namespace troupe::msg {

class blob;

#define TROUPE_DECLARE(name) struct name;
TROUPE_STRUCTS(TROUPE_DECLARE)
#undef TROUPE_DECLARE

}  // namespace troupe::msg

// The quoted names are used by recordings, filters and handshakes; they do not follow the C++ namespace.
CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::errc), "troupe::errc")
CAF_ADD_TYPE_ID(troupe, (troupe::dtype), "troupe::dtype")
CAF_ADD_TYPE_ID(troupe, (troupe::msg::blob), "troupe::blob")
#define TROUPE_ADD_TYPE_ID(name) CAF_ADD_TYPE_ID(troupe, (troupe::msg::name), "troupe::" #name)
TROUPE_STRUCTS(TROUPE_ADD_TYPE_ID)
#undef TROUPE_ADD_TYPE_ID
CAF_END_TYPE_ID_BLOCK(troupe)
