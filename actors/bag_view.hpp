// Batches of bags as views on the blobs of a message.

#pragma once

#include "kernels/embedding_bag.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// `message` is a bag_lookup or a bag_gradient; the view is valid as long as its blobs.
template <class Message>
kernels::bags_view view_of(const Message& message) {
  return {message.indices.template as<std::int64_t>(), message.offsets.template as<std::int64_t>(),
          message.weights.template as<float>()};
}

}  // namespace troupe::actors
