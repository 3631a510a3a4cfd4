// The numbers by which message types are known on the wire. They are positions in this list: append, never reorder.

#pragma once

#include <caf/all.hpp>

namespace troupe {

enum class errc : std::uint8_t;
enum class dtype : std::uint8_t;
class blob;
struct header;
struct tensor;

struct module_spec;
struct instantiate;
struct module_ref;
struct bag_lookup;
struct lookup;
struct rows;
struct bag_gradient;
struct gradient;
struct gradient_norm;
struct squared_norm;
struct optimizer_step;
struct committed;
struct parameters;
struct parameter_info;
struct parameter_list;
struct state_dict;
struct module_state;
struct load_state_dict;
struct row_digests;
struct save_module;
struct saved_module;
struct restore_module;
struct release;

struct reduce;
struct reduced;
struct bucket_share;
struct group_devices;
struct bucket_sum;

struct trainer_position;
struct save_dense;
struct train;
struct trained;
struct progress;
struct epoch_report;
struct evaluation;

struct join_server;
struct join_trainer;
struct joined;
struct run;
struct run_result;
struct status;
struct run_status;
struct stop;

struct peer_node;
struct expect_peers;
struct connect_peers;
struct connected;
struct run_over;
struct join_node;
struct admitted;
struct node_lost;
struct link_lost;
struct give_up;

struct actor_query;
struct wait_status;
struct queue_status;
struct actor_status;
struct node_status;
struct trouble;
struct evidence_query;
struct evidence;
struct collect_evidence;
struct collected_evidence;
struct verdict_found;

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::errc))
CAF_ADD_TYPE_ID(troupe, (troupe::dtype))
CAF_ADD_TYPE_ID(troupe, (troupe::blob))
CAF_ADD_TYPE_ID(troupe, (troupe::header))
CAF_ADD_TYPE_ID(troupe, (troupe::tensor))
CAF_ADD_TYPE_ID(troupe, (troupe::module_spec))
CAF_ADD_TYPE_ID(troupe, (troupe::instantiate))
CAF_ADD_TYPE_ID(troupe, (troupe::module_ref))
CAF_ADD_TYPE_ID(troupe, (troupe::bag_lookup))
CAF_ADD_TYPE_ID(troupe, (troupe::lookup))
CAF_ADD_TYPE_ID(troupe, (troupe::rows))
CAF_ADD_TYPE_ID(troupe, (troupe::bag_gradient))
CAF_ADD_TYPE_ID(troupe, (troupe::gradient))
CAF_ADD_TYPE_ID(troupe, (troupe::optimizer_step))
CAF_ADD_TYPE_ID(troupe, (troupe::committed))
CAF_ADD_TYPE_ID(troupe, (troupe::parameters))
CAF_ADD_TYPE_ID(troupe, (troupe::parameter_info))
CAF_ADD_TYPE_ID(troupe, (troupe::parameter_list))
CAF_ADD_TYPE_ID(troupe, (troupe::state_dict))
CAF_ADD_TYPE_ID(troupe, (troupe::module_state))
CAF_ADD_TYPE_ID(troupe, (troupe::load_state_dict))
CAF_ADD_TYPE_ID(troupe, (troupe::row_digests))
CAF_ADD_TYPE_ID(troupe, (troupe::release))
CAF_ADD_TYPE_ID(troupe, (troupe::reduce))
CAF_ADD_TYPE_ID(troupe, (troupe::reduced))
CAF_ADD_TYPE_ID(troupe, (troupe::train))
CAF_ADD_TYPE_ID(troupe, (troupe::trained))
CAF_ADD_TYPE_ID(troupe, (troupe::progress))
CAF_ADD_TYPE_ID(troupe, (troupe::epoch_report))
CAF_ADD_TYPE_ID(troupe, (troupe::evaluation))
CAF_ADD_TYPE_ID(troupe, (troupe::join_server))
CAF_ADD_TYPE_ID(troupe, (troupe::join_trainer))
CAF_ADD_TYPE_ID(troupe, (troupe::joined))
CAF_ADD_TYPE_ID(troupe, (troupe::run))
CAF_ADD_TYPE_ID(troupe, (troupe::run_result))
CAF_ADD_TYPE_ID(troupe, (troupe::status))
CAF_ADD_TYPE_ID(troupe, (troupe::run_status))
CAF_ADD_TYPE_ID(troupe, (troupe::stop))
CAF_ADD_TYPE_ID(troupe, (troupe::gradient_norm))
CAF_ADD_TYPE_ID(troupe, (troupe::squared_norm))
CAF_ADD_TYPE_ID(troupe, (troupe::save_module))
CAF_ADD_TYPE_ID(troupe, (troupe::saved_module))
CAF_ADD_TYPE_ID(troupe, (troupe::restore_module))
CAF_ADD_TYPE_ID(troupe, (troupe::trainer_position))
CAF_ADD_TYPE_ID(troupe, (troupe::save_dense))
CAF_ADD_TYPE_ID(troupe, (troupe::bucket_share))
CAF_ADD_TYPE_ID(troupe, (troupe::bucket_sum))
CAF_ADD_TYPE_ID(troupe, (troupe::peer_node))
CAF_ADD_TYPE_ID(troupe, (troupe::expect_peers))
CAF_ADD_TYPE_ID(troupe, (troupe::connect_peers))
CAF_ADD_TYPE_ID(troupe, (troupe::connected))
CAF_ADD_TYPE_ID(troupe, (troupe::run_over))
CAF_ADD_TYPE_ID(troupe, (troupe::join_node))
CAF_ADD_TYPE_ID(troupe, (troupe::admitted))
CAF_ADD_TYPE_ID(troupe, (troupe::node_lost))
CAF_ADD_TYPE_ID(troupe, (troupe::link_lost))
CAF_ADD_TYPE_ID(troupe, (troupe::give_up))
CAF_ADD_TYPE_ID(troupe, (troupe::actor_query))
CAF_ADD_TYPE_ID(troupe, (troupe::wait_status))
CAF_ADD_TYPE_ID(troupe, (troupe::queue_status))
CAF_ADD_TYPE_ID(troupe, (troupe::actor_status))
CAF_ADD_TYPE_ID(troupe, (troupe::node_status))
CAF_ADD_TYPE_ID(troupe, (troupe::trouble))
CAF_ADD_TYPE_ID(troupe, (troupe::evidence_query))
CAF_ADD_TYPE_ID(troupe, (troupe::evidence))
CAF_ADD_TYPE_ID(troupe, (troupe::collect_evidence))
CAF_ADD_TYPE_ID(troupe, (troupe::collected_evidence))
CAF_ADD_TYPE_ID(troupe, (troupe::verdict_found))
CAF_ADD_TYPE_ID(troupe, (troupe::group_devices))
CAF_END_TYPE_ID_BLOCK(troupe)
