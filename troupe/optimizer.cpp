#include "troupe/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "model/optimizer.hpp"
#include "troupe/error.hpp"
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
  if (!std::isfinite(choice.lr) || choice.lr < 0)
    throw error(error_kind::input, fmt::format("{}: lr {}: must be a number of 0 or more", choice.name, choice.lr));
  for (const runtime::trained& one : members) {
    const bool is_table = std::holds_alternative<std::shared_ptr<const runtime::remote_table>>(one);
    const auto use = is_table ? model::optimizer_use::table : model::optimizer_use::dense;
    if (const auto parsed = model::parse_optimizer(choice.name, use); !parsed)
      throw error(error_kind::input, parsed.error().message);
  }
  runtime::trainer_runtime::current().set_optimizer(choice, members);
  std::ranges::move(members, std::back_inserter(members_));
}

future<> distributed_optimizer::step(context& with) const {
  return with.tape().owner().take_step(with.tape(), members_);
}

}  // namespace troupe
