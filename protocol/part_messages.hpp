// Messages between the parts of a network, each of which another trainer has: the stages of a pipeline, and the slices
// of a stage that tensor parallelism cuts. The first slice of the first stage has the batches and the tables' rows, and
// leads its replica's other parts through the steps.

#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <vector>

#include "protocol/describe.hpp"
#include "protocol/header.hpp"
#include "protocol/server_messages.hpp"
#include "protocol/tensor.hpp"
#include "protocol/training_messages.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::msg {

/// What a slice of a stage has computed of a micro-batch, for the same slice of the next stage. In training, that one
/// answers by an `activation_gradient`, else by `part_outputs`. From the leader to the other slices of its stage: the
/// network's input, which has no gradient for them.
struct activation {
  header head;
  std::uint32_t rank = 0;  ///< of the sending trainer in the run
  std::uint32_t micro_batch = 0;
  bool trains = true;
  /// The samples of the whole batch; 0: the replica has none in this step, and this is all that comes of it.
  std::uint64_t batch_size = 0;
  /// The optimizer step, from 1. 0, where steps overlap: none follows before all have been passed back.
  std::uint64_t update = 0;
  bool ends_update = false;  ///< this step is its last one
  tensor numbers = {};       ///< f32 [samples, features]
  tensor classes = {};       ///< i64 [samples]; empty where the loss takes values
  tensor values = {};        ///< f32 [samples, outputs]; empty where the loss takes classes

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(activation, (),
                      (head, rank, micro_batch, trains, batch_size, update, ends_update, numbers, classes, values))

/// The gradient of an activation, for the stage that has computed it.
struct activation_gradient {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t micro_batch = 0;
  tensor numbers;   ///< as those of the activation
  double loss = 0;  ///< what the micro-batch adds to the mean loss of its batch

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(activation_gradient, (), (head, rank, micro_batch, numbers, loss))

/// The network's outputs for an activation that does not train; every part passes them back to the one before.
struct part_outputs {
  header head;
  std::uint32_t rank = 0;
  tensor numbers;

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(part_outputs, (), (head, rank, numbers))

/// A slice's share of a sum over all slices of its stage, which each of them adds up, in the order of slices.
struct partial_sum {
  header head;
  std::uint32_t rank = 0;    ///< of the sending trainer in the run
  std::uint64_t number = 0;  ///< of the sum: all slices have the same ones, in the same order
  tensor numbers;            ///< f32

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(partial_sum, (), (head, rank, number, numbers))

/// The leader asks another part of its replica for its state after this step. `ends`: the run ends with it.
struct part_query {
  header head;
  bool ends = false;

  static constexpr message_traits traits{.via = plane::data};
};
BOOST_DESCRIBE_STRUCT(part_query, (), (head, ends))

struct part_state {
  header head;
  std::vector<tensor> numbers;  ///< the parameters, the optimizer's buffers and the part's own buffers, each flat
  double pass_seconds = 0;      ///< how long the part has passed micro-batches

  static constexpr message_traits traits{.via = plane::data, .untold = 1};
};
BOOST_DESCRIBE_STRUCT(part_state, (), (head, numbers, pass_seconds))

/// A trainer, as the others of its replica see it.
using part_actor = caf::typed_actor<caf::result<void>(activation), caf::result<void>(activation_gradient),
                                    caf::result<void>(part_outputs), caf::result<void>(partial_sum),
                                    caf::result<part_state>(part_query), caf::result<squared_norm>(gradient_norm),
                                    caf::result<committed>(optimizer_step)>;
/// All that a trainer takes.
using full_trainer_actor = trainer_actor::extend_with<part_actor>::extend_with<peer_actor>;

}  // namespace troupe::msg
