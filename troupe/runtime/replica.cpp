#include "troupe/runtime/replica.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/assert.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

/// A replica's module applied to an input.
class application final : public node {
 public:
  application(replica& of, const tape& in, const tensor& input)
      : replica_(of), source_(in.maker_of(input)), key_(in.key()), input_(input), output_(of.module_->output(input)) {
    saved_.resize(of.module_->saved(input));
    of.module_->forward(how(), numbers());
  }

  const tensor& output() const { return output_; }
  const replica& of() const { return replica_; }

  void backward(tape& on) override {
    if (source_ == nullptr) return;
    tensor grad_input(input_.shape());
    replica_.module_->backward(how(), numbers(), grad.as<float>().data(), grad_input.as<float>().data(), nullptr);
    on.give(*source_, std::move(grad_input));
  }

  void backward_parameters(float* grad_parameters) const {
    replica_.module_->backward(how(), numbers(), grad.as<float>().data(), nullptr, grad_parameters);
  }

 private:
  nn::pass how() const { return {replica_.numbers_.compute(), true, key_}; }
  nn::pass_numbers numbers() const {
    return {replica_.numbers_.weights_data(), replica_.numbers_.buffers_data(), input_, output_.as<float>().data(),
            saved_.data()};
  }

  replica& replica_;
  node* source_;  ///< what computed the input; null: nothing whose gradient is wanted
  std::uint64_t key_;
  tensor input_;
  tensor output_;
  mutable std::vector<float> saved_;
};

replica::replica(std::shared_ptr<const nn::module> module, std::uint64_t seed, std::uint64_t number,
                 std::uint32_t first_bucket, const kept_state& from)
    : module_(std::move(module)),
      name_(fmt::format("replica{}", number)),
      from_(from),
      first_bucket_(first_bucket),
      numbers_({{0, nn::count_of(module_->parameters())}}, kernels::host_device(), {}) {
  std::vector<float> parameters(nn::count_of(module_->parameters()));
  std::vector<float> buffers(nn::count_of(module_->buffers()));
  module_->initialize(model::random_key(seed, model::random_stream::dense_weights, 0, number), parameters.data(),
                      buffers.data());
  if (from_.is_resumed()) {
    parameters = restored(module_->parameters(), "");
    buffers = restored(module_->buffers(), "");
  }
  numbers_.start(parameters, buffers);
}

/// Returns tensors of the checkpoint, flat.
std::vector<float> replica::restored(const std::vector<nn::parameter>& tensors, const std::string& suffix) const {
  std::vector<float> flat;
  for (const nn::parameter& one : tensors) {
    const auto part = from_.restored<float>(fmt::format("{}.{}{}", name_, one.name, suffix));
    if (part.size() != one.shape.count())
      throw error(error_kind::input, fmt::format("--resume: {} of {} has {} numbers, the checkpoint has {}", one.name,
                                                 module_->type(), one.shape.count(), part.size()));
    flat.insert(flat.end(), part.begin(), part.end());
  }
  return flat;
}

void replica::put(msg::save_dense& into) {
  const std::vector<msg::tensor> state = numbers_.state();
  const bool has_buffers = !module_->buffers().empty();
  const std::size_t of_optimizer = state.size() - 1 - (has_buffers ? 1 : 0);
  put_flat(into, name_, module_->parameters(), "", state.front());
  for (std::size_t k = 0; k < of_optimizer; ++k)
    put_flat(into, name_, module_->parameters(), fmt::format(".state.{}", k), state[k + 1]);
  if (has_buffers) put_flat(into, name_, module_->buffers(), "", state.back());
}

tensor replica::apply(tape& on, const tensor& input) {
  auto made = std::make_shared<application>(*this, on, input);
  tensor output = made->output();
  return on.add(std::move(output), std::move(made));
}

void replica::set_optimizer(const optimizer_choice& choice) {
  if (has_optimizer_) throw error(error_kind::input, fmt::format("{}: has an optimizer already", module_->type()));
  auto parsed = model::parse_optimizer(choice.name, model::optimizer_use::dense);
  if (!parsed) throw error(error_kind::input, parsed.error().message);
  parsed->lr = choice.lr;
  numbers_.set_optimizer(*parsed);
  has_optimizer_ = true;
  if (!from_.is_resumed()) return;
  std::vector<msg::tensor> state;
  const auto add = [&](std::vector<float> flat) {
    const std::uint64_t count = flat.size();
    state.push_back(msg::tensor::own(count, 1, std::move(flat)));
  };
  add(restored(module_->parameters(), ""));
  for (int k = 0; k < model::state_buffers(*parsed); ++k)
    add(restored(module_->parameters(), fmt::format(".state.{}", k)));
  if (!module_->buffers().empty()) add(restored(module_->buffers(), ""));
  TROUPE_ASSERT(numbers_.restore(state));
}

void replica::backward(tape& of, std::uint64_t step, const std::function<void(std::uint32_t)>& full) {
  std::vector<const application*> passes;
  for (const auto& one : of.nodes())
    if (const auto* mine = dynamic_cast<const application*>(one.get());
        mine && &mine->of() == this && mine->grad.count())
      passes.push_back(mine);
  if (passes.empty()) return;
  const model::parameter_range all{0, numbers_.parameter_count()};
  numbers_.backward(
      step, true,
      [&](const actors::trained_parameters::gradient_at& at, const actors::trained_parameters::finished& finished) {
        float* const grad = at(all);
        passes.front()->backward_parameters(grad);
        std::vector<float> more(passes.size() > 1 ? all.count : 0);
        for (std::size_t i = 1; i < passes.size(); ++i) {
          passes[i]->backward_parameters(more.data());
          for (std::size_t k = 0; k < all.count; ++k) grad[k] += more[k];
        }
        finished(all);
      },
      full);
}

}  // namespace troupe::runtime
