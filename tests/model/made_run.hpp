// A small reference run for the tests of its readers.

#pragma once

#include <cstdint>
#include <string>

#include "tests/model/tensor_file.hpp"

namespace troupe::model {

// Two steps of one trainer: table 0 has weights (sum), table 1 is left at PyTorch's default mode; one dense feature, no
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

}  // namespace troupe::model
