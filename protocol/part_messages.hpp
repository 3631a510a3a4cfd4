// Messages between the parts of a network, each with its own trainer: the stages of a pipeline, and the slices of a
// stage that tensor parallelism cuts. The first slice of the first stage has the batches and the tables' rows, and
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

/// A slice's outputs for a micro-batch, for the same slice of the next stage. The receiver answers in training with an
/// `activation_gradient`, else with `part_outputs`. From the leader to the other slices of its stage: the network's
/// input, whose gradient they do not send.
struct activation {
  header head;
  std::uint32_t rank = 0;  ///< the sending trainer's rank in the run
  std::uint32_t micro_batch = 0;
  bool trains = true;
  /// The samples of the whole batch; 0: the replica has none in this step, and sends only this message.
  std::uint64_t batch_size = 0;
  /// The optimizer step, from 1. 0, if steps overlap: no step follows before all have been passed back.
  std::uint64_t update = 0;
  bool ends_update = false;  ///< this step is the optimizer step's last one
  tensor numbers = {};       ///< f32 [samples, features]
  tensor classes = {};       ///< i64 [samples]; empty if the loss uses values
  tensor values = {};        ///< f32 [samples, outputs]; empty if the loss uses classes

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(activation, (),
                      (head, rank, micro_batch, trains, batch_size, update, ends_update, numbers, classes, values))

/// The gradient of an activation, for the stage that computed the activation.
struct activation_gradient {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t micro_batch = 0;
  tensor numbers;   ///< its shape is that of the activation's numbers
  double loss = 0;  ///< the micro-batch's share of the batch's mean loss

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(activation_gradient, (), (head, rank, micro_batch, numbers, loss))

/// The network's outputs for an activation that does not train; every part passes them back to the part before.
struct part_outputs {
  header head;
  std::uint32_t rank = 0;
  tensor numbers;

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(part_outputs, (), (head, rank, numbers))

/// A slice's share of a sum over all slices of its stage; each slice adds the shares in the order of slices.
struct partial_sum {
  header head;
  std::uint32_t rank = 0;    ///< the sending trainer's rank in the run
  std::uint64_t number = 0;  ///< counts the sums: all slices have the same sums in the same order
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
  double pass_seconds = 0;      ///< how long the part has spent on micro-batches

  static constexpr message_traits traits{.via = plane::data, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(part_state, (), (head, numbers, pass_seconds))

/// A trainer, as the other trainers of its replica see it.
using part_actor = caf::typed_actor<caf::result<void>(activation), caf::result<void>(activation_gradient),
                                    caf::result<void>(part_outputs), caf::result<void>(partial_sum),
                                    caf::result<part_state>(part_query), caf::result<squared_norm>(gradient_norm),
                                    caf::result<committed>(optimizer_step)>;
/// All messages that a trainer accepts.
using full_trainer_actor = trainer_actor::extend_with<part_actor>::extend_with<peer_actor>;

}  // namespace troupe::msg
