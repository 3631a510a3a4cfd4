// A pass through a module on a server, in a tape: sends the output's gradient there, and receives the input's.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/future.hpp"
#include "troupe/runtime/caller.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

class remote_pass final : public node, public std::enable_shared_from_this<remote_pass> {
 public:
  /// `step`: the server's optimizer step; `number`: the pass's among this trainer's passes.
  remote_pass(tape& in, reference_ptr receiver, node* source, std::uint64_t step, std::uint64_t number,
              std::chrono::milliseconds deadline)
      : in_(in), receiver_(std::move(receiver)), source_(source), step_(step), number_(number), deadline_(deadline) {}

  /// Requests the output from the server.
  static future<tensor> begin(tape& in, const reference_ptr& receiver, std::chrono::milliseconds deadline,
                              const tensor& input);

  void backward(tape& on) override;
  bool waits() const override { return true; }
  std::string spoilt() const override;

  const reference_ptr& receiver() const { return receiver_; }

 private:
  tape& in_;
  reference_ptr receiver_;
  node* source_;        ///< computed the input; null if no gradient of it is needed
  tensor given_;        ///< the input, if the context has not computed it
  std::string weight_;  ///< the module's weight that is NaN or Inf, if its output is
  std::uint64_t step_;
  std::uint64_t number_;
  std::chrono::milliseconds deadline_;
};

}  // namespace troupe::runtime
