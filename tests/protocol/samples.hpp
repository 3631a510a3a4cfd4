// A message of every type, filled in, so that tests can send all of them.

#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <map>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

inline header some_header() { return {7, 12, 3, 1, 99, (message_id{2} << 48) | 41}; }

inline tensor some_tensor() { return tensor::own(2, 3, std::vector<float>{1, -2, 3.5F, 0, 1e-39F, -7}); }

inline blob some_indices() { return blob::own(std::vector<std::int64_t>{5, 0, -1, std::int64_t{1} << 40}); }

/// One filled-in sample of every message type, by type id. `spawn` makes the actors that some of them name, from a
/// function that gives their behavior.
template <class Spawn>
std::map<caf::type_id_t, caf::message> samples_of_all_types(Spawn spawn) {
  std::map<caf::type_id_t, caf::message> all;
  const auto add = [&all](auto x) { all[caf::type_id_v<decltype(x)>] = caf::make_message(std::move(x)); };
  auto server = spawn([](parameter_server_actor::pointer) {
    return parameter_server_actor::behavior_type{[](instantiate&) { return module_ref{}; },
                                                 [](lookup&) { return rows{}; },
                                                 [](gradient&) {},
                                                 [](gradient_norm&) { return squared_norm{}; },
                                                 [](optimizer_step&) { return committed{}; },
                                                 [](parameters&) { return parameter_list{}; },
                                                 [](state_dict&) { return module_state{}; },
                                                 [](load_state_dict&) { return committed{}; },
                                                 [](row_digests&) { return tensor{}; },
                                                 [](save_module&) { return saved_module{}; },
                                                 [](restore_module&) { return committed{}; },
                                                 [](release&) {},
                                                 [](actor_query&) { return actor_status{}; }};
  });
  auto group = spawn([](allreduce_actor::pointer) {
    return allreduce_actor::behavior_type{[](reduce&) { return reduced{}; }, [](bucket_share&) {}, [](bucket_sum&) {},
                                          [](group_devices&) {}, [](actor_query&) { return actor_status{}; }};
  });
  auto one_node = spawn([](node_actor::pointer) {
    return node_actor::behavior_type{
        [](expect_peers&) { return committed{}; }, [](connect_peers&) { return connected{}; }, [](run_over&) {},
        [](actor_query&) { return actor_status{}; }, [](evidence_query&) { return evidence{}; }};
  });
  auto reports = spawn([](report_actor::pointer) {
    return report_actor::behavior_type{[](progress&) {}, [](epoch_report&) {}, [](evaluation&) {},
                                       [](save_dense&) { return committed{}; }};
  });
  auto one_trainer = spawn([](trainer_actor::pointer) {
    return trainer_actor::behavior_type{[](train&) { return trained{}; }, [](stop&) {},
                                        [](actor_query&) { return actor_status{}; }};
  });
  const header head = some_header();
  const module_spec spec{"EmbeddingBag", {{"num_embeddings", "100"}, {"mode", "sum"}}};
  const module_ref ref{head, server, 4, 1, 3, 2};
  add(errc::not_finite);
  add(dtype::i64);
  add(some_indices());
  add(head);
  add(some_tensor());
  add(spec);
  add(instantiate{head, spec, 1, 3, 2, 4, 5, 6});
  add(ref);
  add(bag_lookup{4, some_indices(), blob::own(std::vector<std::int64_t>{0, 2}),
                 blob::own(std::vector<float>{1, 2, 3, 4})});
  add(lookup{head, {{4, some_indices(), {}, {}}}, 2, dtype::bf16});
  add(rows{head, {some_tensor(), some_tensor()}, 1});
  add(bag_gradient{4, some_indices(), {}, {}, some_tensor()});
  add(gradient{head, 1, false, true, {{4, some_indices(), {}, {}, some_tensor()}}});
  add(gradient_norm{head, 1});
  add(squared_norm{head, some_indices()});
  add(optimizer_step{head, 1, false, 0.5F});
  add(committed{head});
  add(parameters{head, 4});
  add(parameter_info{"weight", dtype::f32, 100, 16});
  add(parameter_list{head, {{"weight", dtype::f32, 100, 16}}});
  add(state_dict{head, 4});
  add(module_state{head, {{"weight", some_tensor()}}});
  add(load_state_dict{head, 4, {{"weight", some_tensor()}}});
  add(row_digests{head, 4, 5, 6});
  add(save_module{head, 4, "folder"});
  add(saved_module{head, "file", 5, "digest"});
  add(restore_module{head, 4, "directory", 40});
  add(release{head, 4});
  add(reduce{head, 1, 2, 3, true, some_tensor()});
  add(reduced{head, 2, true, some_tensor()});
  const trainer_position position{40, 5, 0.5, 0.25, {some_tensor()}, true};
  add(position);
  add(save_dense{head, 1, 5, 0.5, 0.25, 2, {some_tensor()}});
  add(train{head, 1, 2, {{"data", "adult"}}, {{ref}}, group, reports, position, true, 20, "digest", true, 300});
  add(trained{head, 40, true, some_tensor(), 77});
  add(progress{head, 5, 0.25, 1.5, 6});
  add(epoch_report{head, 1, 2, 3, 4, 0.5, 0.75, tensor::own(1, 1, std::vector<double>{0.125}), true, 5, 6, 7, 8});
  add(evaluation{head, 1, 2, 3, 4, some_tensor(), some_tensor(), 0.75, 1.5, 6, 2.5});
  add(join_server{head, server, 1});
  add(join_trainer{head, one_trainer, 2});
  add(joined{head, 3});
  add(run{head, {{"seed", "7"}}, true});
  add(run_result{head,
                 1,
                 2,
                 0.5,
                 0.25,
                 0.125,
                 0.9,
                 0.8,
                 true,
                 "abc",
                 {some_tensor()},
                 some_tensor(),
                 0.5,
                 1.25,
                 3,
                 2,
                 0.75,
                 0.625,
                 0.25});
  add(status{head});
  add(stop{head});
  add(bucket_share{head, 1, 2, 3, true, 4, 5, some_tensor()});
  add(bucket_sum{head, 1, 2, some_tensor()});
  add(group_devices{head, 1, "host", {"a", "b"}, some_tensor().bytes});
  const peer_node peer{3, 1, "server 0 (host a, pid 17)", true, {0, 2}, "10.0.0.1:7000", "a0b1"};
  add(peer);
  add(expect_peers{head, {peer}, "/runs/adult/step-000000000000-1a2b3c4d"});
  add(connect_peers{head});
  add(connected{head, {server}, group});
  add(run_over{head, true, "words"});
  add(join_node{head, true, 2, 1, "name", "host", 17, "10.0.0.1:7000", "session", {{"seed", "7"}}, one_node});
  add(admitted{head, 7, 3, 1, {0, 2}, 1, "resume"});
  add(node_lost{head, "session", "why"});
  add(link_lost{head, 1, 2, "why"});
  add(give_up{head, "words"});
  const wait_status wait{"trainer 0", "rows", 12, "server 1"};
  const queue_status queue{"lookups parked", 3, 4096, 5};
  const actor_status actor{head, "trainer 0", "looking up", 12, {wait}, {queue}};
  const node_status node{true, {0, 2}, "host", 17, "name", {queue}};
  add(actor_query{head});
  add(wait);
  add(queue);
  add(actor);
  add(node);
  add(run_status{head, "training", 1, 2, 3, 4, 0.5, 0.25, 0.125, {node}, {actor}, {wait}, "server 0 is gone"});
  add(trouble{head, "words"});
  add(evidence_query{head, "boot"});
  const evidence part{head, "host-17.ring", some_indices(), "/tmp/run", "stacks"};
  add(part);
  add(collect_evidence{head, "boot"});
  add(collected_evidence{head, {part}});
  add(verdict_found{head, "words"});
  return all;
}

}  // namespace troupe
