#include "troupe/context.hpp"

#include <utility>

#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

context::context(std::unique_ptr<runtime::tape> made) : tape_(std::move(made)) {}
context::context(context&&) noexcept = default;
context& context::operator=(context&&) noexcept = default;
context::~context() = default;

future<> context::backward(const tensor& loss, double scale, source_location at) {
  tape_->owner().communicator().set_place(at);
  return tape_->backward(loss, scale);
}

}  // namespace troupe
