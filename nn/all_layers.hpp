// The library's layers in job files, besides those that a program adds (own_layer.hpp). To add a layer, add a line
// here, in the order of the lists in errors, and include its header.

#pragma once

#include <variant>

#include "nn/batch_norm.hpp"
#include "nn/conv2d.hpp"
#include "nn/elementwise.hpp"
#include "nn/embedding.hpp"
#include "nn/layer_norm.hpp"
#include "nn/linear.hpp"
#include "nn/low_rank_cross.hpp"
#include "nn/lstm.hpp"
#include "nn/multi_head_attention.hpp"
#include "nn/own_layer.hpp"
#include "nn/pool2d.hpp"
#include "nn/residual.hpp"

namespace troupe::nn {

template <class... Layers>
struct layer_list {
  using options = std::variant<typename Layers::options..., own_layer_options>;

  /// Calls `use.template operator()<Layer>()` for each layer.
  template <class Use>
  static void for_each(Use use) {
    (use.template operator()<Layers>(), ...);
  }
};

using all_layers = layer_list<linear,                //
                              relu,                  //
                              gelu,                  //
                              dropout,               //
                              conv2d,                //
                              max_pool2d,            //
                              avg_pool2d,            //
                              global_avg_pool2d,     //
                              flatten,               //
                              batch_norm,            //
                              layer_norm,            //
                              low_rank_cross,        //
                              lstm,                  //
                              embedding,             //
                              multi_head_attention,  //
                              residual>;

}  // namespace troupe::nn
