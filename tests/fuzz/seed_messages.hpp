// One message of each type that is sent over data links, as in a run with a table of two columns.

#pragma once

#include <caf/message.hpp>
#include <string>
#include <utility>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/messages.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

inline bytes joined(const std::vector<msg::blob>& parts) {
  bytes all;
  for (const msg::blob& part : parts) all.insert(all.end(), part.data(), part.data() + part.size());
  return all;
}

inline std::vector<std::pair<std::string, caf::message>> seed_messages() {
  const msg::header head{1, 1, 3, 0, 1, 0};
  const msg::blob indices = msg::blob::own(std::vector<std::int64_t>{3, 0, 4});
  const msg::blob offsets = msg::blob::own(std::vector<std::int64_t>{0, 1});
  const msg::blob weights = msg::blob::own(std::vector<float>{1, 0.5F, 2});
  const msg::tensor pooled = msg::tensor::own(2, 2, std::vector<float>{1, -1, 0.25F, 8});
  const msg::tensor of_rows = msg::tensor::own(3, 2, std::vector<float>(6, 1));
  const msg::tensor column = msg::tensor::own(4, 1, std::vector<float>{1, -1, 0.25F, 8});
  return {
      {"lookup", caf::make_message(msg::lookup{head, {{1, indices, offsets, weights}}, 0, dtype::f32})},
      {"lookup_of_rows", caf::make_message(msg::lookup{head, {{1, indices, {}, {}}, {1, {}, {}, {}}}, 1, dtype::bf16})},
      {"rows", caf::make_message(msg::rows{head, {pooled, of_rows}, 1})},
      {"gradient", caf::make_message(msg::gradient{head, 0, true, true, {{1, indices, offsets, {}, pooled}}})},
      {"gradient_of_rows", caf::make_message(msg::gradient{head, 0, true, false, {{1, indices, {}, {}, of_rows}}})},
      {"no_gradient", caf::make_message(msg::gradient{head, 0, false, true, {}})},
      {"gradient_norm", caf::make_message(msg::gradient_norm{head, 0})},
      {"squared_norm", caf::make_message(msg::squared_norm{head, indices})},
      {"optimizer_step", caf::make_message(msg::optimizer_step{head, 0, true, 0.5F})},
      {"committed", caf::make_message(msg::committed{head})},
      {"call", caf::make_message(msg::call{head, 1, "push", "x", {of_rows}, true})},
      {"returned", caf::make_message(msg::returned{head, "x", {of_rows}})},
      {"bucket_share", caf::make_message(msg::bucket_share{head, 1, 0, 1, false, 0, 6, of_rows})},
      {"bucket_share_of_zeros", caf::make_message(msg::bucket_share{head, 1, 0, 0, true, 0, 6, {}})},
      {"bucket_sum", caf::make_message(msg::bucket_sum{head, 0, 0, false, of_rows})},
      {"collective_share",
       caf::make_message(msg::collective_share{head, 1, {0, 1}, 0, 1, "all_gather [4] of float32", {4}, column})},
      {"barrier", caf::make_message(msg::collective_share{head, 1, {0, 1}, 1, 2, "barrier", {}, {}})},
      {"collective_sum", caf::make_message(msg::collective_sum{head, 1, {0, 1}, 0, 1, column})},
      {"peer_tensor", caf::make_message(msg::peer_tensor{head, 1, {0, 1}, 0, 3, {2, 2}, column})},
      {"peer_ended", caf::make_message(msg::peer_ended{head, 1, 10, 1})},
      {"peer_optimizer",
       caf::make_message(msg::peer_optimizer{head, 1, 3, "linear replica0 by sgd with lr 0.1", "train.cpp:14"})},
      {"wait_probe",
       caf::make_message(msg::wait_probe{
           head, 1, 3, {{.rank = 1, .members = {0, 1}, .number = 2, .words = "trainer 1 calls barrier"}}})},
      {"activation", caf::make_message(msg::activation{head, 0, 1, true, 4, 1, true, pooled,
                                                       msg::tensor::own(2, 1, std::vector<std::int64_t>{0, 1})})},
      {"no_activation", caf::make_message(msg::activation{head, 0, 0, true, 0, 1, true})},
      {"activation_gradient", caf::make_message(msg::activation_gradient{head, 1, 1, pooled, 0.5})},
      {"part_outputs", caf::make_message(msg::part_outputs{head, 1, pooled})},
      {"partial_sum", caf::make_message(msg::partial_sum{head, 1, 3, pooled})},
      {"part_query", caf::make_message(msg::part_query{head, true})},
      {"part_state", caf::make_message(msg::part_state{head, {column, column}})}};
}

}  // namespace troupe::fuzz
