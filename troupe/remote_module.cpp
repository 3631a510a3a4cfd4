#include "troupe/remote_module.hpp"

#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

future<tensor> remote_module<nn::embedding_bag>::forward(context& in, std::span<const std::int64_t> indices,
                                                         std::span<const std::int64_t> offsets) const {
  return in.tape().owner().look_up(in.tape(), table_, indices, offsets);
}

}  // namespace troupe
