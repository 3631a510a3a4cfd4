#include "troupe/runtime/tape.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <utility>

#include "base/assert.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

tape::tape(trainer_runtime& of)
    : owner_(of),
      number_(next_number()),
      key_(model::random_key(of.seed(), model::random_stream::network_passes, of.begin_context(), of.rank())) {}

tensor tape::add(tensor output, std::shared_ptr<node> made) {
  output.context_ = number_;
  output.node_ = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(std::move(made));
  return output;
}

tensor tape::with_numbers(const tensor& x, const shape& lengths, std::shared_ptr<std::byte> numbers) {
  tensor whole(lengths, dtype::f32, std::move(numbers));
  whole.context_ = x.context_;
  whole.node_ = x.node_;
  return whole;
}

node* tape::maker_of(const tensor& x) const {
  if (x.context_ == 0) return nullptr;
  if (x.context_ != number_)
    throw error(error_kind::input, fmt::format("a tensor {} that another context has computed; within one batch, use "
                                               "one context",
                                               to_string(x.shape())));
  return nodes_[x.node_].get();
}

void tape::give(node& to, tensor grad) {
  if (to.grad.count() == 0) {
    to.grad = std::move(grad);
    return;
  }
  const auto sum = to.grad.as<float>();
  const auto more = grad.as<float>();
  TROUPE_ASSERT(sum.size() == more.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

void tape::backward(const tensor& loss) {
  node* const from = maker_of(loss);
  if (from == nullptr || loss.count() != 1)
    throw error(error_kind::input,
                fmt::format("backward from a tensor {} that {}; it goes from a loss, a single number of this context",
                            to_string(loss.shape()), from == nullptr ? "no context has computed" : "is no loss"));
  if (const double value = loss.item(); !std::isfinite(value))
    throw error(error_kind::run,
                fmt::format("the loss is {}; try a smaller learning rate", std::isnan(value) ? "NaN" : "Inf"));
  owner_.note_loss(loss.item());
  tensor one{shape(1)};
  one.as<float>()[0] = 1;
  give(*from, std::move(one));
  for (std::size_t i = loss.node_ + 1; i-- > 0;)
    if (nodes_[i]->grad.count() > 0) nodes_[i]->backward(*this);
}

}  // namespace troupe::runtime
