#include "troupe/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

sgd::operator optimizer_choice() const {
  std::string name = fmt::format("sgd:momentum={},weight_decay={}", momentum, weight_decay);
  if (nesterov) name += ",nesterov=true";
  return {std::move(name), lr};
}

adagrad::operator optimizer_choice() const {
  return {fmt::format("adagrad:weight_decay={},initial_accumulator_value={},eps={}", weight_decay,
                      initial_accumulator_value, eps),
          lr};
}

adam::operator optimizer_choice() const {
  return {fmt::format("adam:beta1={},beta2={},eps={},weight_decay={}", beta1, beta2, eps, weight_decay), lr};
}

void distributed_optimizer::add_members(const optimizer_choice& choice, std::vector<runtime::trained> members) {
  runtime::trainer_runtime::current().set_optimizer(choice, members);
  std::ranges::move(members, std::back_inserter(members_));
}

future<> distributed_optimizer::step(context& with) const {
  return with.tape().owner().take_step(with.tape(), members_);
}

}  // namespace troupe
