// The input of a pipeline stage, as a node of its tape.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

/// An input that another stage has computed: keeps its gradient for that stage.
class received_input final : public node {
 public:
  explicit received_input(std::uint32_t from) : from_(from) {}

  void backward(tape& /*on*/) override {}
  bool keeps_gradient() const override { return true; }
  std::string spoilt() const override {
    const std::string where = where_spoilt(output);
    return where.empty() ? ""
                         : fmt::format("the output of stage {} {}; look at the data that stage 0 takes, or {}", from_,
                                       where, spoilt_advice);
  }

 private:
  std::uint32_t from_;
};

}  // namespace troupe::runtime
