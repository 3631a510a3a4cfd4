#include "troupe/context.hpp"

#include <utility>

#include "troupe/runtime/tape.hpp"

namespace troupe {

context::context(std::unique_ptr<runtime::tape> made) : tape_(std::move(made)) {}
context::context(context&&) noexcept = default;
context& context::operator=(context&&) noexcept = default;
context::~context() = default;

future<> context::backward(const tensor& loss, double scale) { return tape_->backward(loss, scale); }

}  // namespace troupe
