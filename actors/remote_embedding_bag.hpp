// The remote module type `EmbeddingBag`.

#pragma once

#include "actors/remote_module.hpp"

namespace troupe::actors {

/// See `make_remote_module`.
caf::expected<std::unique_ptr<remote_module>> make_remote_embedding_bag(const msg::instantiate& order,
                                                                        kernels::device& where);

}  // namespace troupe::actors
