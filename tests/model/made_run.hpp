// Small reference runs for tests of their readers.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/tensor_file.hpp"

namespace troupe::model {

// Two steps of one trainer: table 0 has weights (sum), table 1 uses PyTorch's default mode; one dense feature, no
// hidden layer, two outputs. Step 0 has two samples, the first without indices for table 0; step 1 has one sample.
inline tensor_file made_run() {
  tensor_file file;
  file.config =
      R"({"trainers":1,"steps":2,"dense_features":1,"outputs":2,"loss":"bce_logits",)"
      R"("tables":[{"rows":4,"dim":2,"mode":"sum","weighted":true},{"rows":3,"dim":1}],)"
      R"("dense_optimizer":{"kind":"adam","betas":[0.8,0.95],"eps":1e-6,"weight_decay":0.01,"amsgrad":false},)"
      R"("sparse_optimizer":{"kind":"adagrad","initial_accumulator_value":0.1}})";
  for (const char* when : {"init", "final"}) {
    const std::string prefix = when;
    file.set<double>(prefix + ".table.0.weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    file.set<float>(prefix + ".table.1.weight", {3, 1}, {1, 2, 3});
    file.set<float>(prefix + ".dense.0.weight", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    file.set<double>(prefix + ".dense.0.bias", {2}, {9, 10});
  }
  file.set<std::int64_t>("trainer.0.bags", {2}, {2, 1});
  file.set<std::int64_t>("trainer.0.table.0.index_count", {2}, {2, 1});
  file.set<std::int64_t>("trainer.0.table.0.indices", {3}, {3, 0, 1});
  file.set<std::int64_t>("trainer.0.table.0.offsets", {3}, {0, 0, 0});
  file.set<float>("trainer.0.table.0.weights", {3}, {0.5F, -1, 2});
  file.set<std::int64_t>("trainer.0.table.1.index_count", {2}, {1, 0});
  file.set<std::int64_t>("trainer.0.table.1.indices", {1}, {2});
  file.set<std::int64_t>("trainer.0.table.1.offsets", {3}, {0, 1, 0});
  file.set<float>("trainer.0.dense", {3, 1}, {0.25F, 0.5F, 0.75F});
  file.set<float>("trainer.0.target", {3, 2}, {0, 1, 1, 0, 1, 1});
  file.set<double>("trainer.0.loss", {2}, {0.7, 0.6});
  return file;
}

// Two steps of two trainers, each with two images of 1 x 2 x 2: a convolution with kernels of size 2, a batch norm
// without scale, a residual block of a batch norm, a flatten layer and a linear one; one output.
inline tensor_file made_layer_run() {
  tensor_file file;
  file.config =
      R"({"trainers":2,"steps":2,"batch":2,"input":[1,2,2],"outputs":1,"loss":"mse",)"
      R"("layers":[{"kind":"conv2d","out_channels":2,"kernel":2,"bias":false},{"kind":"batch_norm","scale":false},)"
      R"({"kind":"residual","layers":[{"kind":"batch_norm"}]},{"kind":"flatten"},{"kind":"linear","out":1}],)"
      R"("dense_optimizer":{"kind":"sgd","lr":0.5}})";
  for (const char* when : {"init", "final"}) {
    const std::string layer = fmt::format("{}.layer.", when);
    file.set<float>(layer + "0.weight", {2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    file.set<double>(layer + "1.bias", {2}, {9, 10});
    file.set<float>(layer + "1.running_mean", {2}, {-1, -2});
    file.set<double>(layer + "1.running_var", {2}, {-3, -4});
    file.set<float>(layer + "2.0.weight", {2}, {11, 12});
    file.set<float>(layer + "2.0.bias", {2}, {13, 14});
    file.set<float>(layer + "2.0.running_mean", {2}, {-5, -6});
    file.set<float>(layer + "2.0.running_var", {2}, {-7, -8});
    file.set<float>(layer + "4.weight", {1, 2}, {15, 16});
    file.set<float>(layer + "4.bias", {1}, {17});
  }
  for (int rank = 0; rank < 2; ++rank) {
    const std::string trainer = fmt::format("trainer.{}.", rank);
    std::vector<float> numbers;
    for (int i = 0; i < 16; ++i) numbers.push_back(static_cast<float>(100 * rank + i));
    file.set<float>(trainer + "input", {4, 1, 2, 2}, numbers);
    file.set<float>(trainer + "target", {4, 1}, {0, 1, 2, 3});
    file.set<double>(trainer + "loss", {2}, {0.7, 0.6});
  }
  file.set<float>("eval.input", {1, 1, 2, 2}, {1, 2, 3, 4});
  file.set<double>("eval.output", {1, 1}, {0.5});
  return file;
}

}  // namespace troupe::model
